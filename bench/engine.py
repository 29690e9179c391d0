"""The engine next to other job queues on Postgres: many no-op tasks, single ones, chains of them.

All sides share one durable server and take turns on it. Trace's own side is
`trace_side(postgres, workspace)` in bench/engine_trace.py; what a side does, EngineSide says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from bench.engine_peers import DBOS, PEER_SIDES, PROCRASTINATE, EngineSide, engine_postgres
from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.peers import PeerUnavailable
from bench.process_tree import cpu_seconds, machine_cpu_seconds

OURS = "trace"
# 200 samples in the usual five runs.
SAMPLES_PER_RUN = 40
LINKS = 40


@dataclass(frozen=True, slots=True)
class Run:
    figures: list[float]
    others_cores: float  # what else ran on the machine


@dataclass(frozen=True, slots=True)
class Compared:
    """The runs by side. A peer that is not among them is in `missing`, with the reason."""

    name: str
    runs: Mapping[str, Sequence[Run]]
    settings: Mapping[str, str]
    missing: Sequence[str]

    def results(
        self,
        figure: str,
        unit: str,
        of: Callable[[list[float]], float],
        goal: Goal,
        peer_goals: Sequence[Goal] = (),
    ) -> Iterator[Result]:
        """Ours against its own limit, then next to each peer."""
        ours, name = self._over_all(OURS, of), f"{self.name}.{figure}"
        note = "; ".join([self._note(OURS, of), self._others(), *self.missing])
        yield Result(name, ours, unit, goal=goal, note=note)
        goals = {goal.of_peer: goal for goal in peer_goals}
        for peer in [side for side in self.runs if side != OURS]:
            theirs = self._over_all(peer, of)
            note = f"{peer} {self._note(peer, of)}"
            yield Result(f"{name}_vs_{peer}", ours, unit, peer, theirs, goals.get(peer), note)

    def _over_all(self, side: str, of: Callable[[list[float]], float]) -> float:
        return of([figure for run in self.runs[side] for figure in run.figures])

    def _note(self, side: str, of: Callable[[list[float]], float]) -> str:
        found = spread([of(run.figures) for run in self.runs[side]])
        return f"{found}: {self.settings[side]}" if self.settings[side] else found

    def _others(self) -> str:
        others = median(run.others_cores for runs in self.runs.values() for run in runs)
        return f"others used {others:.1f} of {os.cpu_count()} cores"


@measurement("engine_throughput", "no-op tasks from enqueue to commit per second, and its peers")
def engine_throughput(bench: Bench) -> Iterator[Result]:
    runs = _compare(
        bench, "engine_throughput", lambda side: [side.jobs / side.lifecycles(side.jobs)]
    )
    twice = [Goal(2.0, "rate", at_most=False, of_peer=p.name) for p in (PROCRASTINATE, DBOS)]
    yield from runs.results("rate", "tasks/s", median, Goal(1_600, "rate", at_most=False), twice)


@measurement(
    "engine_latency", "from enqueue to a task's first line on an idle worker, and its peers"
)
def engine_latency(bench: Bench) -> Iterator[Result]:
    runs = _compare(
        bench, "engine_latency", lambda side: [s * 1e3 for s in side.latencies(SAMPLES_PER_RUN)]
    )
    yield from runs.results("p50", "ms", median, Goal(10, "latency p50"))
    yield from runs.results("p99", "ms", partial(_quantile, 0.99), Goal(30, "latency p99"))


@measurement("engine_chain", f"{LINKS} no-op tasks of which each causes the next, and its peers")
def engine_chain(bench: Bench) -> Iterator[Result]:
    runs = _compare(bench, "engine_chain", lambda side: [side.chain(LINKS)])
    yield from runs.results("wall", "s", median, Goal(0.6, "wall"))


def _compare(bench: Bench, name: str, take: Callable[[EngineSide], list[float]]) -> Compared:
    makers = {OURS: _trace_side(), **PEER_SIDES}
    sides: dict[str, EngineSide] = {}
    missing: list[str] = []
    with ExitStack() as stack:
        postgres = stack.enter_context(engine_postgres(bench.workspace))
        for side, make in makers.items():
            try:
                sides[side] = make(postgres, bench.workspace)
            except PeerUnavailable as error:
                missing.append(str(error))
            else:
                stack.callback(sides[side].close)
        runs = interleaved(
            {side: partial(_run, made, take) for side, made in sides.items()}, bench.runs
        )
    return Compared(name, runs, {side: made.settings for side, made in sides.items()}, missing)


def _trace_side() -> Callable[..., EngineSide]:
    try:
        make: Callable[..., EngineSide] = import_module("bench.engine_trace").trace_side
    except ModuleNotFoundError as error:
        if error.name != "bench.engine_trace":
            raise
        raise BenchError("there is no trace_side yet: bench/engine_trace.py is missing") from None
    return make


def _run(side: EngineSide, take: Callable[[EngineSide], list[float]]) -> Run:
    # Everything that is measured, the server included, was started by this process.
    before_s, others_s = time.monotonic(), machine_cpu_seconds() - cpu_seconds(os.getpid())
    figures = take(side)
    others_s = machine_cpu_seconds() - cpu_seconds(os.getpid()) - others_s
    return Run(figures, max(0.0, others_s) / (time.monotonic() - before_s))


def _quantile(share: float, values: list[float]) -> float:
    return sorted(values)[max(0, round(share * len(values)) - 1)]
