"""A fork is a suspicion until the pool has said so several times."""

from __future__ import annotations

from trace_platform.domain.errors import MalformedBlock, RpcUnreachable
from trace_platform.operators.contract import OperatorLog
from trace_platform.operators.follow.alongside import Alongside
from trace_platform.operators.follow.chain import Chain
from trace_platform.operators.follow.fork import Fork
from trace_platform.operators.follow.window import Window


class Confirmations:
    """Asks most of the pool's providers, with a pause before each time but the first."""

    def __init__(
        self, chain: Chain, alongside: Alongside, log: OperatorLog, times: int, pause_s: float
    ) -> None:
        self._chain = chain
        self._alongside = alongside
        self._log = log
        self._times = times
        self._pause_s = pause_s
        self._refused: Fork | None = None
        self.refusals = 0

    def has(self, fork: Fork, window: Window) -> bool:
        """Whether the fork is there each time. One that is not is logged once."""
        expected = [fork.new_hash]
        numbers = [fork.start]
        if fork.parent is not None and (known := window.get(fork.parent)) is not None:
            expected, numbers = [known, *expected], [fork.parent, *numbers]
        for turn in range(self._times):
            if turn:
                self._alongside.nap(self._pause_s)
            why = self._contradiction(numbers, expected)
            if why is not None:
                self._refuse(fork, why)
                return False
        self._refused = None
        return True

    def _contradiction(self, numbers: list[int], expected: list[bytes]) -> str | None:
        try:
            found = self._chain.agreed_hashes(numbers)
        except (RpcUnreachable, MalformedBlock) as error:
            return error.message
        return None if found == expected else "the providers have another chain"

    def _refuse(self, fork: Fork, why: str) -> None:
        self.refusals += 1
        if fork != self._refused:
            self._refused = fork
            facts = {"block": fork.start, "hash": "0x" + fork.new_hash.hex()}
            self._log.warning("fork_not_confirmed", reason=why, times=self.refusals, **facts)
