"""`trace queues`: what waits and runs, what holds it, and who works."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from rich.markup import escape
from rich.table import Table

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.words import printable, seconds, wide_console
from trace_platform.wire.control import JobQueue, WorkerStatus


def queues(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show what waits and runs by runtime and job, what holds it, and the workers."""
    found = control_client.queues(Home.at(home))
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    console.print(_jobs(found.queues) if found.queues else "nothing waits and nothing runs")
    for queue in found.queues:
        for words in _holds(queue):
            console.print(printable(f"  {words}"), markup=False, highlight=False, soft_wrap=True)
    console.print()
    console.print(_workers(found.workers) if found.workers else "no worker is alive")


def _jobs(found: list[JobQueue]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("runtime")
    table.add_column("job", no_wrap=True)
    for name in ("ready", "oldest", "deferred", "running", "limit", "retrying"):
        table.add_column(name, justify="right")
    for queue in found:
        table.add_row(*_cells(queue))
    return table


def _cells(queue: JobQueue) -> tuple[str, ...]:
    counts = (queue.ready, seconds(queue.oldest_age_s), queue.deferred, queue.running)
    limit = "-" if queue.max_concurrency is None else f"{queue.max_concurrency:,}"
    name = f"{queue.dag_name}.{queue.job_name}"
    return (
        queue.runtime,
        name if queue.active else f"{name} (older)",
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
        yield f"{name} is under pressure (mode {queue.pressure.mode}): trace why {name}"


def _workers(found: list[WorkerStatus]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("worker", "runtime"):
        table.add_column(name)
    for name in ("running", "slots", "seen"):
        table.add_column(name, justify="right")
    for worker in found:
        table.add_row(
            escape(printable(worker.worker_id)),
            worker.runtime,
            f"{worker.running:,}",
            f"{worker.slots:,}",
            f"{seconds(worker.seen_s)} ago",
        )
    return table
