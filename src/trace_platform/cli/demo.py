"""`trace demo`: from nothing to a queried dataset."""

from __future__ import annotations

import shlex
import threading
import time
from contextlib import AbstractContextManager
from typing import Annotated

import typer
from rich.console import Console
from rich.syntax import Syntax

from trace_platform.app.api_client import control_client
from trace_platform.app.api_client.query_client import run_query
from trace_platform.app.demo import POOL, Demo, devchain_process, embedded_demo, node_demo, remember
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.login_link import make_login_link
from trace_platform.app.instance.open_instance import Instance, open_instance
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.app.supervise.lite_stack import running
from trace_platform.app.supervise.supervisor import refuse_second
from trace_platform.cli.deploy import agreed
from trace_platform.cli.display import StartDisplay
from trace_platform.cli.follow import follow, now_of
from trace_platform.cli.options import HomeOption
from trace_platform.cli.query_table import footer, render_rows
from trace_platform.cli.signals import stop_on_signals
from trace_platform.cli.table import show_table
from trace_platform.client.result import Facts
from trace_platform.domain.figures import size


def demo(
    home: HomeOption = None,
    rpc_url: Annotated[
        # The variable keeps a URL with a key out of the process list.
        str | None,
        typer.Option(envvar="RPC_URL", help="Read this node instead of the embedded chain."),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            help="How many blocks to ingest; on a home that has some, how many more.",
            metavar="N",
            min=1,
            max=1_000_000,
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop after the summary instead of staying up.")
    ] = False,
) -> None:
    """Start an instance, ingest a chain, query it. Stays up until Ctrl-C. Run again, it goes on
    where it ended."""
    console = Console(highlight=False)
    place = Home.at(home)
    refuse_second(place)
    settings = load_settings(place)
    started = time.monotonic()
    plan = _plan(place, settings, rpc_url, blocks)
    console.print(f"[bold]Trace demo[/bold]: {plan.where}, blocks {plan.span.key}")
    if plan.known:
        console.print(
            f"Blocks 0-{plan.known - 1} are there from before; the chain has grown since."
        )
    console.print()
    display = StartDisplay(console)
    with stop_on_signals(), display, _instance(place, settings, plan, display):
        display.settle()
        _ingest(console, place, plan)
        _query(console, place, plan)
        _summary(console, place, plan, time.monotonic() - started, stays=not once)
        if not once:
            console.print("\nRunning. Ctrl-C stops it.")
            threading.Event().wait()


def _plan(home: Home, settings: Settings, rpc_url: str | None, blocks: int | None) -> Demo:
    if rpc_url:
        return node_demo(rpc_url, blocks or 100)
    return embedded_demo(open_instance(home, settings, starts=True), home, blocks)


def _instance(
    home: Home, settings: Settings, plan: Demo, display: StartDisplay
) -> AbstractContextManager[Instance]:
    env = {f"TRACE_RPC_{POOL.upper()}": plan.rpc_url}
    extra = [devchain_process(open_instance(home, settings), plan)] if plan.embedded else []
    return running(home, settings, display, extra=extra, env=env)


def _ingest(console: Console, home: Home, plan: Demo) -> None:
    file = f"{plan.dag_name}.yaml"
    cure = f"give the demo another --home: this one has a DAG '{plan.dag_name}' of its own"
    control_client.deploy(home, plan.dag, file, agreed(home, plan.dag, file, cure=cure))
    began = now_of(home, plan.dag_name)
    source = control_client.trigger(home, plan.dag_name, "request", plan.span.start, plan.span.end)
    remember(home, plan)
    if not source.accepted:
        console.print("This range was requested before; only what is missing is ingested.")
    follow(console, home, plan.dag_name, began)


def _query(console: Console, home: Home, plan: Demo) -> None:
    console.print("\n[bold]The most active tokens[/bold], asked of the committed Parquet files:\n")
    console.print(Syntax(plan.query, "sql", background_color="default", word_wrap=True))
    console.print()
    response = run_query(home, plan.query)
    render_rows(console, response)
    console.print(footer(Facts.told(response)), style="dim", markup=False)


def _summary(console: Console, home: Home, plan: Demo, seconds: float, *, stays: bool) -> None:
    console.print(f"\n[bold]Done in {seconds:.0f} s.[/bold] What is there now:")
    held = control_client.dag_status(home, plan.dag_name).datasets
    show_table(
        console,
        ("dataset", "rows", "size", "blocks"),
        [
            (
                each.name,
                f"{each.row_count:,}",
                size(each.byte_count),
                f"{each.first_block:,} to {each.last_block:,}",
            )
            for each in held
        ],
        right=("rows", "size"),
    )
    option = "" if home == Home.at() else f" --home {shlex.quote(str(home.root))}"
    sql = f"select block_number, gas_used from {plan.prefix}blocks order by gas_used desc limit 5"
    lines = [
        "",
        f"The data:   {home.objects}",
        f"The logs:   {home.logs}",
        "",
        "Try next, from another terminal (the command is .venv/bin/trace):"
        if stays
        else f"Start it again with `trace up{option}`, then try (.venv/bin/trace; to ingest more"
        f" it needs a node: TRACE_RPC_{POOL.upper()}=URL):",
        f'  trace query{option} "{sql}"',
        f"  trace tasks list{option}",
        f"  trace status{option}",
        f"  trace logs{option} worker",
    ]
    if stays:
        lines += ["", f"The console, for one login within 15 minutes: {make_login_link(home)}"]
        lines += [f"Another link: trace login-link{option}"]
    for line in lines:
        # Long paths go on past the edge: a command that is broken in two cannot be copied.
        console.print(line, markup=False, soft_wrap=True)
