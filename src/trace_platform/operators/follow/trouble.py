"""What keeps going wrong: said once per cause, and tried again ever more slowly. When it lasts, it
is an incident."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from trace_platform.data.incidents import Incidents, at_block
from trace_platform.domain.errors import TraceError
from trace_platform.operators.contract import OperatorLog

_LONGEST_PAUSE_S = 5.0


class Trouble:
    def __init__(
        self,
        log: OperatorLog,
        incidents: Incidents,
        tell: Callable[[str | None], None],
        *,
        first_pause_s: float,
        alert_after_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._incidents = incidents
        # Hears why there is no progress, and when that is over.
        self._tell = tell
        self._first_pause_s = first_pause_s
        self._alert_after_s = alert_after_s
        self._now = now
        self._since: float | None = None
        self.pause_s = first_pause_s
        self._causes: set[str] = set()

    def happened(self, error: Exception, last: int | None) -> None:
        self.pause_s = min(2 * self.pause_s, max(_LONGEST_PAUSE_S, self._first_pause_s))
        code = error.code if isinstance(error, TraceError) else "chain_moved"
        self._tell(f"[{code}] {error}")
        # Numbers and hashes change with every block, the cause does not.
        cause = re.sub(r"0x[0-9a-f]+|\d+", "#", str(error))
        if cause not in self._causes:
            self._causes.add(cause)
            self._log.warning("following_waits", code=code, reason=str(error))
        if self._since is None:
            self._since = self._now()
        if self._now() - self._since >= self._alert_after_s:
            self._alert(f"[{code}] {error}", last)

    def is_over(self, last: int | None) -> None:
        if self._causes:
            self._log.info("following_goes_on", causes=len(self._causes))
        self._causes.clear()
        self._since = None
        self.pause_s = self._first_pause_s
        self._tell(None)
        said = f"the follower goes on: it stands {at_block(last)}"
        self._incidents.end("source_stuck_ended", said, {"last_block": last})

    def _alert(self, why: str, last: int | None) -> None:
        place = at_block(last)
        said = f"the follower stands {place} for more than {self._alert_after_s:g} s: {why}"
        facts = {"last_block": last, "reason": why}
        self._incidents.begin(str(last), "critical", "source_stuck", said, facts)
