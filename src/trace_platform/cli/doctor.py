"""`trace doctor`"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption

if TYPE_CHECKING:
    from trace_platform.app.security.examine import Examined

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
# Of what succeeded; `--json` has all of it.
_SHOWN = 20

SecurityOption = Annotated[
    bool,
    typer.Option(
        "--security",
        help="Attack the instance that runs here, as another user of this host (as root) and as "
        "each role of its databases, and list its ports, modes and rights.",
    ),
]


def doctor(
    home: HomeOption = None, security: SecurityOption = False, as_json: JsonOption = False
) -> None:
    """Check this machine, and say how to mend what is not right. Exit code 1: something fails."""
    if security:
        _attack(home, as_json=as_json)
        return
    from trace_platform.app.doctor import Finding, examine
    from trace_platform.app.instance.home import Home

    found: list[Finding] = []
    for finding in examine(Home.at(home)):
        found.append(finding)
        if not as_json:
            level = typer.style(f"{finding.level:<4}", fg=_COLOURS[finding.level])
            typer.echo(f"{level}  {finding.check:<9} {finding.detail}")
            if finding.mend:
                typer.echo(f"{'':16}{at_home(finding.mend)}")
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in found]))
    raise typer.Exit(1 if any(finding.level == "fail" for finding in found) else 0)


def _attack(home: HomeOption, *, as_json: bool) -> None:
    from trace_platform.app.instance.home import Home
    from trace_platform.app.security.examine import examine

    found = examine(Home.at(home))
    if as_json:
        typer.echo(json.dumps(_as_json(found)))
    else:
        _show(found)
    raise typer.Exit(1 if found.succeeded else 0)


def _as_json(found: Examined) -> dict[str, object]:
    return {
        "ports": [asdict(each) for each in found.ports],
        "modes": [asdict(each) for each in found.modes],
        "rights": [asdict(each) for each in found.rights],
        "tried": len(found.attempts),
        "not_tried": found.not_tried,
        "succeeded": [asdict(each) for each in found.succeeded],
    }


def _show(found: Examined) -> None:
    typer.echo("listening")
    for port in found.ports:
        times = f" x{port.count}" if port.count > 1 else ""
        typer.echo(f"  {port.part:<12}{port.program:<12}{port.address}{times}")
    typer.echo("modes")
    for mode in found.modes:
        typer.echo(f"  {mode.mode}  {mode.name}")
    typer.echo("rights")
    for right in found.rights:
        typer.echo(f"  {right.role:<20}{right.database:<13}{right.rights}: {right.objects}")
    tried = Counter(each.who for each in found.attempts)
    typer.echo("tried")
    for who, count in tried.items():
        done = sum(each.who == who for each in found.succeeded)
        colour = "red" if done else "green"
        typer.echo(f"  {who:<20}{count:>6,}  " + typer.style(f"{done:,} succeeded", fg=colour))
    for reason in found.not_tried:
        typer.echo("  " + typer.style(f"not tried {reason}", fg="yellow"))
    for attempt in found.succeeded[:_SHOWN]:
        typer.secho(f"  {attempt.who}: {attempt.what}: {attempt.got}", fg="red")
    if len(found.succeeded) > _SHOWN:
        typer.echo(f"  and {len(found.succeeded) - _SHOWN:,} more: --json has all")
