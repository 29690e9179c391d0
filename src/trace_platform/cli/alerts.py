"""`trace alerts`: what somebody should know, the newest first."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.words import ago, printable, wide_console
from trace_platform.domain.errors import BadInput
from trace_platform.wire.alert import SEVERITIES


def alerts(
    severity: Annotated[
        str, typer.Option(help="Of this severity and worse: info, warning or critical.")
    ] = "info",
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reorgs past finality, data that is not the chain's, chains that stand still."""
    if severity not in SEVERITIES:
        hint = f"one of {', '.join(SEVERITIES)}"
        raise BadInput(f"no severity is called '{severity}'", hint=hint)
    found = control_client.alerts(Home.at(home), severity, limit)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.alerts:
        console.print("no alerts")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("raised", "severity", "code", "by", "message"):
        table.add_column(name)
    for alert in found.alerts:
        by = ".".join(part for part in (alert.dag, alert.job) if part)
        cells = (ago(alert.created_at), alert.severity, alert.code, by, printable(alert.message))
        table.add_row(*map(escape, cells))
    console.print(table)
