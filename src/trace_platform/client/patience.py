"""How long a caller waits: for an answer, and for a service that is busy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from trace_platform.domain.errors import BadInput, QueryCanceled, TraceError
from trace_platform.domain.figures import duration

# Told of each wait: how long it will be, and because of what.
OnWait = Callable[[float, TraceError], None]


class Deadline:
    """The caller's time-out, for all steps of a request. Without one the service's own limit
    counts."""

    def __init__(self, timeout_s: float | None = None) -> None:
        if timeout_s is not None and not timeout_s > 0:
            raise BadInput(f"a time-out of {timeout_s} s", hint="give seconds, more than 0")
        self._timeout_s, self._began = timeout_s, time.monotonic()

    @property
    def is_given(self) -> bool:
        return self._timeout_s is not None

    @property
    def until(self) -> float:
        """On the monotonic clock; without a time-out never."""
        return math.inf if self._timeout_s is None else self._began + self._timeout_s

    @property
    def waited(self) -> str:
        """How long in truth, and what the limit was."""
        said = duration(time.monotonic() - self._began)
        return said if self._timeout_s is None else f"{said} (time-out: {self._timeout_s:g} s)"

    def passed(self, awaited: str) -> QueryCanceled:
        return QueryCanceled(
            f"the query was stopped after {self.waited}, waiting for {awaited}",
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
        if after_s is None or now + after_s > min(self._until, self._deadline.until):
            raise refusal
        if self._on_wait is not None:
            self._on_wait(after_s, refusal)
        time.sleep(after_s)
