"""`trace dag list|remove`: which DAGs an instance has, and how one is taken away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.confirm import YesOption, confirm
from trace_platform.cli.dag_versions import DagName
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.table import show_table
from trace_platform.cli.words import ago, wide_console
from trace_platform.domain.figures import count, size
from trace_platform.wire.plan import DagSummary, RemovalPlan

_SHOWN = {"Removed": "[dim]removed[/dim]", "NotBuilt": "[red]not built[/red]"}


def list_dags(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that were removed.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every DAG: its version, its jobs and sources, its state and its last deploy."""
    found = control_client.dags(Home.at(home))
    shown = [each for each in found.dags if everything or each.state != "Removed"]
    if as_json:
        typer.echo(found.model_copy(update={"dags": shown}).model_dump_json())
        return
    console = wide_console()
    if not shown:
        removed = f"; {count(len(found.dags), 'DAG')} removed: --all" if found.dags else ""
        console.print(f"no DAG is deployed: trace deploy dag.yaml{removed}", highlight=False)
        return
    heads = ("dag", "version", "jobs", "sources", "state", "last deploy")
    show_table(console, heads, [_cells(each) for each in shown], right=("jobs", "sources"))


def _cells(dag: DagSummary) -> tuple[str, ...]:
    return (
        dag.dag_name,
        str(dag.dag_version)[:8],
        str(dag.jobs),
        str(dag.sources),
        _state(dag),
        _last(dag),
    )


def _state(dag: DagSummary) -> str:
    state = _SHOWN.get(dag.state, dag.state.lower())
    return f"{state}, {count(dag.paused, 'job')} paused" if dag.paused else state


def _last(dag: DagSummary) -> str:
    last = dag.last_deploy
    if last is None:
        return "-"
    how = "" if last.status == "CutOver" else f" ({last.status.lower()})"
    return f"{last.kind} {ago(last.started_at)}{how}"


def remove(
    dag: DagName, yes: YesOption = False, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Take a DAG away: its sources finish and end, what waits is canceled, its datasets are not
    published any more. Their data is kept until it is purged: deployed again, the DAG finds it.
    Refused while other DAGs read it."""
    place = Home.at(home)
    plan = control_client.plan_removal(place, dag)
    # What would be refused is refused without a question.
    if not yes and not plan.readers and plan.building is None:
        confirm(f"Remove {dag}?", facts(plan))
    done = control_client.remove_dag(place, dag, plan.dag_version)
    if as_json:
        typer.echo(done.model_dump_json())
        return
    version = str(done.dag_version)[:8]
    typer.echo(f"{dag} is removed, with its version {version}; its data is kept")


def facts(plan: RemovalPlan) -> Iterator[str]:
    if plan.sources:
        yield f"sources that finish and end: {', '.join(plan.sources)}"
    if plan.unpublishes:
        yield f"not published any more: {', '.join(plan.unpublishes)}"
    if plan.tasks:
        yield f"canceled: {count(plan.tasks, 'task')} that have not ended"
    if plan.backfills:
        yield f"canceled: {count(plan.backfills, 'backfill')}"
    held = f"{count(plan.keeps.partitions, 'partition')}, {plan.keeps.rows:,} rows"
    yield f"kept until it is purged: {held}, {size(plan.keeps.bytes)}"
    if plan.keeps.partitions:
        yield f"to purge it: trace datasets purge {plan.dag_name}.JOB --keep 0"
