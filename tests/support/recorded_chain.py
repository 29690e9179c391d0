"""A real node's chain, recorded: servers of a test tell it honestly, or with one field altered."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.anvil import Anvil
from tests.support.scripted_rpc import RpcError

CHAIN_ID = 31337
_BLOCK = ("eth_getBlockByNumber", "eth_getBlockByHash")

# Changes the answer to a method in place.
Lie = Callable[[str, Any], None]


@dataclass
class RecordedChain:
    blocks: list[dict[str, Any]]  # with whole transactions
    receipts: list[list[dict[str, Any]]]
    # The newest block that is told of.
    head: int

    @classmethod
    def of(cls, node: Anvil) -> RecordedChain:
        last = int(node.call("eth_blockNumber"), 16)
        numbers = [hex(n) for n in range(last + 1)]
        blocks = [node.call("eth_getBlockByNumber", n, True) for n in numbers]
        return cls(blocks, [node.call("eth_getBlockReceipts", n) for n in numbers], last)

    def answer(self, method: str, params: list[Any]) -> Any:
        if method == "eth_chainId":
            return hex(CHAIN_ID)
        if method == "eth_blockNumber":
            return hex(self.head)
        if method == "eth_getLogs":
            number = self._number(params[0]["blockHash"])
            return None if number is None else _logs(self.receipts[number])
        number = self._number(params[0])
        if number is None or number > self.head:
            return None
        if method == "eth_getBlockReceipts":
            return self.receipts[number]
        assert method in _BLOCK, method
        block = self.blocks[number]
        return block if params[1] else block | {"transactions": _hashes(block)}

    def lying(self, lie: Lie) -> Callable[[str, list[Any]], Any]:
        def answer(method: str, params: list[Any]) -> Any:
            told = copy.deepcopy(self.answer(method, params))
            lie(method, told)
            return told

        return answer

    def pruned(self, below: int) -> Callable[[str, list[Any]], Any]:
        """Without what is older."""

        def answer(method: str, params: list[Any]) -> Any:
            number = self._number(params[0]) if params else None
            if number is not None and number < below:
                return RpcError(4444, "pruned history unavailable")
            return self.answer(method, params)

        return answer

    def _number(self, named: Any) -> int | None:
        if isinstance(named, dict):
            named = named["blockHash"]
        if named in ("latest", "finalized", "safe"):
            return self.head
        if not isinstance(named, str):
            return None
        if len(named) < 66:
            return int(named, 16)
        return next((i for i, block in enumerate(self.blocks) if block["hash"] == named), None)


def lies(chain: RecordedChain, number: int) -> Iterator[tuple[str, Lie]]:
    """Each changes or removes one field of this block, of its last transaction, of that one's
    receipt, or of the receipt's last log: whatever the node tells."""
    receipt = chain.receipts[number][-1]
    places: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
        "block": ("Block", (), chain.blocks[number]),
        "transaction": ("Block", ("transactions", -1), chain.blocks[number]["transactions"][-1]),
        "receipt": ("eth_getBlockReceipts", (-1,), receipt),
        "log": ("eth_getBlockReceipts", (-1, "logs", -1), receipt["logs"][-1]),
    }
    for what, (method, path, fields) in places.items():
        for name, value in fields.items():
            yield f"{what}.{name}", _lie(chain, number, method, path, name, _other(value))
            yield f"{what}.{name} removed", _lie(chain, number, method, path, name, None)


def _lie(
    chain: RecordedChain, number: int, method: str, path: tuple[Any, ...], name: str, other: Any
) -> Lie:
    def change(asked: str, told: Any) -> None:
        if not told or not (asked == method or (method == "Block" and asked in _BLOCK)):
            return
        at = told
        is_it = (
            told["number"] == chain.blocks[number]["number"]
            if isinstance(told, dict)
            else told[0]["blockNumber"] == chain.blocks[number]["number"]
        )
        if not is_it or (path and isinstance(told, dict) and isinstance(told[path[0]][-1], str)):
            return  # another block, or one with the hashes of its transactions alone
        for step in path:
            at = at[step]
        if other is None:
            del at[name]
        else:
            at[name] = other

    return change


def _other(value: Any) -> Any:
    """Like it, and not the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str) and value.startswith("0x"):
        return value[:-1] + ("1" if value[-1] != "1" else "2") if len(value) > 2 else "0x01"
    if isinstance(value, list):
        return value[:-1] if value else ["0x" + "11" * 32]
    return "0x" + "11" * 20


def _hashes(block: dict[str, Any]) -> list[str]:
    return [each["hash"] for each in block["transactions"]]


def _logs(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [log for receipt in receipts for log in receipt["logs"]]
