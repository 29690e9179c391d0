"""Decoding equals eth_abi's, over all types, and whatever is wrong with the data is told by row."""

from __future__ import annotations

from random import Random
from typing import Any

import eth_abi
import pyarrow as pa
import pytest
from eth_abi.exceptions import DecodingError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import abi_values
from trace_platform.operators.decode.abi_text import parse_event
from trace_platform.operators.decode.abi_type import Param, Type
from trace_platform.operators.decode.layout import laid_out
from trace_platform.operators.decode.values import Decoder, Reason

ABIS = st.lists(abi_values.types(), min_size=1, max_size=3)


def params(kinds: list[Type]) -> tuple[Param, ...]:
    return tuple(Param("", kind) for kind in kinds)


def decode(kinds: list[Type], rows: list[bytes]) -> tuple[list[list[Any]], list[int]]:
    """By row: a value per column; and the rows' reasons."""
    decoder = Decoder(pa.array(rows, pa.binary()))
    laid = laid_out(params(kinds))
    found = decoder.params(laid)
    kinds_of = [column.type for each in laid for column in each.columns]
    assert [column.type for column in found] == kinds_of
    for column in found:
        column.validate(full=True)
    return [list(row) for row in zip(*(c.to_pylist() for c in found), strict=True)], list(
        decoder.reasons
    )


def expected(kinds: list[Type], values: tuple[Any, ...]) -> list[Any]:
    return [
        part
        for kind, own in zip(kinds, values, strict=True)
        for part in abi_values.columns(kind, own)
    ]


def check_against_eth_abi(kinds: list[Type], seed: int, rows: int) -> None:
    random = Random(seed)
    names = [str(kind) for kind in kinds]
    values = [tuple(abi_values.value(kind, random) for kind in kinds) for _ in range(rows)]
    encoded = [eth_abi.encode(names, row) for row in values]
    decoded, reasons = decode(kinds, encoded)
    assert reasons == [0] * rows, names
    assert decoded == [expected(kinds, row) for row in values], names
    broken = [_break(row, random) for row in encoded]
    decoded, reasons = decode(kinds, broken)
    for data, ours, reason in zip(broken, decoded, reasons, strict=True):
        theirs = _theirs(names, data)
        if reason == 0:
            assert theirs is not None, (names, data.hex())
            assert ours == expected(kinds, theirs), (names, data.hex())
        elif theirs is not None:
            # Theirs reads on behind the data, does not look at what nothing points to, and takes
            # the head of a tuple that has static tuples in it for shorter than it is.
            known = (Reason.data_length, Reason.too_large, Reason.bad_offset)
            assert Reason(reason) in known, (names, data.hex())


def _theirs(names: list[str], data: bytes) -> tuple[Any, ...] | None:
    try:
        return eth_abi.decode(names, data, strict=True)
    except (DecodingError, UnicodeDecodeError, OverflowError):
        return None


def _break(data: bytes, random: Random) -> bytes:
    """One fault: of a byte, of an offset or a length, at the end."""
    place = random.randrange(max(1, len(data)))
    word = place // 32 * 32
    return random.choice(
        (
            data[:place] + random.randbytes(1) + data[place + 1 :],
            data[:word]
            + random.choice((0, 1, 32, 64, 2**255)).to_bytes(32, "big")
            + data[word + 32 :],
            data[:place],
            data + bytes(32),
        )
    )


@settings(max_examples=150)
@given(kinds=ABIS, seed=st.integers(0, 2**32))
def test_it_decodes_what_eth_abi_does_and_refuses_what_it_refuses(
    kinds: list[Type], seed: int
) -> None:
    check_against_eth_abi(kinds, seed, rows=8)


@pytest.mark.long
@settings(max_examples=500)
@given(kinds=ABIS, seed=st.integers(0, 2**32))
def test_a_hundred_thousand_logs_decode_as_eth_abi_does(kinds: list[Type], seed: int) -> None:
    check_against_eth_abi(kinds, seed, rows=200)


def words(*given: int | bytes) -> bytes:
    return b"".join(
        each.ljust(32, b"\0") if isinstance(each, bytes) else (each % 2**256).to_bytes(32, "big")
        for each in given
    )


# What a row has, and its reason; None: it is decoded.
FAULTS: list[tuple[str, bytes, str | None]] = [
    ("uint256 a", words(2**256 - 1), None),
    ("int256 a", words(-(2**255)), None),
    ("uint256 a", words(1)[:-1], "data_length"),
    ("uint256 a", words(1) + b"\0", "data_length"),
    ("uint256 a", b"", "data_length"),
    ("uint128 a", words(2**128), "dirty_padding"),
    ("int24 a", words(-(2**23)), None),
    ("int24 a", words(-(2**23) - 1), "dirty_padding"),
    ("int24 a", words(2**24 - 1), "dirty_padding"),
    ("address a", words(2**160), "dirty_padding"),
    ("bool a", words(2), "dirty_padding"),
    ("bytes4 a", words(b"\1\2\3\4\5"), "dirty_padding"),
    ("bytes a", words(32, 3, b"abc"), None),
    ("bytes a", words(32, 3, b"abcd"), "dirty_padding"),
    ("bytes a", words(32, 3) + b"abc", "bad_length"),
    ("bytes a", words(32, 33, b"a" * 32), "bad_length"),
    ("bytes a", words(32, 2**255, b"abc"), "bad_length"),
    ("bytes a", words(2**255, 3, b"abc"), "bad_offset"),
    ("bytes a", words(96, 3, b"abc"), "bad_offset"),
    ("bytes a", words(0, 3, b"abc"), "bad_offset"),
    ("bytes a", words(32, 3, b"abc", 0), "data_length"),
    ("string a", words(32, 2, b"\xc3\x28"), "not_utf8"),
    ("string a", words(32, 2, b"\xc3\xa9"), None),
    # Two values may lie in one place.
    ("bytes a, bytes b", words(64, 64, 3, b"abc"), None),
    ("uint256[] a", words(32, 0), None),
    ("uint256[] a", words(32, 3, 1, 2), "bad_length"),
    ("uint256[] a", words(32, 2**64), "bad_length"),
    # Each of many points at all the data: it would become a multiple of itself.
    ("bytes[] a", words(32, 40, *[40 * 32] * 40, 32 * 30, *[7] * 30), "too_large"),
    ("(uint256[20] a)[] a", words(32, 2, *range(40)), None),
    ("uint8[2][2][2][2][2][2][2][2] a", words(*[7] * 256), None),
    ("(uint256[20] x, bytes y)[] a", words(32, 30, *[960] * 30, *[640] * 21, 0), "too_large"),
]


def test_each_fault_has_its_reason_and_spoils_no_other_row() -> None:
    for written, data, reason in FAULTS:
        kinds = [param.type for param in parse_event(f"E({written})").params]
        random = Random(written)
        value = tuple(abi_values.value(kind, random) for kind in kinds)
        right = eth_abi.encode([str(kind) for kind in kinds], value)
        decoded, reasons = decode(kinds, [right, data, right])
        named = [Reason(each).name if each else None for each in reasons]
        assert named == [None, reason, None], written
        assert decoded[0] == decoded[2] == expected(kinds, value), written


def test_no_rows_are_decoded_to_no_rows() -> None:
    kinds = [param.type for param in parse_event("E((uint256 a, bytes b)[] c, string d)").params]
    assert decode(kinds, []) == ([], [])
