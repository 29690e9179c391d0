from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.corpus import corpus
from trace_platform.domain import evm_hex
from trace_platform.operators.evm import columns, hex_columns
from trace_platform.operators.evm.fields import Fields

TOP = 2**256 - 1


@given(st.lists(st.binary(max_size=70)))
def test_hex_of_any_length_decodes_to_its_bytes(values: list[bytes]) -> None:
    assert hex_columns.variable_hex(["0x" + v.hex() for v in values]).to_pylist() == values


@given(st.lists(st.none() | st.binary(min_size=20, max_size=20)))
def test_missing_addresses_are_null(values: list[bytes | None]) -> None:
    texts = [None if v is None else "0x" + v.hex() for v in values]
    found = hex_columns.optional_fixed_hex(texts, 20)
    found.validate(full=True)
    assert found.to_pylist() == values


@given(st.lists(st.integers(min_value=0, max_value=TOP)))
def test_a_uint256_keeps_its_value_in_binary_and_text(values: list[int]) -> None:
    binary, text, double = hex_columns.uint256([hex(v) for v in values])
    assert [int.from_bytes(b, "big") for b in binary.to_pylist()] == values
    assert text.to_pylist() == [str(v) for v in values]
    assert double.to_pylist() == [float(v) for v in values]


def test_the_largest_uint256_survives() -> None:
    binary, text, _ = hex_columns.uint256([hex(TOP)])
    assert binary[0].as_py() == b"\xff" * 32
    assert text[0].as_py() == str(TOP)


@given(st.lists(st.lists(st.binary(min_size=32, max_size=32), max_size=4)))
def test_topics_fill_their_columns_from_the_left(rows: list[list[bytes]]) -> None:
    found = hex_columns.topics([["0x" + t.hex() for t in row] for row in rows])
    for i in range(4):
        assert found[i].to_pylist() == [row[i] if len(row) > i else None for row in rows]


@given(st.lists(st.binary(max_size=40)))
def test_zero_bytes_are_counted_per_value(values: list[bytes]) -> None:
    n_bytes, n_zero = columns._count_bytes(
        hex_columns.variable_hex(["0x" + v.hex() for v in values])
    )
    assert n_bytes.tolist() == [len(v) for v in values]
    assert n_zero.tolist() == [v.count(0) for v in values]


@corpus(
    "values",
    [
        ["0x" + "ab" * 31],
        ["0x" + "ab" * 33],
        ["0x" + "ab" * 31, "0x" + "ab" * 33],
        ["ab" * 33],
        ["0x" + "zz" * 32],
        ["0x" + "é" * 64],
        [""],
    ],
)
def test_a_hash_of_another_shape_is_refused(values: list[str]) -> None:
    with pytest.raises(ValueError):
        hex_columns.fixed_hex(values, 32)


# What Python takes for hex and no node sends: decimal, signs, underscores, spaces, other digits.
NO_QUANTITIES = (
    *("21000", "1f", "", "0x", "x1", "0xg", "0X10", "-0x1", "+0x1", "0x-1", "0x1_0", "0x 10"),
    *(" 0x10", "0x10 ", "0x10\n", "0x0x1", "0x\u0661\u0662", "\uff10x1"),
)
NO_BYTES = (
    *("ab", "abcd", "", "0", "0xabc", "0x0x12", "0xzz", "0x12 34", "0x12\n", " 0x12", "0X12"),
    *("0x1_23", "0x\u0661\u0662", "0xa", "x012"),
)


def refused(read: Callable[..., Any], *arguments: Any) -> bool:
    try:
        read(*arguments)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    "read", [hex_columns.quantities, hex_columns.capped, hex_columns.uint256, hex_columns.flags]
)
def test_only_hexadecimal_quantities_are_numbers(read: Callable[[list[str]], Any]) -> None:
    """Also beside others: what one value lacks another may have too much of."""
    given = [[[bad], ["0x1", bad], [bad, "0x0x1"]] for bad in NO_QUANTITIES]
    assert [values for each in given for values in each if not refused(read, values)] == []


def test_a_value_is_read_alone_as_it_is_in_a_column() -> None:
    others = (None, 7, b"0x1", ["0x1"])
    numbers, texts = (*NO_QUANTITIES, *others), (*NO_BYTES, *others)
    assert [bad for bad in numbers if not refused(evm_hex.quantity, bad, "gas")] == []
    assert [bad for bad in texts if not refused(evm_hex.data, bad, "input")] == []
    assert [bad for bad in NO_BYTES if not refused(hex_columns.variable_hex, [bad])] == []
    assert [bad for bad in NO_BYTES if not refused(hex_columns.fixed_hex, [bad], 1)] == []


def test_a_bad_value_is_told_with_its_field() -> None:
    with pytest.raises(ValueError, match="gas is '21000': a number is 0x and hexadecimal digits"):
        evm_hex.quantity("21000", "gas")
    with pytest.raises(ValueError, match="hash is '0x1234': it is not 32 bytes of hex"):
        evm_hex.data("0x1234", "hash", 32)


@given(st.lists(st.integers(min_value=0, max_value=TOP)))
def test_numbers_with_leading_zeros_are_what_they_say(values: list[int]) -> None:
    texts = [f"0x{v:080x}" for v in values]
    assert hex_columns.integers(texts) == [evm_hex.quantity(t, "n") for t in texts] == values


def test_a_number_beyond_int64_is_refused_where_it_is_a_place() -> None:
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        hex_columns.quantities([hex(2**63)])


def test_amounts_stop_at_the_largest_int64_and_keep_their_exact_value_beside() -> None:
    fields = Fields(3, str)
    top = 2**63 - 1
    prices = fields.amounts("gas_price", "gasPrice", [hex(2**64 - 1), None, hex(top)])
    limits = fields.amounts("gas_limit", "gas", [hex(TOP), "0x5208", hex(2**63)])
    assert prices.to_pylist() == [top, None, top]
    assert limits.to_pylist() == [top, 21_000, top]
    told = [each and json.loads(each) for each in fields.above_int64().to_pylist()]
    assert told == [
        {"gas_price": str(2**64 - 1), "gas_limit": str(TOP)},
        None,
        {"gas_limit": str(2**63)},
    ]


def test_a_status_is_one_or_zero_or_not_there() -> None:
    assert hex_columns.flags(["0x1", None, "0x0", "0x01"]).to_pylist() == [True, None, False, True]
    with pytest.raises(ValueError, match="neither 0x0 nor 0x1"):
        hex_columns.flags(["0x2"])


def test_a_uint256_above_its_top_is_refused() -> None:
    with pytest.raises(ValueError):
        hex_columns.uint256([hex(TOP + 1)])


def test_a_fifth_topic_is_refused() -> None:
    with pytest.raises(ValueError):
        hex_columns.topics([["0x" + "00" * 32] * 5])
