"""Many histories, one after the other, in one process or several."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.conftest import PostgresServer
from tests.support.judge.history import History, generate, kinds_for
from tests.support.judge.judge import Verdict, judge
from tests.support.judge.shapes import SHAPES
from tests.support.judge.shrink import shrink
from tests.support.judge.stage import Stage, lent_postgres, open_stage, store_folder


@dataclass(frozen=True)
class Asked:
    """Which histories."""

    shapes: tuple[str, ...]
    seed: int
    histories: int
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    # Rules of the end that may be broken.
    allowed: frozenset[str] = frozenset()
    # Only a break of these counts; none: of any. What is said of it contains this.
    rules: frozenset[str] = frozenset()
    said: str = ""
    # Everything that follows from an action is done before the next.
    calm: bool = False

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Shape and seed, the shapes in turn."""
        for n in range(self.histories):
            yield self.shapes[n % len(self.shapes)], self.seed + n // len(self.shapes)

    def each(self) -> Iterator[Asked]:
        """One history at a time."""
        for shape, seed in self:
            yield replace(self, shapes=(shape,), seed=seed, histories=1)

    def history(self, shape: str, seed: int) -> History:
        return generate(SHAPES[shape], seed, kinds_for(SHAPES[shape], self.only, self.without))

    def counts(self, verdict: Verdict) -> bool:
        if verdict.found is None:
            return False
        counts = not self.rules or verdict.found.rule in self.rules
        return counts and re.search(self.said, verdict.found.said) is not None


@dataclass(frozen=True)
class Failure:
    shape: str
    seed: int
    rule: str
    said: str
    history: History
    smallest: History = ()
    lines: tuple[str, ...] = ()
    # Which of the histories of its process it was.
    number: int = 0

    def __str__(self) -> str:
        return "\n".join(
            [
                f"shape {self.shape} ({SHAPES[self.shape].said}), seed {self.seed}",
                f"{self.rule}: {self.said}",
                f"replay: --shapes {self.shape} --replay '{'; '.join(map(str, self.smallest))}'",
                *(f"  {line}" for line in self.lines),
            ]
        )


@dataclass
class Tally:
    played: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    # How many the newest report added.
    last: int = 0

    def with_more(self, other: Tally) -> Tally:
        return Tally(self.played + other.played, self.rules + other.rules, other.played)


async def first_failure(stage: Stage, asked: Asked, tally: Tally) -> Failure | None:
    """The first history that breaks a rule, shrunk."""
    async for failure in failures(stage, asked, tally):
        return await shrunk(stage, asked, failure)
    return None


async def failures(stage: Stage, asked: Asked, tally: Tally) -> AsyncIterator[Failure]:
    for shape, seed in asked:
        history = asked.history(shape, seed)
        verdict = await judge(stage, SHAPES[shape], history, asked.allowed, calm=asked.calm)
        tally.played += 1
        if verdict.found is not None:
            tally.rules[verdict.found.rule] += 1
        if asked.counts(verdict) and verdict.found is not None:
            found = verdict.found
            yield Failure(
                shape, seed, found.rule, found.said, history, history, tuple(verdict.lines)
            )


async def shrunk(stage: Stage, asked: Asked, failure: Failure) -> Failure:
    shape = SHAPES[failure.shape]

    async def fails(history: History) -> bool:
        verdict = await judge(stage, shape, history, asked.allowed, calm=asked.calm)
        return asked.counts(verdict) and verdict.found.rule == failure.rule  # type: ignore[union-attr]

    smallest = await shrink(failure.history, fails)
    last = await judge(stage, shape, smallest, asked.allowed, calm=asked.calm)
    if last.found is None:
        return failure
    return replace(
        failure,
        rule=last.found.rule,
        said=last.found.said,
        smallest=smallest,
        lines=tuple(last.lines),
    )


def run_process(home: str, folder: Path, asked: Asked, reports: Any) -> None:
    """In a process of its own. Puts a tally now and then, failures, and None at the end."""
    asyncio.run(_run(home, folder, asked, reports))


async def _run(home: str, folder: Path, asked: Asked, reports: Any) -> None:
    async with open_stage(lent_postgres(home), folder) as stage:
        tally, said_at = Tally(), time.monotonic()
        for number, one in enumerate(asked.each(), 1):
            async for failure in failures(stage, one, tally):
                reports.put(replace(failure, number=number))
            if time.monotonic() - said_at > 1:
                reports.put(tally)
                tally, said_at = Tally(), time.monotonic()
        reports.put(tally)
        reports.put(None)


def shares(asked: Asked, workers: int) -> list[Asked]:
    """Seeds that lie apart, so that each worker has its own."""
    each = -(-asked.histories // workers)
    seeds = -(-each // len(asked.shapes))
    return [replace(asked, seed=asked.seed + n * seeds, histories=each) for n in range(workers)]


@contextmanager
def spread(postgres: PostgresServer, asked: Asked, workers: int) -> Iterator[Iterator[Any]]:
    """What processes report, until the last one is done. What those leave that are ended before
    is deleted."""
    with store_folder() as folder:
        yield from _spread(postgres, asked, workers, folder)


def _spread(
    postgres: PostgresServer, asked: Asked, workers: int, folder: Path
) -> Iterator[Iterator[Any]]:
    context = multiprocessing.get_context("spawn")
    reports = context.Queue()
    processes = [
        context.Process(target=run_process, args=(str(postgres.home.root), folder, share, reports))
        for share in shares(asked, workers)
    ]
    for process in processes:
        process.start()
    try:
        yield _until_done(reports, workers)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _until_done(reports: Any, workers: int) -> Iterator[Any]:
    while workers:
        report = reports.get()
        if report is None:
            workers -= 1
        else:
            yield report
