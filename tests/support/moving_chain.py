"""An anvil chain that grows with transfers and logs and is rewritten, the same way for a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.support.anvil import Anvil
from tests.support.busy_chain import LOGGER, creation

OPTIONS = (
    *("--no-mining", "--order", "fifo", "--hardfork", "prague", "--timestamp", "1700000000"),
    *("--base-fee", "0", "--gas-price", "0", "--disable-min-priority-fee"),
)


@dataclass
class MovingChain:
    node: Anvil
    seed: int
    _draw: random.Random = field(init=False)
    _accounts: list[str] = field(init=False)
    _logger: str = field(init=False)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._accounts = self.node.call("eth_accounts")
        sent = self._send(self._accounts[0], None, data=creation(LOGGER))
        self.node.call("evm_mine")
        self._logger = self.node.call("eth_getTransactionReceipt", sent)["contractAddress"]

    @property
    def head(self) -> int:
        return int(self.node.call("eth_blockNumber"), 16)

    def grow(self, blocks: int) -> int:
        """Blocks of none to three transactions; the new head."""
        for _ in range(blocks):
            for _ in range(self._draw.randint(0, 3)):
                self._transact()
            self.node.call("evm_mine")
        return self.head

    def reorg(self, depth: int) -> int:
        """Replace the last blocks by others, some of them empty; the new head."""
        transactions = [
            [self._transfer(), place]
            for place in range(depth)
            if self._draw.random() < min(1.0, 6 / depth)
        ]
        self.node.call("anvil_reorg", depth, transactions)
        return self.head

    def _transact(self) -> None:
        sender = self._draw.choice(self._accounts[1:])
        if self._draw.random() < 0.5:
            self._send(sender, self._logger, data="0x" + self._draw.randbytes(8).hex())
        else:
            self._send(sender, self._draw.choice(self._accounts), value=self._draw.randint(1, 999))

    def _transfer(self) -> dict[str, Any]:
        return {
            "from": self._accounts[0],
            "to": self._draw.choice(self._accounts),
            "value": hex(self._draw.randint(1, 999)),
        }

    def _send(self, sender: str, to: str | None, value: int = 0, data: str = "0x") -> str:
        body = {"from": sender, "value": hex(value), "data": data, "gas": hex(1_000_000)}
        fees = {"maxFeePerGas": "0xa", "maxPriorityFeePerGas": "0x1"}
        return str(self.node.call("eth_sendTransaction", body | fees | ({"to": to} if to else {})))
