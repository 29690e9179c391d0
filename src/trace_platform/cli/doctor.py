"""`trace doctor`"""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from trace_platform.cli.options import HomeOption, JsonOption

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Check this machine, and say how to mend what is not right. Exit code 1: something fails."""
    from trace_platform.app.doctor import Finding, examine
    from trace_platform.app.home import Home

    found: list[Finding] = []
    for finding in examine(Home.at(home)):
        found.append(finding)
        if not as_json:
            level = typer.style(f"{finding.level:<4}", fg=_COLOURS[finding.level])
            typer.echo(f"{level}  {finding.check:<9} {finding.detail}")
            if finding.mend:
                typer.echo(f"{'':16}{finding.mend}")
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in found]))
    raise typer.Exit(1 if any(finding.level == "fail" for finding in found) else 0)
