"""Two threads of a worker poll, for tasks and for sources: what ends one ends the worker."""

from __future__ import annotations

from typing import Any

import pytest

from trace_platform.domain.worker_identity import WorkerIdentity
from trace_platform.worker.serve import Line, Worker


class Quiet:
    """A queue without wake-ups."""

    def receive(self, *_: Any) -> list[Any]:
        return []


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
    queues: dict[str, Any] = {"tasks": Quiet(), "sources": Quiet()} | {broken: Broken()}
    worker = Worker(
        WorkerIdentity("here", 1, 7),
        "ecs_platform",
        Line(1, queues["tasks"], "tasks", is_sources=False),
        Line(1, queues["sources"], "sources", is_sources=True),
        Alone(),  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
    )
    with pytest.raises(RuntimeError, match="a defect"):
        worker._work()
    worker._stopping.set()
