"""`trace tasks cancel|retry` of many tasks: how many are meant is said before it is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import typer

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.confirm import confirm
from trace_platform.cli.moments import moment_of
from trace_platform.cli.task_status import status_of
from trace_platform.domain.figures import count
from trace_platform.wire.control import SelectedTasks, TaskSelection

Verb = Literal["cancel", "retry"]


@dataclass(frozen=True, slots=True)
class Filters:
    """As they were typed."""

    dag: str | None
    job: str | None
    status: str | None
    since: str | None
    until: str | None

    @property
    def given(self) -> bool:
        return any((self.dag, self.job, self.status, self.since, self.until))

    def selection(self) -> TaskSelection:
        dag, job = dag_and_job(self.dag, self.job)
        return TaskSelection(
            dag_name=dag,
            job_name=job,
            status=status_of(self.status),
            since=moment_of(self.since),
            until=moment_of(self.until),
        )


def dag_and_job(dag: str | None, job: str | None) -> tuple[str | None, str | None]:
    """Either may be a job's whole name, DAG.JOB, as other commands want it."""
    named_dag, dot, named_job = (job or dag or "").partition(".")
    if not dot or (job and dag not in (None, named_dag)):
        return dag, job
    return named_dag, named_job


def one_way(task: str | None, filters: Filters) -> None:
    """Raise for a command that names a task and others, or none at all."""
    if (task is None) != filters.given:
        raise typer.BadParameter(
            "give a task, or which ones: --dag, --job, --status, --since, --until"
        )


def change(home: Home, verb: Verb, filters: Filters, *, yes: bool, as_json: bool) -> None:
    chosen = filters.selection()
    meant = control_client.change_tasks(home, verb, chosen.model_copy(update={"dry_run": True}))
    if meant.tasks:
        if not yes:
            confirm(f"{verb.capitalize()} {count(meant.tasks, 'task')}?", _lines(meant))
        # The same ones: not what ended, or was made, while somebody thought about it.
        meant = control_client.change_tasks(
            home, verb, chosen.model_copy(update={"until": meant.until})
        )
    typer.echo(meant.model_dump_json() if as_json else _said(verb, meant))


def _lines(meant: SelectedTasks) -> Iterator[str]:
    for each in meant.jobs:
        yield f"{each.dag_name}.{each.job_name}: {each.tasks:,} {each.status.lower()}"


def _said(verb: Verb, done: SelectedTasks) -> str:
    if not done.tasks:
        return "no task is meant: nothing to do"
    more = "; there are more: say it again" if done.more else ""
    if verb == "retry":
        return f"{count(done.tasks, 'task')} queued again{more}"
    running = sum(each.tasks for each in done.jobs if each.status == "Running")
    told = f", of which {running:,} stop with their next heartbeat" if running else ""
    return f"{count(done.tasks, 'task')} canceled{told}{more}"
