"""`trace deploy`: a DAG file is built beside the active version, and takes its place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from trace_platform.app.api_client import control_client
from trace_platform.app.code_beside import code_beside, refuse_unreadable
from trace_platform.app.instance.home import Home
from trace_platform.cli.confirm import YesOption, confirm
from trace_platform.cli.follow import goes_on, patiently
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.plan import show_warnings
from trace_platform.cli.progress_columns import fitting
from trace_platform.domain.errors import BadInput, TaskFailed
from trace_platform.domain.figures import count, size
from trace_platform.domain.own_code import Files
from trace_platform.wire.control import DeployResponse
from trace_platform.wire.plan import DeployProgress, DeployStatus, Plan, SavedPlan

_POLL_S = 0.2


def deploy(
    file: Annotated[Path | None, typer.Argument(help="The DAG file.")] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="A saved plan: exactly that is done, or nothing."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Show progress until it has taken over.")
    ] = True,
    yes: YesOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a DAG file, build what it changes, and let it take over all at once. Asks before names
    go, or before other DAGs have to do their work again."""
    if (file is None) == (plan is None):
        said = "give a DAG file, or --plan with a saved plan, such as: trace deploy dag.yaml"
        raise typer.BadParameter(said)
    yaml, name, plan_hash, code = _given(file, plan)
    place = Home.at(home)
    if plan_hash is None and not yes:
        plan_hash = agreed(place, yaml, name, code)
    done = control_client.deploy(place, yaml, name, plan_hash, code)
    if not as_json:
        show_warnings(done.warnings)
        typer.echo(_said(done))
    if done.status == "Building" and done.deploy_id is not None and wait:
        # On stderr: standard output holds the answer and nothing else.
        dag = done.dag_name
        with goes_on(f"the build goes on: trace deploys {dag}; trace rollback {dag} gives it up"):
            ended = follow_deploy(Console(stderr=True), place, done.deploy_id)
        _refuse_failed(ended)
        done = done.model_copy(update={"status": "CutOver"})
        if not as_json:
            typer.echo(_said(done))
    if as_json:
        typer.echo(done.model_dump_json())


def _given(file: Path | None, plan: Path | None) -> tuple[str, str, str | None, Files]:
    """The YAML, what to call it, the plan that it has to be, and the code beside it."""
    if file is not None:
        yaml = control_client.read_dag_file(file)
        return yaml, str(file), None, refuse_unreadable(code_beside(file.parent, yaml)).files
    assert plan is not None
    try:
        saved = SavedPlan.model_validate_json(control_client.read_dag_file(plan))
    except ValidationError:
        raise BadInput(
            f"{plan} is not a saved plan", hint="make one: trace plan dag.yaml --out plan.json"
        ) from None
    return saved.yaml, saved.plan.file, saved.plan_hash, saved.code


def agreed(home: Home, yaml: str, name: str, code: Files | None = None, **words: str) -> str:
    """The hash of what a deploy would do, once whoever is concerned may be: exactly that is then
    done."""
    planned = control_client.plan(home, yaml, name, code)
    facts = list(_concerns(planned))
    if facts:
        confirm(f"Deploy {planned.dag_name} all the same?", [*facts, *_told(planned)], **words)
    return planned.plan_hash


def _concerns(planned: Plan) -> Iterator[str]:
    """What others than this DAG would notice."""
    for each in planned.publishes:
        if each.action == "unpublished":
            yield f"dataset {each.dataset} would not be published any more: {each.why}"
    for reader in planned.readers:
        job = f"{reader.dag_name}.{reader.job_name}"
        yield f"{job} reads {reader.dataset} and would do its work again"


def _told(planned: Plan) -> Iterator[str]:
    total = planned.total
    if total.partitions:
        built = ", ".join(job.job for job in planned.builds)
        held = f"{count(total.partitions, 'partition')}, {total.rows:,} rows"
        yield f"{built} would be built anew: {held}, {size(total.bytes)}"
    yield "trace plan shows all of it"


def _said(done: DeployResponse) -> str:
    version = str(done.dag_version)[:8]
    if done.status == "Unchanged":
        return f"{done.dag_name}: unchanged, version {version} is active"
    if done.status == "Building":
        builds = ", ".join(done.builds)
        serves = "the old one serves" if done.replaces else "it serves when all of it is there"
        return f"{done.dag_name}: version {version} is being built ({builds}); {serves}"
    changed = ", ".join(done.added) or "none"
    return (
        f"{done.dag_name}: version {version} is active"
        f" ({count(len(done.jobs), 'job')}; new or changed: {changed})"
    )


def follow_deploy(console: Console, home: Home, deploy_id: UUID) -> DeployStatus:
    """Bars for each job that is built, until the deploy ended."""
    columns = fitting(
        console,
        TextColumn("  {task.description:<16}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[said]}"),
    )
    with Progress(*columns, console=console) as progress:
        bars: dict[str, TaskID] = {}
        while True:
            status = patiently(lambda: control_client.deploy_status(home, deploy_id))
            for job in status.progress:
                if job.job not in bars:
                    bars[job.job] = progress.add_task(job.job, total=None, said="")
                built = status.status == "CutOver"
                progress.update(
                    bars[job.job],
                    # How many there will be is known at the end: another edit makes more, or less.
                    completed=1 if built else job.partitions,
                    total=1 if built else max(job.before, job.partitions) or None,
                    said=progress_words(job, built=built),
                )
            if status.status != "Building":
                return status
            time.sleep(_POLL_S)


def progress_words(job: DeployProgress, *, built: bool = False) -> str:
    """What a job of a version has so far, and what is left."""
    if built:
        return count(job.partitions, "partition") if job.partitions else "done"
    said = []
    if job.partitions or job.before:
        before = f" ({job.before:,} before)" if job.before else ""
        said.append(f"{count(job.partitions, 'partition')} so far{before}")
    if job.tasks:
        said.append(f"{count(job.tasks, 'task')} left")
    return ", ".join(said) or "no task left"


def _refuse_failed(ended: DeployStatus) -> None:
    if ended.status != "CutOver":
        before = " The version before it serves on" if ended.from_version else ""
        raise TaskFailed(
            f"version {str(ended.to_version)[:8]} of {ended.dag_name} was not built: {ended.error}."
            f"{before}",
            hint="mend the cause, and deploy again to go on where it stopped",
        )
