"""A busy chain on anvil that is reorganised on command. What it holds depends on the seed alone."""

from __future__ import annotations

import random
from typing import Any

from tests.support.anvil import Anvil
from tests.support.busy_chain import LOGGER, OPTIONS, TOP, creation
from trace_devchain.activity import TRANSFER

__all__ = ["OPTIONS", "Miner", "TokenMiner"]

# Logs a Transfer of what its call data says: from, to and an amount, of 32 bytes each.
_TOKEN = "604035600052" + "602035" + "600035" + f"7f{TRANSFER[2:]}" + "60206000a300"


class Miner:
    """Blocks of transfers, calls that log with none to four topics, and nothing at all."""

    def __init__(self, node: Anvil, seed: int) -> None:
        self.node = node
        self._rng = random.Random(seed)
        self._accounts = node.call("eth_accounts")
        self._logger = self._deploy()

    @property
    def head(self) -> int:
        return int(self.node.call("eth_blockNumber"), 16)

    @property
    def head_hash(self) -> bytes:
        return bytes.fromhex(self.node.call("eth_getBlockByNumber", "latest", False)["hash"][2:])

    def mine(self, n: int = 1) -> None:
        for _ in range(n):
            for sender in self._accounts[: self._rng.randint(0, 4)]:
                self.node.call("eth_sendTransaction", self._transaction(sender))
            self.node.call("evm_mine")

    def reorg(self, depth: int) -> None:
        """As many other blocks in place of the last ones."""
        others = [[self._transaction(sender), 0] for sender in self._accounts[:2]]
        others += [[self._transaction(self._accounts[5]), i] for i in range(1, depth) if i % 3 == 0]
        self.node.call("anvil_reorg", depth, others)

    def _transaction(self, sender: str) -> dict[str, Any]:
        fees = {"maxFeePerGas": "0xa", "maxPriorityFeePerGas": "0x1"}
        body = {"from": sender, "gas": hex(200_000), **fees}
        if self._rng.random() < 0.5:
            return body | {"to": self._logger, "data": "0x" + self._rng.randbytes(8).hex()}
        value = hex(self._rng.randint(1, 10**9))
        return body | {"to": self._rng.choice(self._accounts), "value": value}

    def _deploy(self, code: str = LOGGER) -> str:
        fees = {"maxFeePerGas": "0xa", "maxPriorityFeePerGas": "0x1", "gas": hex(1_000_000)}
        body = {"from": self._accounts[9], "data": creation(code), **fees}
        sent = self.node.call("eth_sendTransaction", body)
        self.node.call("evm_mine")
        return str(self.node.call("eth_getTransactionReceipt", sent)["contractAddress"])


class TokenMiner(Miner):
    """The same, and each second transaction moves some of one of two tokens."""

    def __init__(self, node: Anvil, seed: int) -> None:
        self._tokens: list[str] = []
        super().__init__(node, seed)
        self._tokens = [self._deploy(_TOKEN), self._deploy(_TOKEN)]

    def answer(self, method: str, params: list[Any]) -> Any:
        return self.node.call(method, *params)

    def _transaction(self, sender: str) -> dict[str, Any]:
        other = super()._transaction(sender)
        if not self._tokens or self._rng.random() < 0.5:
            return other
        receiver, amount = self._rng.choice(self._accounts), self._rng.choice([1, 2**255, TOP])
        words = f"{sender[2:]:0>64}{receiver[2:]:0>64}{amount:064x}"
        moved = {name: value for name, value in other.items() if name != "value"}
        return moved | {"to": self._rng.choice(self._tokens), "data": "0x" + words}
