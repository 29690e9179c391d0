"""`trace logs`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.cli.options import HomeOption, JsonOption

if TYPE_CHECKING:
    from trace_platform.app.read_logs import LogLine

_COLOURS = {"warning": "yellow", "error": "red", "critical": "red", "panic": "red"}
# Shown in a place of their own, or of no use to a reader.
_OWN_PLACE = {
    *("timestamp", "level", "event", "process", "exception", "logger"),
    *("error_severity", "message", "session_id", "line_num", "session_start", "txid"),
    *("query_id", "vxid", "remote_port", "backend_type"),
}


def logs(
    name: Annotated[str | None, typer.Argument(help="One process only.")] = None,
    home: HomeOption = None,
    count: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many lines.")] = 100,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as they come.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what the processes logged, oldest first."""
    from trace_platform.app import read_logs
    from trace_platform.app.home import Home

    place = Home.at(home)
    files = read_logs.log_files(place, name)
    if not files:
        typer.echo(f"no logs in {place.root}", err=True)
    for line in read_logs.last_lines(files, count):
        _show(line, as_json)
    if follow:
        for line in read_logs.follow(place, name):
            _show(line, as_json)


def _show(line: LogLine, as_json: bool) -> None:
    typer.echo(line.as_json if as_json else render(line))


def render(line: LogLine) -> str:
    """12:00:00.000 warning dispatcher  lease_expired task_id=7"""
    if not line.fields:
        return f"{'':12} {'':8} {line.process:<10}  {line.raw}"
    level = typer.style(f"{line.level:<8}", fg=_COLOURS.get(line.level))
    facts = [
        f"{key}={value}"
        for key, value in line.fields.items()
        if key not in _OWN_PLACE and value is not None
    ]
    text = (
        f"{line.timestamp[11:23]:12} {level} {line.process:<10}  {' '.join([line.event, *facts])}"
    )
    exception = line.fields.get("exception")
    return f"{text}\n{exception}" if exception else text
