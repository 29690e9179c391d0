"""`trace alerts`: what somebody should know, the newest first."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption
from trace_platform.cli.table import show_table
from trace_platform.cli.words import ago, printable, wide_console
from trace_platform.domain.errors import BadInput
from trace_platform.wire.alert import SEVERITIES, Alert


def alerts(
    severity: Annotated[
        str, typer.Option(help="Of this severity and worse: info, warning or critical.")
    ] = "info",
    limit: LimitOption = 20,
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
    rows = [
        (ago(each.created_at), each.severity, escape(each.code), escape(_by(each)))
        for each in found.alerts
    ]
    notes = [printable(each.message) for each in found.alerts]
    show_table(console, ("raised", "severity", "code", "by"), rows, notes=notes)


def _by(alert: Alert) -> str:
    return ".".join(part for part in (alert.dag, alert.job) if part)
