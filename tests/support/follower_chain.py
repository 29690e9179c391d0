"""A chain that forks on command, told as a node's JSON: lagging, flapping and hanging on request.

Blocks are small; what they hold depends on their fork, so that a row of the wrong one is seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.support.tiny_chain import CHAIN_ID, address, digest

Block = dict[str, Any]


class ForkingChain:
    """`blocks` is what the node serves now; old forks are forgotten, as anvil forgets them."""

    def __init__(self, length: int = 1, fork: str = "main") -> None:
        self.lock = threading.RLock()
        self.blocks: list[Block] = []
        self.final_depth = 64
        self.chain_id = CHAIN_ID
        # Seen before each request is answered: may change the chain, or fail in a node's way.
        self.before: Callable[[str, list[Any]], None] = lambda method, params: None
        # Served in place of `blocks` by a provider that has its own view of the chain.
        self.view: Callable[[], list[Block]] = lambda: self.blocks
        self.grow(length, fork)

    @property
    def head(self) -> int:
        return len(self.blocks) - 1

    def grow(self, n: int = 1, fork: str = "main") -> None:
        with self.lock:
            for _ in range(n):
                self.blocks = [*self.blocks, _block(self.blocks, fork)]

    def reorg(self, depth: int, fork: str, length: int | None = None) -> None:
        """The last `depth` blocks give way to `length` others; as many when it is not said."""
        with self.lock:
            self.blocks = self.blocks[: len(self.blocks) - depth]
            self.grow(depth if length is None else length, fork)

    def hashes(self) -> list[bytes]:
        return [bytes.fromhex(block["hash"][2:]) for block in self.blocks]

    def answer(self, method: str, params: list[Any]) -> Any:
        with self.lock:
            self.before(method, params)
            if method == "eth_chainId":
                return hex(self.chain_id)
            block = self._find(params[0])
            if block is None or method != "eth_getBlockReceipts":
                return block
            return [_receipt(block, each) for each in block["transactions"]]

    def _find(self, named: str) -> Block | None:
        served = self.view()
        if len(named) == 66:
            return next((block for block in served if block["hash"] == named), None)
        tags = {"latest": len(served) - 1, "finalized": len(served) - 1 - self.final_depth}
        number = tags[named] if named in tags else int(named, 16)
        return served[number] if 0 <= number < len(served) else None


def _block(before: list[Block], fork: str) -> Block:
    number = len(before)
    parent = before[-1]["hash"] if before else "0x" + "00" * 32
    block_hash = digest("block", number, parent, fork)
    n_transactions = int(block_hash[2], 16) % 3
    return {
        "hash": block_hash,
        "parentHash": parent,
        "number": hex(number),
        "timestamp": hex(1_700_000_000 + 12 * number),
        "miner": address(0xC0FFEE),
        "gasUsed": hex(21_000 * n_transactions),
        "gasLimit": hex(30_000_000),
        "extraData": "0x",
        "stateRoot": digest("state", block_hash),
        "transactionsRoot": digest("transactions", block_hash),
        "receiptsRoot": digest("receipts", block_hash),
        "size": hex(600),
        "baseFeePerGas": "0x7",
        "transactions": [_transaction(block_hash, number, i) for i in range(n_transactions)],
    }


def _transaction(block_hash: str, number: int, i: int) -> dict[str, Any]:
    return {
        "hash": digest("transaction", block_hash, i),
        "blockNumber": hex(number),
        "transactionIndex": hex(i),
        "nonce": hex(number * 10 + i),
        "from": address(1 + i),
        "to": address(100 + number),
        "value": hex(int(block_hash[2:18], 16)),
        "input": "0x",
        "gas": hex(50_000),
        "gasPrice": hex(10**9 + 7),
        "type": "0x0",
    }


def _receipt(block: Block, transaction: dict[str, Any]) -> dict[str, Any]:
    log = {
        "address": address(7),
        "topics": [digest("topic", transaction["hash"])],
        "data": "0x" + "ab" * 4,
        "logIndex": transaction["transactionIndex"],
        "transactionHash": transaction["hash"],
    }
    return {
        "transactionHash": transaction["hash"],
        "blockHash": block["hash"],
        "gasUsed": hex(21_000),
        "status": "0x1",
        "logs": [log],
    }
