"""`trace status`"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.domain.figures import duration

if TYPE_CHECKING:
    from trace_platform.app.supervise.needs import Need
    from trace_platform.app.supervise.status import InstanceStatus, ProcessStatus
    from trace_platform.operators.spark.session_record import SessionRecord

_STYLES = {"ready": "green"} | dict.fromkeys(
    ("starting", "restarting", "stopping", "stopped"), "yellow"
)


def status(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show the processes of an instance. Exit code 0: all are ready; 3: not so."""
    from trace_platform.app.instance.home import Home
    from trace_platform.app.supervise.needs import look_at_needs
    from trace_platform.app.supervise.status import instance_status

    place = Home.at(home)
    found = instance_status(place)
    needs = look_at_needs(place, found)
    ready = found.ready and not any(need.trouble for need in needs)
    if as_json:
        said = {"needs": [asdict(need) for need in needs], **asdict(found)}
        typer.echo(json.dumps({"home": str(place.root), "ready": ready, **said}))
    else:
        _show(str(place.root), found, needs)
    raise typer.Exit(0 if ready else 3)


def _show(home: str, found: InstanceStatus, needs: list[Need]) -> None:
    from trace_platform.cli.table import show_table
    from trace_platform.cli.words import wide_console

    console = wide_console()
    console.print(at_home(_heading(home, found)), highlight=False, markup=False, soft_wrap=True)
    if found.processes:
        heads = ("process", "state", "pid", "port", "uptime", "restarts", "kept by")
        show_table(console, heads, [_row(each) for each in found.processes])
    if found.runs and not found.stopping:
        console.print(_spark(found.spark), highlight=False, markup=False, soft_wrap=True)
    for need in needs:
        if need.trouble:
            said = f"{need.name}: {need.trouble}"
            console.print(said, style="red", highlight=False, markup=False, soft_wrap=True)


def _heading(home: str, found: InstanceStatus) -> str:
    if found.supervisor:
        does = "stopping" if found.stopping else "running"
        return f"{does} in {home} (supervisor pid {found.supervisor})"
    if found.runs:
        return f"running in {home}, each process under a supervisor of its own"
    if found.processes:
        # Dead ones too: their children may live, and only a clean-up looks for them.
        cure = "trace up or trace down cleans up"
        return f"no supervisor in {home}; these were left over ({cure}):"
    return f"nothing runs in {home}"


def _spark(found: SessionRecord | None) -> str:
    if found is None:
        return "spark: not started yet"
    return f"spark: {found.error or f'{found.master}, application {found.application}'}"


def _row(each: ProcessStatus) -> tuple[str, ...]:
    style = _STYLES.get(each.state, "red")
    return (
        each.name,
        f"[{style}]{each.state}[/{style}]",
        str(each.pid or "-"),
        str(each.port or "-"),
        "-" if each.uptime_s is None else duration(each.uptime_s),
        str(each.restarts),
        each.by,
    )
