"""A call of a contract as bytes, and the one word that it answers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trace_platform.operators.decode.abi import Function
from trace_platform.operators.decode.abi_type import WORD, Param, Scalar, parse_type

Value = bool | int | str
Result = bool | int | bytes


def encode_call(function: Function, arguments: Sequence[Value]) -> bytes:
    """Raise ValueError, which says what is wrong with which argument."""
    if len(function.params) != len(arguments):
        raise ValueError(
            f"{function.signature} takes {len(function.params)} arguments, not {len(arguments)}"
        )
    words = (_word(*each) for each in zip(function.params, arguments, strict=True))
    return function.selector + b"".join(words)


def result_of(text: str) -> Scalar:
    """The type of an answer. Raise ValueError for one that is not of one word."""
    kind = parse_type(text)
    if not isinstance(kind, Scalar) or kind.kind == "function":
        raise ValueError(
            f"{text!r} is no type of one word: uint256, int256, address, bool, bytes32"
        )
    return kind


def decode_result(kind: Scalar, word: bytes) -> Result:
    """Raise ValueError for bytes that are no value of this type."""
    if len(word) != WORD:
        raise ValueError(f"the answer has {len(word)} bytes, and a {kind} has {WORD}")
    number = int.from_bytes(word, "big", signed=kind.kind == "int")
    if kind.kind in ("uint", "int"):
        if not _fits(kind, number):
            raise ValueError(f"the answer is no {kind}: it is wider")
        return number
    if kind.kind == "bool":
        if number > 1:
            raise ValueError("the answer is no bool: it is neither 0 nor 1")
        return bool(number)
    return word[-20:] if kind.kind == "address" else word[: kind.size]


def _word(param: Param, value: Value) -> bytes:
    kind = param.type
    if not isinstance(kind, Scalar) or kind.kind == "function":
        raise ValueError(f"an argument of type {kind} cannot be given: only values of one word can")
    if kind.kind == "bool":
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} is no bool: write true or false")
        return int(value).to_bytes(WORD, "big")
    if kind.kind in ("uint", "int"):
        number = _number(kind, value)
        return number.to_bytes(WORD, "big", signed=kind.kind == "int")
    size = 20 if kind.kind == "address" else kind.size
    if not isinstance(value, str) or not re.fullmatch(rf"0x[0-9a-fA-F]{{{2 * size}}}", value):
        raise ValueError(f"{value!r} is no {kind}: write 0x and {2 * size} hexadecimal digits")
    found = bytes.fromhex(value[2:])
    return found.rjust(WORD, b"\0") if kind.kind == "address" else found.ljust(WORD, b"\0")


def _number(kind: Scalar, value: Value) -> int:
    """Large ones are written as text."""
    is_text = isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,80}", value)
    if isinstance(value, bool) or not (isinstance(value, int) or is_text):
        raise ValueError(f"{value!r} is no {kind}: write a whole number")
    number = int(value)
    if not _fits(kind, number):
        raise ValueError(f"{value} does not fit {kind}")
    return number


def _fits(kind: Scalar, number: int) -> bool:
    if kind.kind == "int":
        return number.bit_length() < kind.size or number == -(1 << (kind.size - 1))
    return number >= 0 and number.bit_length() <= kind.size
