"""What the gateway costs: time on the way to a query, and the dispatcher's while pages are open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import psutil

from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median
from bench.query import SMALL, SMALL_ROWS
from bench.query_instance import client_of, instance_with
from bench.query_sides import Others, asked, timed, write_transactions
from tests.support.query_service import user_client
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings

THROUGH, DIRECT = "gateway", "query service"
SAMPLES = 200
TABS, WATCHED_S = 50, 20.0


@measurement("gateway", f"a query through it and past it, and {TABS} open pages")
def gateway(bench: Bench) -> Iterator[Result]:
    folder = bench.workspace / "transactions"
    write_transactions(folder, SMALL_ROWS)
    with (
        instance_with(bench.workspace / "home", {"transactions": folder}, door=True) as home,
        client_of(home) as direct,
        _through(home) as through,
    ):
        yield _added(through, direct)
        yield _watching(home)


def _added(through: httpx.Client, direct: httpx.Client) -> Result:
    sides = {
        THROUGH: timed(lambda: asked(through, SMALL["aggregate"])),
        DIRECT: timed(lambda: asked(direct, SMALL["aggregate"])),
    }
    with Others() as others:
        taken = interleaved(sides, SAMPLES, warm_ups=20)
    ours, theirs = (median(taken[side]) * 1e3 for side in (THROUGH, DIRECT))
    note = f"p50 {ours:.1f} ms, {DIRECT} {theirs:.1f} ms; {SAMPLES} each, {others.note}"
    return Result("gateway.query", ours - theirs, "ms", goal=Goal(3, "p50 added"), note=note)


def _watching(home: Home) -> Result:
    dispatcher = _dispatcher(home)
    alone = _share(dispatcher)
    with ExitStack() as open_pages:
        for _ in range(TABS):
            page = open_pages.enter_context(_through(home))
            stream = open_pages.enter_context(page.stream("GET", "/v1/live"))
            next(stream.iter_bytes())
        watched = _share(dispatcher)
    note = f"{watched:.1f} % with, {alone:.1f} % without, of one core over {WATCHED_S:g} s each"
    return Result("gateway.tabs", watched - alone, "%", goal=Goal(5, "the dispatcher's"), note=note)


def _share(process: psutil.Process) -> float:
    """Of one core, in percent."""
    before = process.cpu_times()
    time.sleep(WATCHED_S)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return 100 * used / WATCHED_S


def _dispatcher(home: Home) -> psutil.Process:
    for process in psutil.Process().children(recursive=True):
        command = process.cmdline()
        if "dispatcher" in command and str(home.root) in command:
            return process
    raise BenchError("the dispatcher is not found")


def _through(home: Home) -> httpx.Client:
    port = open_instance(home, load_settings(home)).port("gateway")
    return user_client(home, f"http://localhost:{port}")
