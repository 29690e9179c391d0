from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_platform.operators.evm import columns

TOP = 2**256 - 1


@given(st.lists(st.binary(max_size=70)))
def test_hex_of_any_length_decodes_to_its_bytes(values: list[bytes]) -> None:
    assert columns.variable_hex(["0x" + v.hex() for v in values]).to_pylist() == values


@given(st.lists(st.none() | st.binary(min_size=20, max_size=20)))
def test_missing_addresses_are_null(values: list[bytes | None]) -> None:
    texts = [None if v is None else "0x" + v.hex() for v in values]
    found = columns.optional_fixed_hex(texts, 20)
    found.validate(full=True)
    assert found.to_pylist() == values


@given(st.lists(st.integers(min_value=0, max_value=TOP)))
def test_a_uint256_keeps_its_value_in_binary_and_text(values: list[int]) -> None:
    binary, text, double = columns.uint256([hex(v) for v in values])
    assert [int.from_bytes(b, "big") for b in binary.to_pylist()] == values
    assert text.to_pylist() == [str(v) for v in values]
    assert double.to_pylist() == [float(v) for v in values]


def test_the_largest_uint256_survives() -> None:
    binary, text, _ = columns.uint256([hex(TOP)])
    assert binary[0].as_py() == b"\xff" * 32
    assert text[0].as_py() == str(TOP)


@given(st.lists(st.lists(st.binary(min_size=32, max_size=32), max_size=4)))
def test_topics_fill_their_columns_from_the_left(rows: list[list[bytes]]) -> None:
    found = columns.topics([["0x" + t.hex() for t in row] for row in rows])
    for i in range(4):
        assert found[i].to_pylist() == [row[i] if len(row) > i else None for row in rows]


@given(st.lists(st.binary(max_size=40)))
def test_zero_bytes_are_counted_per_value(values: list[bytes]) -> None:
    n_bytes, n_zero = columns._count_bytes(columns.variable_hex(["0x" + v.hex() for v in values]))
    assert n_bytes.tolist() == [len(v) for v in values]
    assert n_zero.tolist() == [v.count(0) for v in values]


@pytest.mark.parametrize(
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
        columns.fixed_hex(values, 32)


@pytest.mark.parametrize("values", [["0xabc"], ["ab"], [""], ["0x0x12"], ["0xzz"], ["0x", "x0"]])
def test_hex_data_of_another_shape_is_refused(values: list[str]) -> None:
    with pytest.raises(ValueError):
        columns.variable_hex(values)


@pytest.mark.parametrize("value", ["0x8000000000000000", "-0x1", "0xg", ""])
def test_a_number_that_is_not_an_int64_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        columns.quantities([value])
    with pytest.raises(ValueError):
        columns.optional_quantities([value, None])


def test_caps_stop_at_the_largest_int64() -> None:
    top = 2**63 - 1
    assert columns.caps([hex(2**64 - 1), "0x5"]).to_pylist() == [top, 5]
    assert columns.optional_caps([hex(TOP), None]).to_pylist() == [top, None]


def test_a_uint256_above_its_top_is_refused() -> None:
    with pytest.raises(ValueError):
        columns.uint256([hex(TOP + 1)])


def test_a_fifth_topic_is_refused() -> None:
    with pytest.raises(ValueError):
        columns.topics([["0x" + "00" * 32] * 5])
