"""The ticker counts ticks since 1970, repeats none and ends when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.support.operator_task import operator_task
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import TaskCanceled
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.ticker import Config, Ticker
from trace_platform.wire.task import DatasetEvent


class Clocked(Ticker):
    """Its time passes only while it naps."""

    def __init__(self, now: float) -> None:
        self.time = now
        self.naps = 0

    def now(self) -> float:
        return self.time

    def nap(self, seconds: float) -> None:
        assert 0 < seconds <= 0.1, "a directive is noticed soon"
        self.naps += 1
        self.time += seconds + 1e-6


def task_of(tmp_path: Path, config: Config) -> tuple[TaskContext, list[int | None]]:
    cursors: list[int | None] = []

    def emit(events: Sequence[DatasetEvent]) -> int:
        cursors.extend(event.cursor for event in events)
        return len(events)

    task = operator_task(config, BlockRange(0, 0), tmp_path, outputs=("ticks",))
    return replace(task, inputs=(), emit=emit), cursors


def test_the_cursor_is_the_number_of_the_tick(tmp_path: Path) -> None:
    task, cursors = task_of(tmp_path, Config(every_seconds=2, limit=4))
    Clocked(1001.0).run(task)
    assert cursors == [500, 501, 502, 503]


def test_an_attempt_that_takes_over_goes_on_where_the_clock_is(tmp_path: Path) -> None:
    task, cursors = task_of(tmp_path, Config(every_seconds=0.5, limit=2))
    ticker = Clocked(100.0)
    ticker.run(task)
    Clocked(ticker.time).run(task)
    assert cursors == [200, 201, 201, 202], "the same tick again is the same event"


def test_ticks_that_nobody_was_there_for_are_left_out(tmp_path: Path) -> None:
    task, cursors = task_of(tmp_path, Config(every_seconds=1, limit=3))
    ticker = Clocked(10.0)
    emit = task.emit

    def slow(events: Sequence[DatasetEvent]) -> int:
        ticker.time += 5
        return emit(events)

    ticker.run(replace(task, emit=slow))
    assert cursors == [10, 15, 20]


def test_a_clock_that_is_set_back_repeats_nothing(tmp_path: Path) -> None:
    task, cursors = task_of(tmp_path, Config(every_seconds=1, limit=2))
    ticker = Clocked(10.0)
    emit = task.emit

    def set_back(events: Sequence[DatasetEvent]) -> int:
        ticker.time -= 3
        return emit(events)

    ticker.run(replace(task, emit=set_back))
    assert cursors == [10, 11]


def test_it_ends_when_it_is_told_to_drain(tmp_path: Path) -> None:
    task, cursors = task_of(tmp_path, Config(every_seconds=1))
    result = Clocked(10.0).run(replace(task, draining=lambda: len(cursors) == 3))
    assert cursors == [10, 11, 12]
    assert (result.events, result.outputs) == ([], [])


def test_it_stops_at_the_check(tmp_path: Path) -> None:
    task, cursors = task_of(tmp_path, Config(every_seconds=1))

    def check() -> None:
        if len(cursors) == 2:
            raise TaskCanceled("canceled on request")

    with pytest.raises(TaskCanceled):
        Clocked(10.0).run(replace(task, check=check))
    assert cursors == [10, 11]


@pytest.mark.parametrize(
    "config", [{}, {"every_seconds": 0.001}, {"every_seconds": 1, "limit": 0}, {"every": 1}]
)
def test_what_makes_no_sense_is_refused(config: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate(config)
