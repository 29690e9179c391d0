"""`trace status`"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.domain.figures import duration

if TYPE_CHECKING:
    from trace_platform.app.status import InstanceStatus, ProcessStatus
    from trace_platform.operators.spark.session_record import SessionRecord

_STYLES = {"ready": "green", "starting": "yellow", "restarting": "yellow"}


def status(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show the processes of an instance. Exit code 0: all are ready; 3: not so."""
    from trace_platform.app.home import Home
    from trace_platform.app.status import instance_status

    place = Home.at(home)
    found = instance_status(place)
    if as_json:
        typer.echo(json.dumps({"home": str(place.root), "ready": found.ready, **asdict(found)}))
    else:
        _show(str(place.root), found)
    raise typer.Exit(0 if found.ready else 3)


def _show(home: str, found: InstanceStatus) -> None:
    from trace_platform.cli.table import show_table
    from trace_platform.cli.words import wide_console

    console = wide_console()
    console.print(_heading(home, found), highlight=False, markup=False, soft_wrap=True)
    if found.processes:
        heads = ("process", "state", "pid", "port", "uptime", "restarts")
        show_table(console, heads, [_row(each) for each in found.processes])
    if found.supervisor:
        console.print(_spark(found.spark), highlight=False, markup=False, soft_wrap=True)


def _heading(home: str, found: InstanceStatus) -> str:
    if found.supervisor:
        return f"running in {home} (supervisor pid {found.supervisor})"
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
    )
