"""Threads for attempts: as many as run at once need, and no more woken than that.

Waking a thread costs more than a short attempt does. So one is woken at a time, and it wakes the
next before it starts: attempts that wait for something spread over threads at once, attempts that
end at once are run one after the other by the same few.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from trace_platform.worker.attempt import Attempt


class AttemptThreads:
    """`run` is called with each attempt and must not raise. Threads end with their process."""

    def __init__(self, run: Callable[[Attempt], None]) -> None:
        self._run = run
        self._changed = threading.Condition()
        self._waiting: deque[Attempt] = deque()
        self._idle = 0
        self._started = 0
        # One that was told to look, or is starting, and has not looked yet.
        self._called = False

    def launch(self, attempt: Attempt) -> None:
        with self._changed:
            self._waiting.append(attempt)
            self._call_one()

    def _call_one(self) -> None:
        if self._called or not self._waiting:
            return
        self._called = True
        if self._idle:
            self._changed.notify()
            return
        self._started += 1
        name = f"attempts-{self._started}"
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        fresh = True
        while True:
            with self._changed:
                if fresh:
                    self._called = fresh = False
                while not self._waiting:
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                    self._called = False
                attempt = self._waiting.popleft()
                self._call_one()
            self._run(attempt)
