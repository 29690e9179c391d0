"""How a source stands with the outside: when it heard of that, and why it does not get on."""

from __future__ import annotations

import time
from collections.abc import Callable

from trace_platform.domain.masking import mask_text
from trace_platform.wire.task import Progress

_MAX_CHARACTERS = 2_000


class Standing:
    """Told by the operator's thread, read by the one of heartbeats."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._heard_at: float | None = None
        # Since when, and why.
        self._stuck: tuple[float, str] | None = None

    def heard(self) -> None:
        self._heard_at = self._now()

    def is_stuck(self, why: str | None) -> None:
        """Since the first time that it was, whatever the reasons were meanwhile."""
        if why is None:
            self._stuck = None
        else:
            since = self._stuck[0] if self._stuck else self._now()
            self._stuck = since, mask_text(why)[:_MAX_CHARACTERS]

    def told(self, progress: Progress | None) -> Progress | None:
        """The progress as a heartbeat says it; None while there is nothing to say."""
        stuck, heard_at = self._stuck, self._heard_at
        if progress is None and stuck is None:
            return None
        since, why = stuck or (self._now(), None)
        return (progress or Progress(done=0, total=0)).model_copy(
            update={
                "heard_s": None if heard_at is None else round(self._now() - heard_at, 1),
                "stuck": why,
                "stuck_s": round(self._now() - since, 1),
            }
        )
