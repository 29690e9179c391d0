"""`trace queues`: what waits and runs, what holds it, and who works."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.dead_letters import dead
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption, group, refuse_options_before
from trace_platform.cli.table import show_table
from trace_platform.cli.words import printable, seconds, wide_console
from trace_platform.domain.figures import count
from trace_platform.wire.control import JobQueue, WorkerStatus

queues = group("Show what waits and runs, and who works.", needs_command=False)
queues.add_typer(dead, name="dead")


@queues.callback()
def show_queues(
    context: typer.Context, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Show what waits and runs by runtime and job, what holds it, and the workers."""
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    found = control_client.queues(Home.at(home))
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if found.queues:
        _show_jobs(console, found.queues)
    else:
        console.print("nothing waits and nothing runs")
    for queue in found.queues:
        for words in _holds(queue):
            console.print(printable(f"  {words}"), markup=False, highlight=False, soft_wrap=True)
    console.print()
    if found.workers:
        _show_workers(console, found.workers)
    else:
        console.print("no worker is alive")
    if found.dead_letters:
        said = count(found.dead_letters, "message")
        hint = at_home(f"nobody could handle {said}: trace queues dead list")
        console.print(hint, markup=False, highlight=False, soft_wrap=True)


def _show_jobs(console: Console, found: list[JobQueue]) -> None:
    counts = ("ready", "oldest", "deferred", "running", "limit", "retrying")
    show_table(
        console,
        ("job", "runtime", *counts),
        [_cells(queue) for queue in found],
        right=counts,
        spare=("runtime", "limit", "deferred"),
    )


def _cells(queue: JobQueue) -> tuple[str, ...]:
    counts = (queue.ready, seconds(queue.oldest_age_s), queue.deferred, queue.running)
    limit = "-" if queue.max_concurrency is None else f"{queue.max_concurrency:,}"
    name = f"{queue.dag_name}.{queue.job_name}"
    return (
        name if queue.active else f"{name} (older)",
        queue.runtime,
        *(each if isinstance(each, str) else f"{each:,}" for each in counts),
        limit,
        f"{queue.retrying:,}",
    )


def _holds(queue: JobQueue) -> Iterator[str]:
    name = f"{queue.dag_name}.{queue.job_name}"
    for hold in queue.holds:
        does = "is paused" if hold.cause == "user" else f"is held for {hold.cause}"
        which = "" if len(hold.priorities) == 3 else f" ({', '.join(hold.priorities)} priority)"
        yield f"{name} {does}{which}: {hold.reason}"
    if queue.pressure:
        hint = at_home(f"trace why {name}")
        yield f"{name} is under pressure (mode {queue.pressure.mode}): {hint}"


def _show_workers(console: Console, found: list[WorkerStatus]) -> None:
    counts = ("tasks", "sources", "seen")
    show_table(
        console,
        ("worker", "runtime", *counts),
        [_worker(each) for each in found],
        right=counts,
        spare=("runtime",),
    )


def _worker(each: WorkerStatus) -> tuple[str, ...]:
    return (
        escape(printable(each.worker_id)),
        each.runtime,
        f"{each.running:,} of {each.slots:,}",
        f"{each.running_sources:,} of {each.source_slots:,}",
        f"{seconds(each.seen_s)} ago",
    )
