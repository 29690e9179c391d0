"""Attempts that wait run side by side; attempts that end at once share few threads."""

from __future__ import annotations

import threading
from typing import Any, cast

from trace_platform.worker.attempt import Attempt
from trace_platform.worker.attempt_threads import AttemptThreads


def attempts(n: int) -> list[Attempt]:
    return [cast(Attempt, object()) for _ in range(n)]


def test_attempts_that_wait_for_each_other_all_run() -> None:
    """Each waits until all have started: with one thread too few, nobody would get on."""
    together = threading.Barrier(17)
    threads = AttemptThreads(lambda _: cast(Any, together.wait(20)))
    for attempt in attempts(16):
        threads.launch(attempt)
    together.wait(20)


def test_every_attempt_runs_once_however_they_arrive() -> None:
    seen: list[Attempt] = []
    done = threading.Semaphore(0)

    def run(attempt: Attempt) -> None:
        seen.append(attempt)
        done.release()

    threads = AttemptThreads(run)
    launched = attempts(3_000)
    for attempt in launched:
        threads.launch(attempt)
    for _ in launched:
        assert done.acquire(timeout=20)
    assert len(seen) == len(set(map(id, seen))) == 3_000


def test_a_long_attempt_does_not_keep_the_next_from_starting() -> None:
    let_go, second_ran = threading.Event(), threading.Event()
    first, second = attempts(2)

    def run(attempt: Attempt) -> None:
        if attempt is first:
            let_go.wait(20)
        else:
            second_ran.set()

    threads = AttemptThreads(run)
    threads.launch(first)
    threads.launch(second)
    assert second_ran.wait(20)
    let_go.set()
