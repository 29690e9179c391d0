"""How a job queue is measured, the same way for every peer. The subject is the client: it enqueues
and reads the clock. One worker, a process of its own as in production, runs the jobs. It is up
only while its side is measured: an idle one may poll, at the cost of the side whose turn it is.

A job does nothing, or is a link of a chain: it enqueues the next one, and the last sends a stamp,
the time at which it ran. Needs the standard library only.
"""

from __future__ import annotations

import os
import random
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from bench.subjects.serve import Work

_STAMP = struct.Struct("q")
_LIMIT_S = 120.0
_POLL_S = 0.002
# So that no sample follows the one before at a fixed phase of somebody's timer.
_PAUSE_S = (0.005, 0.020)


class Client(Protocol):
    """The peer's own client. What it enqueued is committed when the call returns."""

    def enqueue_noops(self, n: int) -> None: ...

    def enqueue_chain(self, length: int) -> None:
        """The first link. A chain of one is a job that stamps."""

    def is_idle(self) -> bool:
        """Whether the peer's tables say that every job has ended."""

    def succeeded(self) -> int:
        """How many jobs ever did, by the peer's tables."""


def rounds_of(client: Client, module: str, *args: str) -> Work:
    """Runs of `lifecycles`, `latencies` and `chain`. The worker is `python -m MODULE worker ROUND
    ARGS`: a peer may have other settings for one round than for another."""

    def work(request: dict[str, Any]) -> dict[str, Any]:
        name, n = request["round"], request["n"]
        with _worker(module, "worker", name, *args) as stamps:
            rounds = Rounds(client, stamps)
            rounds.chain(1)  # the worker is up when it has run a job
            before = client.succeeded()
            taken = getattr(rounds, name)(n)
            done = client.succeeded() - before
        if done != n:
            raise RuntimeError(f"{done} of {n} jobs succeeded")
        return {"seconds": taken}

    return work


class Rounds:
    def __init__(self, client: Client, stamps: int) -> None:
        self._client = client
        self._stamps = stamps

    def lifecycles(self, n: int) -> float:
        """Seconds from the first enqueue until every job is finished in the database."""
        started = time.monotonic()
        self._client.enqueue_noops(n - 1)
        # Jobs start in order: only from this one's stamp on it is worth asking for their end.
        self.chain(1)
        return time.monotonic() - started

    def latencies(self, n: int) -> list[float]:
        """Seconds from the enqueue's return to the job's first line, the worker being idle."""
        samples = []
        for _ in range(n):
            time.sleep(random.uniform(*_PAUSE_S))
            self._client.enqueue_chain(1)
            committed = time.monotonic()
            samples.append(self._next_stamp() - committed)
            self._until_idle()
        return samples

    def chain(self, n: int) -> float:
        """Seconds from the first enqueue until the last link is finished in the database."""
        started = time.monotonic()
        self._client.enqueue_chain(n)
        self._next_stamp()
        self._until_idle()
        return time.monotonic() - started

    def _next_stamp(self) -> float:
        # Nothing is said to the subject during a run: input means that the harness hung up.
        ready = select.select([self._stamps, sys.stdin], [], [], _LIMIT_S)[0]
        if self._stamps not in ready:
            raise RuntimeError("no harness" if ready else f"no job ran within {_LIMIT_S:g} s")
        stamp = os.read(self._stamps, _STAMP.size)
        if not stamp:
            raise RuntimeError("the worker ended")
        return float(_STAMP.unpack(stamp)[0]) / 1e9

    def _until_idle(self) -> None:
        deadline = time.monotonic() + _LIMIT_S
        while not self._client.is_idle():
            if time.monotonic() > deadline:
                raise RuntimeError(f"jobs were unfinished after {_LIMIT_S:g} s")
            time.sleep(_POLL_S)


@contextmanager
def _worker(module: str, *args: str) -> Iterator[int]:
    """Yields the pipe of its stamps."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.fileno()
        finally:
            process.stdin.close()  # it ends with its input


def stamper() -> Callable[[], None]:
    """For the worker: its standard output carries stamps from now on, and it ends with its input,
    whatever becomes of the subject."""
    stamps = os.dup(1)
    os.dup2(2, 1)
    threading.Thread(target=_end_with_input, daemon=True).start()

    def stamp() -> None:
        os.write(stamps, _STAMP.pack(time.monotonic_ns()))

    return stamp


def _end_with_input() -> None:
    os.read(0, 1)
    os._exit(0)  # between runs no job is open: nothing to finish
