"""Whether two providers say the same: in the fields that are used, however they are written.

Nodes of different makers add fields of their own, order them differently and write hex in upper
case or with zeros in front. What tables hold, and what proves it, has to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from trace_platform.domain.evm_hex import quantity
from trace_platform.operators.evm.payload import Action, Log, Outcome, Trace
from trace_platform.operators.evm_header.envelope import (
    AccessEntry,
    Authorization,
    SignedTransaction,
)
from trace_platform.operators.evm_header.header import ProvableBlock
from trace_platform.operators.evm_header.receipts import ProvableReceipt
from trace_platform.rpc.answers import Item

# Numbers: zeros in front mean nothing.
_NUMBERS = frozenset(
    {
        *("number", "timestamp", "difficulty", "gasUsed", "gasLimit", "baseFeePerGas"),
        *("blobGasUsed", "excessBlobGas", "transactionIndex", "logIndex", "nonce", "value", "gas"),
        *("gasPrice", "maxPriorityFeePerGas", "maxFeePerGas", "maxFeePerBlobGas", "type"),
        *("v", "r", "s", "yParity", "chainId", "status", "balance"),
    }
)


@dataclass(frozen=True)
class Shape:
    """The fields of an object that count."""

    names: frozenset[str]
    within: dict[str, Shape] = field(default_factory=dict)
    # Last: what two ways of saying one thing have in common.
    tidy: Callable[[dict[str, Any]], None] = lambda _: None


def _shape(struct: type[msgspec.Struct], *left_out: str, **within: Shape) -> Shape:
    names = frozenset(each.encode_name for each in msgspec.structs.fields(struct))
    return Shape(names - set(left_out), within)


def _one_signature(transaction: dict[str, Any]) -> None:
    """Of the first type the chain and the parity are in `v`, and not all nodes say them; of later
    ones `v` is the parity, under its old name."""
    v, parity = transaction.pop("v", None), transaction.pop("yParity", None)
    if "type" not in transaction:
        transaction.pop("chainId", None)
        transaction["v"] = v
    else:
        transaction["yParity"] = v if parity is None else parity


def _one_creation(receipt: dict[str, Any]) -> None:
    """Of one that failed not all nodes say where it would have been."""
    if receipt.get("status") == 0:
        receipt.pop("contractAddress", None)


_LOG = _shape(Log)
_RECEIPT = replace(_shape(ProvableReceipt, logs=_LOG), tidy=_one_creation)
_TRANSACTION = replace(
    _shape(
        SignedTransaction,
        accessList=_shape(AccessEntry),
        authorizationList=_shape(Authorization),
    ),
    tidy=_one_signature,
)
# Nodes count the size differently.
_BLOCK = _shape(ProvableBlock, "size", transactions=_TRANSACTION)
_TRACE = _shape(Trace, action=_shape(Action), result=_shape(Outcome))
# Of what is told without its block around it.
_PLACE = {"blockHash", "transactionHash", "transactionIndex"}
# Of one answer, or of each in a list of them. What is not here is compared as a whole.
_SHAPES = {
    "eth_getBlockByNumber": _BLOCK,
    "eth_getBlockByHash": _BLOCK,
    "eth_getTransactionByHash": replace(_TRANSACTION, names=_TRANSACTION.names | _PLACE),
    "eth_getBlockReceipts": _RECEIPT,
    "eth_getTransactionReceipt": _RECEIPT,
    "eth_getLogs": Shape(_LOG.names | _PLACE),
    "trace_block": _TRACE,
}


def comparable(method: str, item: Item) -> Any:
    """Equal for answers that say the same. Errors are by their code: their words differ."""
    if item.error is not None:
        return "error", item.error.code
    return "result", _plain(msgspec.json.decode(item.result), _SHAPES.get(method))


def _plain(value: Any, shape: Shape | None, name: str = "") -> Any:
    if isinstance(value, list):
        return [_plain(each, shape, name) for each in value]
    if isinstance(value, dict):
        found = dict(_plain_fields(value, shape))
        if shape is not None:
            shape.tidy(found)
        return found
    if isinstance(value, str) and value[:2] in ("0x", "0X"):
        return _number(value) if name in _NUMBERS else value.lower()
    return value


def _plain_fields(value: dict[str, Any], shape: Shape | None) -> Iterator[tuple[str, Any]]:
    """What is not there is the same as null or nothing; a type that is not there is the first."""
    for name, each in value.items():
        if shape is not None and name not in shape.names:
            continue
        plain = _plain(each, shape.within.get(name) if shape is not None else None, name)
        if plain not in (None, []) and not (name == "type" and plain == 0):
            yield name, plain


def _number(text: str) -> Any:
    try:
        return quantity(text, "number")
    except ValueError:
        return text
