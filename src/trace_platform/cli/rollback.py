"""`trace rollback`: an earlier version is active again, at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.confirm import YesOption, confirm
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.wire.plan import RollbackPlan


def rollback(
    dag: Annotated[str, typer.Argument(help="The DAG's name.", autocompletion=complete.dags)],
    to: Annotated[
        str | None,
        typer.Option("--to", help="A version's id, or its beginning; the one before unless given."),
    ] = None,
    yes: YesOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an earlier version of a DAG active again; give up one that is being built. Asks before
    names go."""
    place = Home.at(home)
    target = control_client.dag_version(place, dag, to).dag_version if to else None
    plan = control_client.plan_rollback(place, dag, target)
    if plan.unpublishes and not yes:
        confirm(f"Roll {dag} back all the same?", _concerns(plan))
    done = control_client.rollback(place, dag, plan.instead_of, plan.to_version)
    if as_json:
        typer.echo(done.model_dump_json())
        return
    version, instead = str(done.dag_version)[:8], str(done.instead_of)[:8]
    if done.dag_version is None:
        typer.echo(f"{dag}: version {instead} is not built any further; none was active before it")
    elif done.deploy_id is None:
        typer.echo(f"{dag}: version {instead} is not built any further; {version} is active")
    else:
        typer.echo(f"{dag}: version {version} is active again, instead of {instead}")


def _concerns(plan: RollbackPlan) -> Iterator[str]:
    for name in plan.unpublishes:
        version = str(plan.to_version)[:8]
        yield f"dataset {name} would not be published any more: version {version} lacks it"
    for reader in plan.readers:
        job = f"{reader.dag_name}.{reader.job_name}"
        yield f"{job} reads {reader.dataset} and would go on with what it stood for"
