"""`trace demo`: from nothing to a queried dataset."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from trace_platform.app import control_client
from trace_platform.app.demo import POOL, Demo, devchain_process, embedded_demo, node_demo
from trace_platform.app.home import Home
from trace_platform.app.instance import Instance, open_instance
from trace_platform.app.lite_stack import running
from trace_platform.app.query_client import run_query
from trace_platform.app.settings import Settings, load_settings
from trace_platform.cli.display import StartDisplay
from trace_platform.cli.options import HomeOption
from trace_platform.cli.query import footer, result_table
from trace_platform.cli.signals import stop_on_signals
from trace_platform.domain.errors import TraceError, Unavailable
from trace_platform.wire.control import DagStatus

_POLL_S = 0.2
# Longer than any restart of a part: the demo must not give up where the platform does not.
_PATIENCE_S = 120.0


def demo(
    home: HomeOption = None,
    rpc_url: Annotated[
        str | None, typer.Option(help="Read this node instead of the embedded chain.")
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(help="How many blocks to ingest.", min=1, max=1_000_000)
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop after the summary instead of staying up.")
    ] = False,
) -> None:
    """Start an instance, ingest a chain, query it. Stays up until Ctrl-C."""
    console = Console(highlight=False)
    place = Home.at(home)
    settings = load_settings(place)
    started = time.monotonic()
    plan = _plan(place, settings, rpc_url, blocks)
    console.print(f"[bold]Trace demo[/bold]: {plan.where}, blocks {plan.span.key}\n")
    display = StartDisplay(console)
    with stop_on_signals(), display, _instance(place, settings, plan, display):
        display.settle()
        _ingest(console, place, plan)
        _query(console, place, plan)
        _summary(console, place, plan, time.monotonic() - started)
        if not once:
            console.print("\nRunning. Ctrl-C stops it.")
            threading.Event().wait()


def _plan(home: Home, settings: Settings, rpc_url: str | None, blocks: int | None) -> Demo:
    if rpc_url:
        return node_demo(rpc_url, blocks or 100)
    return embedded_demo(open_instance(home, settings), blocks or 2000)


def _instance(
    home: Home, settings: Settings, plan: Demo, display: StartDisplay
) -> AbstractContextManager[Instance]:
    env = {f"TRACE_RPC_{POOL.upper()}": plan.rpc_url}
    extra = [devchain_process(open_instance(home, settings), plan)] if plan.embedded else []
    return running(home, settings, display, extra=extra, env=env)


def _ingest(console: Console, home: Home, plan: Demo) -> None:
    control_client.deploy(home, plan.dag, f"{plan.dag_name}.yaml")
    source = control_client.trigger(home, plan.dag_name, "request", plan.span.start, plan.span.end)
    if not source.accepted:
        console.print("This range was asked for before: what is missing of it goes on.")
    columns = (
        TextColumn("  {task.description:<8}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}[/dim]"),
    )
    with Progress(*columns, console=console) as progress:
        bars = {name: progress.add_task(name, total=None, note="") for name in ("split", "ingest")}
        while True:
            status = _patiently(home, plan)
            for job in status.jobs:
                if job.name in bars:
                    done = job.counts.get("Completed", 0)
                    progress.update(
                        bars[job.name],
                        total=sum(job.counts.values()) or None,
                        completed=done,
                        note=_note(job.counts),
                    )
            if _finished(home, plan, status):
                return
            time.sleep(_POLL_S)


def _patiently(home: Home, plan: Demo) -> DagStatus:
    """A part that is being restarted is waited for."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return control_client.dag_status(home, plan.dag_name)
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def _finished(home: Home, plan: Demo, status: DagStatus) -> bool:
    counts = {job.name: job.counts for job in status.jobs}
    if any(found.get("Failed") for found in counts.values()):
        raise _failure(home, plan)
    settled = all(set(counts[name]) == {"Completed"} for name in ("split", "ingest"))
    return settled and counts["ingest"]["Completed"] >= counts["split"]["Completed"]


def _failure(home: Home, plan: Demo) -> TraceError:
    failed = [
        t for t in control_client.tasks(home, plan.dag_name, "Failed").tasks if not t.next_retry_at
    ]
    task = failed[0]
    return TraceError(
        f"{len(failed)} task(s) failed; the first: {task.job_name}"
        f" after {task.attempt} attempt(s): [{task.error_code}] {task.error_message}",
        hint="what was committed is safe; run the demo again, or see the worker's log: "
        f"{home.logs / 'worker.jsonl'}",
    )


def _note(counts: dict[str, int]) -> str:
    parts = [f"{counts[s]} {s.lower()}" for s in ("Running", "Queued", "Retrying") if counts.get(s)]
    return ", ".join(parts)


def _query(console: Console, home: Home, plan: Demo) -> None:
    console.print("\n[bold]The most active tokens[/bold], asked of the committed Parquet files:\n")
    console.print(Syntax(plan.query, "sql", background_color="default", word_wrap=True))
    console.print()
    response = run_query(home, plan.query)
    console.print(result_table(response, console.width))
    console.print(footer(response), style="dim", markup=False)


def _summary(console: Console, home: Home, plan: Demo, seconds: float) -> None:
    console.print(f"\n[bold]Done in {seconds:.0f} s.[/bold] What is there now:")
    for held in control_client.dag_status(home, plan.dag_name).datasets:
        console.print(
            f"  {held.name:<22}{held.row_count:>10,} rows {held.byte_count / 1e6:>7.1f} MB"
            f"   blocks {held.first_block} to {held.last_block}"
        )
    option = "" if home == Home.at() else f" --home {home.root}"
    console.print(f"\nThe data:   {home.objects}")
    console.print(f"The logs:   {home.logs}")
    console.print("\nTry next, from another terminal (the command is .venv/bin/trace):")
    console.print(f'  trace query{option} "select * from {plan.prefix}blocks limit 5"')
    console.print(f"  trace status{option}")
    console.print(f"  trace logs{option} worker")
