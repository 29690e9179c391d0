"""What keeps going wrong: said once per cause, and tried again ever more slowly."""

from __future__ import annotations

import re

from trace_platform.domain.errors import TraceError
from trace_platform.operators.contract import OperatorLog

_LONGEST_PAUSE_S = 5.0


class Trouble:
    def __init__(self, log: OperatorLog, first_pause_s: float) -> None:
        self._log = log
        self._first_pause_s = first_pause_s
        self.pause_s = first_pause_s
        self._causes: set[str] = set()

    def happened(self, error: Exception) -> None:
        self.pause_s = min(2 * self.pause_s, max(_LONGEST_PAUSE_S, self._first_pause_s))
        # Numbers and hashes change with every block, the cause does not.
        cause = re.sub(r"0x[0-9a-f]+|\d+", "#", str(error))
        if cause not in self._causes:
            self._causes.add(cause)
            code = error.code if isinstance(error, TraceError) else "chain_moved"
            self._log.warning("following_waits", code=code, reason=str(error))

    def is_over(self) -> None:
        if self._causes:
            self._log.info("following_goes_on", causes=len(self._causes))
        self._causes.clear()
        self.pause_s = self._first_pause_s
