"""`trace invalidate` and `trace invalidations`: say what is wrong, and see it put right."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app.api_client import backfill_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption, block_option, group
from trace_platform.cli.table import brief, short_id, show_table
from trace_platform.cli.words import ago, printable, wide_console
from trace_platform.wire.invalidation import InvalidationStatus

invalidations = group("Show what was said to be invalid, and how far it is put right.")


def invalidate(
    dataset: Annotated[
        str,
        typer.Argument(
            help="A published name, a uuid, or an output as DAG.JOB.OUTPUT.",
            autocompletion=complete.datasets,
        ),
    ],
    reason: Annotated[str, typer.Option(help="Why, for whoever asks later.")],
    start: Annotated[int | None, block_option("--from", help="First block.")] = None,
    end: Annotated[int | None, block_option("--to", help="Last block, included.")] = None,
    partition: Annotated[str | None, typer.Option(help="The key of a partition.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that a part of a dataset is invalid. The job that makes it does so anew, and all that
    follows is done again; of a source, whoever reads it does."""
    part = _part(start, end, partition)
    answer = backfill_client.invalidate(Home.at(home), dataset, part, reason)
    if as_json:
        typer.echo(answer.model_dump_json())
        return
    said = f"blocks {start:,} to {end:,} are" if partition is None else f"{partition} is"
    typer.echo(printable(f"{dataset}: {said} invalid ({answer.invalidation_id})"))
    if answer.jobs:
        does = "read again" if answer.remade else "made anew"
        typer.echo(f"to be {does} by {', '.join(answer.jobs)}")
    if answer.note:
        typer.echo(answer.note)


@invalidations.callback()
def _group() -> None:
    """Show what was said to be invalid, and how far it is put right."""


@invalidations.command("list")
def list_invalidations(
    dataset: Annotated[
        str | None, typer.Option(help="Only of this dataset: a name, a uuid, or DAG.JOB.OUTPUT.")
    ] = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only what is not processed.")] = False,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest first, with the tasks that put each right."""
    found = backfill_client.invalidations(Home.at(home), dataset, limit, open_only=open_only)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.invalidations:
        console.print("nothing is invalid" if open_only else "nothing was ever invalid")
        return
    show_table(
        console,
        ("invalidation", "dataset", "part", "said"),
        [_cells(console, each) for each in found.invalidations],
        notes=[printable(f"{_state(each)}; reason: {each.reason}") for each in found.invalidations],
    )
    for each in found.invalidations:
        if each.failed_task_id:
            console.print(f"a task of {each.invalidation_id} failed; mend the cause, then:")
            console.print(at_home(f"  trace tasks retry {each.failed_task_id}"), soft_wrap=True)


def _part(start: int | None, end: int | None, partition: str | None) -> dict[str, Any]:
    ranged = start is not None or end is not None
    if ranged == (partition is not None):
        raise typer.BadParameter("give one of: --from A --to B, --partition KEY")
    if partition is not None:
        return {"scope": "partition", "partition_key": partition}
    if start is None or end is None:
        raise typer.BadParameter("--from and --to come together")
    return {"scope": "row_range", "start": start, "end": end}


def _cells(console: Console, each: InvalidationStatus) -> tuple[str, ...]:
    part = f"{each.start:,} to {each.end:,}" if each.start is not None else each.partition_key or ""
    return (
        short_id(console, each.invalidation_id),
        escape(each.dataset),
        escape(printable(part)),
        ago(each.created_at),
    )


def _state(each: InvalidationStatus) -> str:
    into = f", with {brief(each.merged_into)}" if each.merged_into else ""
    if each.state == "open" and each.tasks_done == each.tasks:
        return f"{each.tasks_done} of {each.tasks} tasks done, more to come{into}"
    if each.state == "open":
        return f"{each.tasks - each.tasks_done} of {each.tasks} tasks open{into}"
    if each.state == "processed" and each.note:
        return f"processed: {each.note}"
    return each.state + into
