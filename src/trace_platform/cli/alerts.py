"""`trace alerts`: what somebody should know, the newest first, and that somebody knows it."""

from __future__ import annotations

import getpass
import socket
from typing import Annotated
from uuid import UUID

import typer
from rich.markup import escape

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.options import (
    HomeOption,
    JsonOption,
    LimitOption,
    group,
    refuse_options_before,
)
from trace_platform.cli.table import brief, show_table
from trace_platform.cli.words import ago, printable, wide_console
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.domain.figures import count
from trace_platform.wire.alert import SEVERITIES, Alert

alerts = group("Show what somebody should know, and acknowledge it.", needs_command=False)

# Of an id, its beginning.
_MIN_PART = 8
_MOST = 1_000


@alerts.callback()
def list_alerts(
    context: typer.Context,
    severity: Annotated[
        str, typer.Option(help="Of this severity and worse: info, warning or critical.")
    ] = "info",
    standing: Annotated[
        bool, typer.Option("--standing", help="Only those neither acknowledged nor over.")
    ] = False,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reorgs past finality, data that is not the chain's, chains that stand still. A critical one
    keeps `trace health` firing until it is over or acknowledged."""
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    if severity not in SEVERITIES:
        hint = f"one of {', '.join(SEVERITIES)}"
        raise BadInput(f"no severity is called '{severity}'", hint=hint)
    found = control_client.alerts(Home.at(home), severity, limit, standing=standing)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.alerts:
        console.print("no alerts")
        return
    rows = [
        (
            brief(each.alert_id),
            ago(each.created_at),
            each.severity,
            escape(each.code),
            escape(_by(each)),
            escape(printable(_standing(each))),
        )
        for each in found.alerts
    ]
    notes = [printable(each.message) for each in found.alerts]
    show_table(console, ("alert", "raised", "severity", "code", "by", "state"), rows, notes=notes)


@alerts.command()
def ack(
    named: Annotated[
        list[str] | None,
        typer.Argument(metavar="ALERT", help="Its id, or 8 characters or more of its start."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every alert that stands, warnings too.")
    ] = False,
    note: Annotated[
        str | None, typer.Option(help="What was found or done, kept with the alert.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Who acknowledges.", show_default="the user of this machine"),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Acknowledge alerts: who did it, and when, is on record, and they fire no more."""
    if bool(named) == everything:
        raise BadInput(
            "name the alerts, or give --all", hint="trace alerts --standing shows what stands"
        )
    place = Home.at(home)
    chosen = _standing_ids(place) if everything else _ids(place, named or [])
    if not chosen:
        typer.echo('{"acknowledged":0,"alerts":[]}' if as_json else "no alert stands")
        return
    done = control_client.acknowledge(place, chosen, by or _who(), note)
    if as_json:
        typer.echo(done.model_dump_json())
        return
    for each in done.alerts:
        typer.echo(printable(f"{brief(each.alert_id)} {each.code}: {_standing(each)}"))
    typer.echo(f"{count(done.acknowledged, 'alert')} acknowledged")


def _standing_ids(place: Home) -> list[UUID]:
    found = control_client.alerts(place, "warning", _MOST, standing=True)
    return [each.alert_id for each in found.alerts]


def _ids(place: Home, named: list[str]) -> list[UUID]:
    """By parts of them, as a list shows them."""
    try:
        return [UUID(each) for each in named]
    except ValueError:
        known = control_client.alerts(place, "info", _MOST).alerts
    return [_id(each, [alert.alert_id for alert in known]) for each in named]


def _id(named: str, known: list[UUID]) -> UUID:
    found = [each for each in known if str(each).startswith(named.lower())]
    if len(named) < _MIN_PART or len(found) > 1:
        raise BadInput(f"'{named}' does not name one alert", hint="give more of its id")
    if not found:
        raise NotFound(f"there is no alert {named}", hint="see which there are: trace alerts")
    return found[0]


def _who() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _standing(alert: Alert) -> str:
    if alert.acknowledged_at is not None:
        note = f": {alert.acknowledged_note}" if alert.acknowledged_note else ""
        return f"acknowledged by {alert.acknowledged_by} {ago(alert.acknowledged_at)}{note}"
    if alert.severity == "info":
        return "-"
    return "stands" if alert.stands else "over"


def _by(alert: Alert) -> str:
    return ".".join(part for part in (alert.dag, alert.job) if part)
