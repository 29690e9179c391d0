"""`trace backfill` and `trace backfills`: a job works through a range once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from trace_platform.app.api_client import backfill_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.confirm import confirm
from trace_platform.cli.follow import goes_on, patiently
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption, block_option, group
from trace_platform.cli.progress_columns import fitting
from trace_platform.cli.table import short_id, show_table
from trace_platform.cli.words import ago, clock, job_of, printable, seconds, wide_console
from trace_platform.domain.errors import TaskFailed, TraceError
from trace_platform.domain.figures import count, size
from trace_platform.wire.backfill import (
    MAX_IN_FLIGHT,
    BackfillAction,
    BackfillDetail,
    BackfillPlan,
    BackfillStatus,
)

_POLL_S = 0.5

backfills = group("Show backfills, pause, resume or cancel one.")
Backfill = Annotated[
    str, typer.Argument(help="The backfill's id, or 4 characters or more of its end or start.")
]


def backfill(
    job: Annotated[str, typer.Argument(help="The job, as DAG.JOB.", autocompletion=complete.jobs)],
    start: Annotated[int, block_option("--from", help="First block.")],
    end: Annotated[int, block_option("--to", help="Last block, included.")],
    force: Annotated[bool, typer.Option("--force", help="Also what is up to date.")] = False,
    max_in_flight: Annotated[
        int,
        typer.Option(
            help="Unfinished tasks of it at once, at most.", metavar="N", min=1, max=10_000
        ),
    ] = MAX_IN_FLIGHT,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Show progress until it ended.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a job work through a block range once more, behind all other work. Prints what it would
    do first, and asks; with --json it starts only with --yes, and prints the plan without."""
    place, (dag, name) = Home.at(home), job_of(job)
    plan = backfill_client.plan(place, dag, name, start, end, force=force)
    if as_json and not yes:
        typer.echo(plan.model_dump_json())
        return
    if not as_json:
        for line in _plan_lines(plan):
            typer.echo(line)
    if not plan.tasks:
        again = "" if force else ": --force does what is up to date once more"
        typer.echo(plan.model_dump_json() if as_json else f"nothing to do{again}")
        return
    if not yes:
        confirm("Start it?")
    started = backfill_client.start(place, dag, name, start, end, max_in_flight, force=force)
    if as_json:
        typer.echo(started.model_dump_json())
    if started.backfill is None:
        typer.echo("nothing to do any more", err=as_json)
        return
    backfill_id = started.backfill.backfill_id
    if not as_json:
        said = f"backfill {backfill_id} is running; trace backfills show {backfill_id}"
        typer.echo(at_home(said))
    if wait:
        # On stderr: standard output holds the answer and nothing else.
        with goes_on(f"it goes on; trace backfills cancel {backfill_id} ends it"):
            _follow(Console(stderr=True), place, backfill_id)


@backfills.command("list")
def list_backfills(
    dag: Annotated[
        str | None, typer.Argument(help="Only of this DAG.", autocompletion=complete.dags)
    ] = None,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest backfills first, with how far they are."""
    found = backfill_client.listing(Home.at(home), dag, limit)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.backfills:
        console.print("no backfills")
        return
    show_table(
        console,
        ("backfill", "job", "blocks", "status", "started"),
        [_cells(console, each) for each in found.backfills],
        notes=[printable(f"{_tasks(each)}{_why_ended(each)}") for each in found.backfills],
    )


@backfills.command()
def show(backfill: Backfill, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show how far a backfill is, and which of its tasks failed."""
    place = Home.at(home)
    found = backfill_client.show(place, backfill_client.find(place, backfill))
    if as_json:
        typer.echo(found.model_dump_json())
        return
    for line in _detail_lines(found):
        typer.echo(printable(line))


@backfills.command()
def pause(backfill: Backfill, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Make no more tasks of a backfill. Those that it has made already end as usual."""
    _steer(backfill_client.pause, backfill, home, as_json, "is paused", "was paused already")


@backfills.command()
def resume(backfill: Backfill, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Let a paused backfill go on."""
    _steer(backfill_client.resume, backfill, home, as_json, "goes on", "was not paused")


@backfills.command()
def cancel(backfill: Backfill, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """End a backfill: tasks that wait at once, those that run with their next heartbeat."""
    said = ("is canceled", "was canceled already")
    _steer(backfill_client.cancel, backfill, home, as_json, *said)


def _steer(
    verb: Callable[[Home, UUID], BackfillAction],
    backfill: str,
    home: Path | None,
    as_json: bool,
    changed: str,
    unchanged: str,
) -> None:
    place = Home.at(home)
    answer = verb(place, backfill_client.find(place, backfill))
    if as_json:
        typer.echo(answer.model_dump_json())
        return
    typer.echo(f"{answer.backfill.backfill_id} {changed if answer.changed else unchanged}")


def _plan_lines(plan: BackfillPlan) -> Iterator[str]:
    yield f"{plan.dag_name}.{plan.job_name}, blocks {plan.start:,} to {plan.end:,}:"
    yield f"  {count(plan.inputs, 'input')} hold{'s' if plan.inputs == 1 else ''} some of it"
    skipped = "done again" if plan.force else "skipped"
    if plan.up_to_date:
        yield f"  {plan.up_to_date:,} of them {_are(plan.up_to_date)} up to date: {skipped}"
    if plan.under_way:
        yield f"  {plan.under_way:,} of them {_are(plan.under_way)} under way: {skipped}"
    amount = plan.amount
    held = f" ({amount.rows:,} rows, {size(amount.bytes)})" if amount.rows else ""
    yield f"  {count(plan.tasks, 'task')} will run{held}"
    if plan.tasks and amount.seconds is not None:
        at_once = max(1, plan.slots)
        yield (
            f"  about {seconds(amount.seconds / at_once)}"
            f" with {at_once} at once, as the last ones took"
        )
    # A plan with very many holes is read by its first.
    for gap in plan.gaps[:20]:
        yield f"  blocks {gap.start:,}–{gap.end:,}: nothing upstream; {_first(plan)}"  # noqa: RUF001
    if len(plan.gaps) > 20:
        yield f"  and {len(plan.gaps) - 20:,} more holes"
    for maker in plan.upstream:
        if maker.command:
            yield f"    {maker.command}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _first(plan: BackfillPlan) -> str:
    names = " or ".join(maker.job for maker in plan.upstream) or "its sources"
    return f"backfill or trigger {names} first"


def _detail_lines(found: BackfillDetail) -> Iterator[str]:
    yield f"backfill  {found.backfill_id}"
    yield f"job       {found.dag_name}.{found.job_name}"
    forced = ", also what was up to date" if found.force else ""
    yield f"blocks    {found.start:,} to {found.end:,}{forced}"
    yield f"status    {_status(found)}"
    yield f"tasks     {_tasks(found)}"
    yield f"started   {clock(found.created_at)}"
    if found.ended_at:
        yield f"ended     {clock(found.ended_at)}"
    for task in found.failed_tasks:
        if task.status == "Failed":
            yield f"  {task.scope} failed: [{task.error_code}] {task.error_message or ''}"
            yield at_home(f"    mend the cause, then: trace tasks retry {task.task_id}")


def _cells(console: Console, each: BackfillStatus) -> tuple[str, ...]:
    return (
        short_id(console, each.backfill_id),
        f"{each.dag_name}.{each.job_name}",
        f"{each.start:,} to {each.end:,}",
        each.status,
        ago(each.created_at),
    )


def _why_ended(each: BackfillStatus) -> str:
    return f"; {each.ended_because}" if each.ended_because else ""


def _status(each: BackfillStatus) -> str:
    if each.status == "Completed" and each.failed:
        return f"Completed, {each.failed:,} failed"
    return f"{each.status}: {each.ended_because}" if each.ended_because else each.status


def _tasks(each: BackfillStatus) -> str:
    said = f"{each.done:,} of {each.total:,} done"
    others = ((each.in_flight, "in flight"), (each.failed, "failed"), (each.canceled, "canceled"))
    return ", ".join([said, *(f"{count:,} {name}" for count, name in others if count)])


def _follow(console: Console, home: Home, backfill_id: UUID) -> None:
    """A bar until it ended. Raise TaskFailed when something of it did not end well."""
    columns = fitting(
        console,
        TextColumn("  {task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("backfill", total=None)
        while True:
            found = patiently(lambda: backfill_client.show(home, backfill_id))
            progress.update(bar, completed=found.total - _left(found), total=found.total)
            if found.status in ("Completed", "Canceled"):
                break
            time.sleep(_POLL_S)
    if found.status == "Canceled" or found.failed:
        raise _not_well(found)


def _left(found: BackfillDetail) -> int:
    return found.total - found.done - found.failed - found.canceled


def _not_well(found: BackfillDetail) -> TraceError:
    failed = [task for task in found.failed_tasks if task.status == "Failed"]
    if not failed:
        return TaskFailed(
            f"backfill {found.backfill_id} is {_status(found)}", hint="trace backfills list"
        )
    first = failed[0]
    return TaskFailed(
        f"{count(found.failed, 'task')} of the backfill failed; the first, {first.scope}:"
        f" [{first.error_code}] {first.error_message}",
        hint=f"mend the cause, then: trace tasks retry {first.task_id}",
    )
