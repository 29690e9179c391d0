"""How long a caller waits: for an answer, and for a service that is busy."""

from __future__ import annotations

import time
from collections.abc import Callable

from trace_platform.domain.errors import QueryCanceled, TraceError

# Longer than any setting lets a query take, so that the service's own answer arrives first.
ANSWER_S = 3_700.0

# Told of each wait: how long it will be, and because of what.
OnWait = Callable[[float, TraceError], None]


class Deadline:
    """The caller's time-out. Without one the service's own limit counts."""

    def __init__(self, timeout_s: float | None = None) -> None:
        self._timeout_s = timeout_s
        self._until = None if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float:
        """For the next step. Raise QueryCanceled when there is no time left."""
        if self._until is None:
            return ANSWER_S
        left = self._until - time.monotonic()
        if left <= 0:
            raise self.passed()
        return left

    @property
    def is_given(self) -> bool:
        return self._until is not None

    def passed(self) -> QueryCanceled:
        return QueryCanceled(
            f"the query was stopped after {self._timeout_s:g} s, the caller's time-out",
            hint="give it a longer time-out, or ask for less",
        )


class Patience:
    """Waits as long as the service says, and not longer than this in all."""

    def __init__(self, most_s: float, deadline: Deadline, on_wait: OnWait | None = None) -> None:
        self._until = time.monotonic() + most_s
        self._deadline, self._on_wait = deadline, on_wait

    def wait_or_raise(self, refusal: TraceError, after_s: float | None) -> None:
        """`after_s`: when the service wants to be asked again; None: it would not help."""
        now = time.monotonic()
        if after_s is None or now + after_s > self._until or after_s > self._deadline.left_s():
            raise refusal
        if self._on_wait is not None:
            self._on_wait(after_s, refusal)
        time.sleep(after_s)
