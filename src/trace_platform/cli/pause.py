"""`trace pause` and `trace resume`: a job starts no more tasks, and goes on."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.words import job_of, printable
from trace_platform.wire.control import JobHolds

Job = Annotated[str, typer.Argument(help="The job, as DAG.JOB.", autocompletion=complete.jobs)]


def pause(
    job: Job,
    reason: Annotated[str | None, typer.Option(help="Why, for whoever asks later.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start no more tasks of a job, whatever is deployed. Those that run go on."""
    held = control_client.pause(Home.at(home), *job_of(job), reason=reason or None)
    _say(held, as_json, f"{job} is paused" if held.changed else f"{job} was paused already")


def resume(job: Job, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Let a paused job go on."""
    held = control_client.resume(Home.at(home), *job_of(job))
    _say(held, as_json, f"{job} goes on" if held.changed else f"{job} was not paused")


def _say(held: JobHolds, as_json: bool, words: str) -> None:
    if as_json:
        typer.echo(held.model_dump_json())
        return
    typer.echo(words)
    for hold in held.holds:
        cause = "a user" if hold.cause == "user" else hold.cause
        typer.echo(printable(f"  held by {cause}: {hold.reason}"))
