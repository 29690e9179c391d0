"""Two tables side by side: each block that differs is named once, with both values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.checks.integrity.compare import Difference, differences

KEY = ("block_number", "log_index")
SCHEMA = pa.schema(
    [
        ("block_number", pa.int64()),
        ("log_index", pa.int64()),
        ("topic0", pa.binary()),
        ("size", pa.int64()),
    ]
)

rows = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.none() | st.binary(max_size=2)),
    max_size=20,
    unique_by=lambda row: row[:2],
)


def table(given_rows: list[tuple[int, int, bytes | None]], size: int = 1) -> pa.Table:
    named = [dict(zip(SCHEMA.names, (*row, size), strict=True)) for row in given_rows]
    return pa.Table.from_pylist(named, schema=SCHEMA)


@settings(max_examples=50)
@given(rows, rows)
def test_just_the_blocks_whose_rows_are_not_the_same_are_named(
    stored: list[tuple[int, int, bytes | None]], chain: list[tuple[int, int, bytes | None]]
) -> None:
    def of(block: int, which: list[tuple[int, int, bytes | None]]) -> list[Any]:
        return sorted((row for row in which if row[0] == block), key=lambda row: row[1])

    found = differences(table(stored), table(sorted(chain, key=lambda row: row[:2])), KEY)
    wrong = [block for block in range(6) if of(block, stored) != of(block, chain)]
    assert [difference.block for difference in found] == wrong


def test_both_values_are_told() -> None:
    chain = table([(1, 0, b"\x01\x02"), (2, 0, None), (3, 0, b"")])
    stored = table([(1, 0, b"\x01\x03"), (2, 0, b""), (3, 0, b""), (3, 1, b"")])
    assert differences(stored, chain, KEY) == [
        Difference(1, "topic0", "0x0103", "0x0102"),
        Difference(2, "topic0", "0x", "None"),
        Difference(3, "rows", "2", "1"),
    ]


def test_long_values_are_cut() -> None:
    (found,) = differences(table([(1, 0, b"\x00" * 900)]), table([(1, 0, b"\x01")]), KEY)
    assert len(found.stored) < 100
    assert "1802 characters" in found.stored


def test_what_nodes_count_differently_is_not_compared() -> None:
    assert differences(table([(1, 0, b"")], size=1), table([(1, 0, b"")], size=2), KEY) == []


def test_columns_that_the_files_do_not_have_are_left_out() -> None:
    stored = table([(1, 0, b"")]).drop_columns(["topic0"])
    assert differences(stored, table([(1, 0, b"\x01")]), KEY) == []


def test_another_kind_of_text_is_the_same_value_and_another_kind_of_column_is_refused() -> None:
    chain = table([(1, 0, b"\x01")])
    large = chain.set_column(2, "topic0", chain["topic0"].cast(pa.large_binary()))
    assert differences(large, chain, KEY) == []
    other = chain.set_column(2, "topic0", pa.array([[1]]))
    with pytest.raises(InvalidConfig, match="topic0"):
        differences(other, chain, KEY)
