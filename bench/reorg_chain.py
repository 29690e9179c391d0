"""A node whose chain grows by transfers and token logs and is rewritten: the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.harness import BenchError
from tests.support.anvil import Anvil, anvil
from tests.support.busy_chain import OPTIONS, creation

CHAIN_ID = 31337
# Of Transfer(address,address,uint256).
_TRANSFER = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
# Logs a Transfer of its second argument from the caller to its first. Nobody's balance is kept.
_TOKEN = f"602035600052600035337f{_TRANSFER}60206000a300"


class TokenChain:
    def __init__(self, node: Anvil, seed: int) -> None:
        self.node = node
        self.accounts: list[str] = node.call("eth_accounts")
        self._draw = random.Random(seed)
        self.token = self._deploy()

    @property
    def head(self) -> int:
        return int(self.node.call("eth_blockNumber"), 16)

    @property
    def head_hash(self) -> bytes:
        return bytes.fromhex(self.node.call("eth_getBlockByNumber", "latest", False)["hash"][2:])

    def grow_to(self, head: int) -> None:
        for _ in range(head - self.head):
            for sender in self._draw.sample(self.accounts, self._draw.randint(0, 3)):
                self.node.call("eth_sendTransaction", self._transaction(sender))
            self.node.call("evm_mine")

    def reorg(self, depth: int) -> None:
        """As many other blocks in place of the last ones, two thirds of them not empty."""
        others = [
            [self._transaction(self._draw.choice(self.accounts)), place]
            for place in range(depth)
            if place == 0 or self._draw.random() < 2 / 3
        ]
        self.node.call("anvil_reorg", depth, others)

    def _transaction(self, sender: str) -> dict[str, Any]:
        to, amount = self._draw.choice(self.accounts), self._draw.randint(1, 10**9)
        body = {"from": sender, "gas": hex(200_000), **_FEES}
        if self._draw.random() < 0.5:
            return body | {"to": to, "value": hex(amount)}
        return body | {"to": self.token, "data": f"0x{to[2:]:0>64}{amount:064x}"}

    def _deploy(self) -> str:
        body = {"from": self.accounts[0], "data": creation(_TOKEN), "gas": hex(1_000_000), **_FEES}
        sent = self.node.call("eth_sendTransaction", body)
        self.node.call("evm_mine")
        return str(self.node.call("eth_getTransactionReceipt", sent)["contractAddress"])


_FEES = {"maxFeePerGas": "0xa", "maxPriorityFeePerGas": "0x1"}


@contextmanager
def token_chain(seed: int) -> Iterator[TokenChain]:
    try:
        with anvil(*OPTIONS) as node:
            yield TokenChain(node, seed)
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        raise BenchError(str(error)) from None
