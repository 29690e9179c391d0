"""Two threads of a worker poll, for tasks and for sources: what ends one ends the worker."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from trace_platform.domain.errors import Unavailable
from trace_platform.domain.worker_identity import WorkerIdentity
from trace_platform.worker.serve import Line, Worker


class Quiet:
    """A queue without wake-ups."""

    def receive(self, *_: Any) -> list[Any]:
        return []


class Away:
    """A database that is not there."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def receive(self, *_: Any) -> list[Any]:
        self.asked.set()
        raise Unavailable("all its connections are taken")


class Broken:
    def receive(self, *_: Any) -> list[Any]:
        raise RuntimeError("a defect")


class Alone:
    """A dispatcher that knows of nothing."""

    def take_over(self, _: WorkerIdentity) -> int:
        return 0

    def complete(self, _: Any) -> None:
        raise AssertionError("nothing ran")


@pytest.mark.parametrize("broken", ["tasks", "sources"])
def test_a_defect_where_either_is_polled_ends_the_worker(broken: str) -> None:
    worker = _worker(**{"tasks": Quiet(), "sources": Quiet()} | {broken: Broken()})
    with pytest.raises(RuntimeError, match="a defect"):
        worker._work()
    worker._stopping.set()


def test_a_worker_says_for_how_long_it_gets_at_no_task() -> None:
    tasks = Away()
    worker = _worker(tasks=tasks, sources=Quiet())
    began = worker._tasks.polled_at = worker._sources.polled_at = time.monotonic() - 60
    polling = threading.Thread(target=worker._work)
    polling.start()
    assert tasks.asked.wait(60)
    worker._stopping.set()
    polling.join(60)
    assert worker._tasks.polled_at == began
    assert worker._sources.polled_at > began
    assert worker._polled_s() >= 60


def test_a_worker_without_room_need_not_look() -> None:
    worker = _worker(tasks=Away(), sources=Quiet())
    worker._tasks.polled_at = worker._sources.polled_at = 0.0
    for line in (worker._tasks, worker._sources):
        worker._take(line, 0)
    assert worker._polled_s() < 60


def _worker(tasks: Any, sources: Any) -> Worker:
    return Worker(
        WorkerIdentity("here", 1, 7),
        "ecs_platform",
        Line(1, tasks, "tasks", is_sources=False),
        Line(1, sources, "sources", is_sources=True),
        Alone(),  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
    )
