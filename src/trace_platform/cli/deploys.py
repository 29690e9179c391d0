"""`trace deploys`: what was deployed and rolled back, and how far it is."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.deploy import progress_words
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption
from trace_platform.cli.table import show_table
from trace_platform.cli.words import ago, printable, seconds, wide_console
from trace_platform.wire.plan import DeployStatus

# Of a deploy's id, which begins with its time: to the millisecond.
_SHORT = 13


def deploys(
    dag: Annotated[
        str | None, typer.Argument(help="Only of this DAG.", autocompletion=complete.dags)
    ] = None,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show deploys and rollbacks, the newest first; of what is being built, how far it is."""
    place = Home.at(home)
    found = control_client.deploys(place, dag, limit)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    if not found.deploys:
        typer.echo(at_home("nothing was deployed yet: trace deploy dag.yaml"))
        return
    _show(found.deploys)
    for deploy in found.deploys:
        if deploy.status == "Building":
            for job in control_client.deploy_status(place, deploy.deploy_id).progress:
                typer.echo(f"  {deploy.dag_name}.{job.job}: {progress_words(job)}")


def _show(found: list[DeployStatus]) -> None:
    heads = ("deploy", "dag", "what", "from", "to", "status", "started", "took")
    notes = [printable(each.error or "") for each in found]
    rows, spare = [_cells(each) for each in found], ("took", "from", "what")
    show_table(wide_console(), heads, rows, spare=spare, notes=notes)


def _cells(each: DeployStatus) -> tuple[str, ...]:
    took = (each.ended_at - each.started_at).total_seconds() if each.ended_at else None
    return (
        str(each.deploy_id)[:_SHORT],
        each.dag_name,
        each.kind,
        str(each.from_version)[:8] if each.from_version else "-",
        str(each.to_version)[:8] if each.to_version else "-",
        each.status,
        ago(each.started_at),
        seconds(took),
    )
