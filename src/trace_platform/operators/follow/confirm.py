"""A fork is a suspicion until the pool has said so several times."""

from __future__ import annotations

import time
from collections.abc import Callable

from trace_platform.data.incidents import Incidents, at_block
from trace_platform.domain.errors import MalformedBlock, RpcUnreachable
from trace_platform.operators.contract import OperatorLog
from trace_platform.operators.follow.background_work import BackgroundWork
from trace_platform.operators.follow.chain import Chain
from trace_platform.operators.follow.fork import Fork
from trace_platform.operators.follow.window import Window


class Confirmations:
    """Asks most of the pool's providers, with a pause before each time but the first. While a fork
    is neither confirmed nor gone nothing is written: that is an incident once it has lasted."""

    def __init__(
        self,
        chain: Chain,
        background: BackgroundWork,
        log: OperatorLog,
        incidents: Incidents,
        *,
        times: int,
        pause_s: float,
        alert_after_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chain = chain
        self._background = background
        self._log = log
        self._incidents = incidents
        self._times = times
        self._pause_s = pause_s
        self._alert_after_s = alert_after_s
        self._now = now
        self._refused: Fork | None = None
        self._since: float | None = None
        self.refusals = 0

    def has(self, fork: Fork, window: Window) -> bool:
        """Whether the fork is there each time. One that is not is logged once."""
        expected = [fork.new_hash]
        numbers = [fork.start]
        if fork.parent is not None and (known := window.get(fork.parent)) is not None:
            expected, numbers = [known, *expected], [fork.parent, *numbers]
        for turn in range(self._times):
            if turn:
                self._background.nap(self._pause_s)
            why = self._contradiction(numbers, expected)
            if why is not None:
                self._refuse(fork, window.last, why)
                return False
        self._refused = None
        return True

    def went_on(self, last: int | None) -> None:
        """Something was written, up to this block: whatever was in the way is no more."""
        self._since = None
        said = f"the follower goes on: block {last} is written"
        self._incidents.end("fork_unconfirmed_ended", said, {"last_block": last})

    def _contradiction(self, numbers: list[int], expected: list[bytes]) -> str | None:
        try:
            found = self._chain.agreed_hashes(numbers)
        except (RpcUnreachable, MalformedBlock) as error:
            return error.message
        return None if found == expected else "the providers have another chain"

    def _refuse(self, fork: Fork, last: int | None, why: str) -> None:
        self.refusals += 1
        facts = {"block": fork.start, "hash": "0x" + fork.new_hash.hex(), "reason": why}
        if fork != self._refused:
            self._refused = fork
            self._log.warning("fork_not_confirmed", times=self.refusals, **facts)
        if self._since is None:
            self._since = self._now()
        if self._now() - self._since >= self._alert_after_s:
            said = (
                f"the follower stands {at_block(last)} for more than {self._alert_after_s:g} s:"
                f" a fork at block {fork.start} is not confirmed ({why})"
            )
            facts |= {"last_block": last}
            self._incidents.begin(str(last), "warning", "fork_unconfirmed", said, facts)
