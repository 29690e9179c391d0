"""What callers pass: each function turns one raw parameter into a value or says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trace_devchain.chain import DevChain
from trace_devchain.rpc_error import RpcError, bad_params

_QUANTITY = re.compile(r"0[xX][0-9a-fA-F]{1,64}").fullmatch
_HEX = re.compile(r"0[xX](?:[0-9a-fA-F]{2})*").fullmatch
_SHOWN_CHARS = 80


def arguments(params: Sequence[Any], least: int, most: int) -> list[Any]:
    """Exactly `most` values, those left out as None."""
    if not least <= len(params) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise bad_params(f"expected {wanted} parameters, got {len(params)}")
    return [*params, *[None] * (most - len(params))]


def quantity(value: Any, name: str) -> int:
    if not isinstance(value, str) or not _QUANTITY(value):
        raise bad_params(f"{name} must be a hex quantity such as 0x1a, not {shown(value)}")
    return int(value, 16)


def data(value: Any, name: str, n_bytes: int) -> bytes:
    if not isinstance(value, str) or len(value) != 2 + 2 * n_bytes or not _HEX(value):
        raise bad_params(f"{name} must be {n_bytes} bytes of hex after 0x, not {shown(value)}")
    return bytes.fromhex(value[2:])


def count(value: Any, name: str, most: int) -> int:
    """A plain JSON integer or a hex quantity, at least 1: the dev_ methods take both."""
    number = value if type(value) is int else quantity(value, name)
    if not 1 <= number <= most:
        raise bad_params(f"{name} must be between 1 and {most}, not {number}")
    return number


def flag(value: Any, name: str) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise bad_params(f"{name} must be true or false, not {shown(value)}")
    return value


def block_number(chain: DevChain, value: Any, name: str = "block") -> int:
    """A tag or a hex quantity; the number may lie beyond the head."""
    if value == "latest" or value == "pending":
        return chain.head
    if value == "earliest":
        return 0
    if value == "safe":
        return chain.safe
    if value == "finalized":
        return chain.finalized
    try:
        return quantity(value, name)
    except RpcError:
        raise bad_params(
            f"{name} must be a hex quantity such as 0x1a or one of earliest, latest, safe, "
            f"finalized, pending, not {shown(value)}"
        ) from None


def block_reference(chain: DevChain, value: Any) -> int | None:
    """A tag, a number, a hash, or EIP-1898's object; None if no such block is on the chain."""
    if isinstance(value, dict):
        return _eip1898(chain, value)
    if isinstance(value, str) and len(value) == 66:
        return chain.number_of(data(value, "block hash", 32))
    return on_chain(chain, block_number(chain, value))


def on_chain(chain: DevChain, number: int) -> int | None:
    return number if number <= chain.head else None


def shown(value: Any) -> str:
    """A parameter as an error message may repeat it."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _eip1898(chain: DevChain, value: dict[str, Any]) -> int | None:
    if value.get("blockHash") is not None and value.get("blockNumber") is None:
        return chain.number_of(data(value["blockHash"], "blockHash", 32))
    if value.get("blockNumber") is not None and value.get("blockHash") is None:
        return on_chain(chain, block_number(chain, value["blockNumber"], "blockNumber"))
    raise bad_params("a block object must have either blockHash or blockNumber")
