"""`trace why`: what a task or a job waits for, and what it would take."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.words import printable, seconds
from trace_platform.wire.control import LastEvent, Why


def why(
    subject: Annotated[
        str, typer.Argument(help="A task by its id or the beginning of it, or a job as DAG.JOB.")
    ],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a task or a job waits for, what holds it, and what it would take."""
    place = Home.at(home)
    if control_client.looks_like_id(subject):
        subject = str(control_client.find_task(place, subject))
    answer = control_client.why(place, subject)
    if as_json:
        typer.echo(answer.model_dump_json())
        return
    for line in render(answer):
        typer.echo(printable(line))


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


def _event(does: str, event: LastEvent) -> str:
    if event.age_s is None:
        return f"{does} {event.dataset}: no event yet"
    return f"{does} {event.dataset}: {event.scope}, {seconds(event.age_s)} ago"
