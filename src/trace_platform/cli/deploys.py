"""`trace deploys`: what was deployed and rolled back, and how far it is."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.words import ago, printable, seconds, wide_console
from trace_platform.wire.plan import DeployStatus


def deploys(
    dag: Annotated[str | None, typer.Argument(help="Only of this DAG.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 20,
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
        typer.echo("nothing was deployed yet: trace deploy dag.yaml")
        return
    wide_console().print(_table(found.deploys))
    for deploy in found.deploys:
        if deploy.status == "Building":
            for job in control_client.deploy_status(place, deploy.deploy_id).progress:
                done = f"{job.partitions:,} partitions of {job.before:,}"
                typer.echo(f"  {deploy.dag_name}.{job.job}: {done}, {job.tasks:,} tasks left")


def _table(found: list[DeployStatus]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("dag", "what", "from", "to", "status", "started", "took", "error"):
        table.add_column(name)
    for each in found:
        took = (each.ended_at - each.started_at).total_seconds() if each.ended_at else None
        table.add_row(
            each.dag_name,
            each.kind,
            str(each.from_version)[:8] if each.from_version else "-",
            str(each.to_version)[:8],
            each.status,
            ago(each.started_at),
            seconds(took),
            printable(each.error or ""),
        )
    return table
