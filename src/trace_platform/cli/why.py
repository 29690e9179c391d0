"""`trace why`: what a task, a job or a dataset waits for, and what it would take."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_platform.app.api_client import control_client, dataset_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.words import printable, seconds
from trace_platform.domain.errors import NotFound
from trace_platform.wire.control import LastEvent, Why
from trace_platform.wire.dataset import DatasetWhy


def why(
    subject: Annotated[
        str,
        typer.Argument(
            autocompletion=complete.datasets_and_jobs,
            help="A task by its id, its end or its beginning, a job as DAG.JOB, or a dataset by its"
            " name, its uuid or as DAG.JOB.OUTPUT.",
        ),
    ],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a task or a job waits for, or why a dataset is not up to date, and what it takes."""
    place = Home.at(home)
    answer = dataset_client.why(place, _whole(place, subject))
    if as_json:
        typer.echo(answer.model_dump_json())
        return
    lines = render(answer) if isinstance(answer, Why) else render_dataset(answer)
    for line in lines:
        typer.echo(printable(at_home(line)))


def _whole(home: Home, subject: str) -> str:
    """A task's id from a part of it. What is no part of one may be a dataset's name."""
    if not control_client.looks_like_id(subject):
        return subject
    try:
        return str(control_client.find_task(home, subject))
    except NotFound:
        return subject


def render(answer: Why) -> list[str]:
    """The answer, its reasons with their cures, and what came in last."""
    job = f"{answer.dag_name}.{answer.job_name}"
    lines = [f"{job} {answer.task_id} is {answer.status}" if answer.task_id else job]
    for reason in answer.reasons:
        lines.append(f"- {reason.text}")
        if reason.cure:
            lines.append(f"  → {reason.cure}")
    lines += [_event("reads", event) for event in answer.inputs]
    lines += [_event("writes", event) for event in answer.outputs]
    return lines


def render_dataset(answer: DatasetWhy) -> list[str]:
    """The answer, then every reason with where it is and what it takes."""
    lines = [answer.answer]
    for n, reason in enumerate(answer.reasons):
        # The first one is in the answer.
        if n:
            lines.append(f"- {reason.text}{_where(reason.steps)}")
        if reason.cure:
            lines.append(f"  → {reason.cure}")
    if answer.max_age_s is not None:
        lines.append(f"may be {seconds(answer.max_age_s)} old; is {seconds(answer.age_s)} old")
    return lines


def _where(steps: int) -> str:
    return "" if steps == 0 else f" ({steps} {'job' if steps == 1 else 'jobs'} upstream)"


def _event(does: str, event: LastEvent) -> str:
    if event.age_s is None:
        return f"{does} {event.dataset}: no event yet"
    return f"{does} {event.dataset}: {event.scope}, {seconds(event.age_s)} ago"
