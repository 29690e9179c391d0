"""`trace logs`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.cli import log_line
from trace_platform.cli.options import HomeOption, JsonOption

if TYPE_CHECKING:
    from trace_platform.app.supervise.read_logs import LogLine

# Shown in a place of their own, or of no use to a reader.
_OWN_PLACE = {
    *("timestamp", "level", "event", "process", "exception", "logger"),
    *("error_severity", "message", "session_id", "line_num", "session_start", "txid"),
    *("query_id", "vxid", "remote_port", "backend_type"),
}


def logs(
    name: Annotated[str | None, typer.Argument(help="One process only.")] = None,
    home: HomeOption = None,
    count: Annotated[
        int, typer.Option("-n", "--lines", metavar="N", min=0, help="How many lines.")
    ] = 100,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as they come.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what the processes logged, oldest first."""
    from trace_platform.app.instance.home import Home
    from trace_platform.app.supervise import read_logs

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
    typer.echo(line.as_json if as_json else _rendered(line))


def _rendered(line: LogLine) -> str:
    facts = {k: v for k, v in line.fields.items() if k not in _OWN_PLACE and v is not None}
    level, exception = line.level if line.fields else "", line.fields.get("exception")
    return log_line.render(line.timestamp, level, line.event, facts, exception, line.process)
