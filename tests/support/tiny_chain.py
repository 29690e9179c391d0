"""A small chain as a node's JSON, for tests that bend single answers."""

from __future__ import annotations

import hashlib
from typing import Any

CHAIN_ID = 31337


def digest(*what: object) -> str:
    return "0x" + hashlib.sha256(repr(what).encode()).hexdigest()


def address(n: int) -> str:
    return "0x" + f"{n:040x}"


class TinyChain:
    """`answer` is a node's: bend what is in `blocks`, `receipts` and `traces` before asking."""

    def __init__(self, n_blocks: int = 10, n_transactions: int = 2) -> None:
        self.blocks: list[dict[str, Any] | None] = []
        self.receipts: list[list[dict[str, Any]] | None] = []
        self.traces: list[list[dict[str, Any]] | None] = []
        for number in range(n_blocks):
            transactions = [_transaction(number, i) for i in range(n_transactions if number else 0)]
            self.blocks.append(_block(number, transactions))
            self.receipts.append([_receipt(number, i, t) for i, t in enumerate(transactions)])
            self.traces.append([_trace(number, i, t) for i, t in enumerate(transactions)])

    def block(self, number: int) -> dict[str, Any]:
        found = self.blocks[number]
        assert found is not None
        return found

    def receipts_of(self, number: int) -> list[dict[str, Any]]:
        found = self.receipts[number]
        assert found is not None
        return found

    def traces_of(self, number: int) -> list[dict[str, Any]]:
        found = self.traces[number]
        assert found is not None
        return found

    def answer(self, method: str, params: list[Any]) -> Any:
        if method == "eth_chainId":
            return hex(CHAIN_ID)
        if method == "eth_blockNumber":
            return hex(len(self.blocks) - 1)
        if method == "eth_getTransactionReceipt":
            every = [r for receipts in self.receipts for r in receipts or []]
            return next((r for r in every if r["transactionHash"] == params[0]), None)
        tables = {"eth_getBlockReceipts": self.receipts, "trace_block": self.traces}
        table: list[Any] = tables.get(method, self.blocks)
        number = self._number(params[0])
        return table[number] if number is not None and number < len(table) else None

    def _number(self, block: str | dict[str, str]) -> int | None:
        """Of a number, a tag, a hash, or an object with a hash. The last block is final."""
        named = block["blockHash"] if isinstance(block, dict) else block
        if named in ("latest", "finalized"):
            return len(self.blocks) - 1
        if len(named) < 66:
            return int(named, 16)
        return next((i for i, b in enumerate(self.blocks) if b and b["hash"] == named), None)


def _block(number: int, transactions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "hash": digest("block", number),
        "parentHash": digest("block", number - 1) if number else "0x" + "00" * 32,
        "number": hex(number),
        "timestamp": hex(1_700_000_000 + 12 * number),
        "miner": address(0xC0FFEE),
        "gasUsed": hex(21_000 * len(transactions)),
        "gasLimit": hex(30_000_000),
        "extraData": "0x" if number % 2 else "0xd883",
        "stateRoot": digest("state", number),
        "transactionsRoot": digest("transactions", number),
        "receiptsRoot": digest("receipts", number),
        "logsBloom": "0x" + "00" * 256,
        "size": hex(600 + number),
        "baseFeePerGas": "0x7",
        "transactions": transactions,
        "uncles": [],
    }


def _transaction(number: int, i: int) -> dict[str, Any]:
    return {
        "hash": digest("transaction", number, i),
        "blockNumber": hex(number),
        "transactionIndex": hex(i),
        "nonce": hex(number * 10 + i),
        "from": address(1 + i),
        "to": address(100 + number),
        "value": hex(10**18 * number + i),
        "input": "0x" if i else "0xa9059cbb00ff",
        "gas": hex(50_000),
        "gasPrice": hex(10**9 + 7),
        "type": "0x2",
        "maxFeePerGas": hex(2 * 10**9),
        "maxPriorityFeePerGas": hex(10**9),
    }


def _receipt(number: int, i: int, transaction: dict[str, Any]) -> dict[str, Any]:
    return {
        "transactionHash": transaction["hash"],
        "blockHash": digest("block", number),
        "gasUsed": hex(21_000 + i),
        "status": "0x1",
        "logs": [
            {
                "address": address(100 + number),
                "topics": [digest("topic", t) for t in range(i % 5)],
                "data": "0x" + "ab" * i,
                "logIndex": hex(i),
                "transactionHash": transaction["hash"],
                "removed": False,
            }
        ],
    }


def _trace(number: int, i: int, transaction: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "call",
        "action": {
            "callType": "call",
            **{name: transaction[name] for name in ("from", "to", "value", "gas", "input")},
        },
        "result": {"gasUsed": hex(i), "output": "0x" + "cd" * i},
        "subtraces": 0,
        "traceAddress": [],
        "transactionHash": transaction["hash"],
        "transactionPosition": i,
        "blockHash": digest("block", number),
        "blockNumber": number,
    }


def reward(number: int) -> dict[str, Any]:
    """What the miner of a block was paid: of no transaction."""
    return {
        "type": "reward",
        "action": {"author": address(0xC0FFEE), "rewardType": "block", "value": hex(5 * 10**18)},
        "result": None,
        "subtraces": 0,
        "traceAddress": [],
        "transactionHash": None,
        "transactionPosition": None,
        "blockHash": digest("block", number),
        "blockNumber": number,
    }
