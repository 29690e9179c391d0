"""One pass over keys: what looks wrong, and nothing else, however the rows are cut into batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.corpus import corpus
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.checks.integrity.scan import Scan, scan, unequal_counts

BLOCKS = BlockRange(10, 19)


def chain(numbers: list[int], broken: frozenset[int] = frozenset()) -> list[dict[str, Any]]:
    """Rows of blocks; the parents of the broken ones are not those before them."""
    return [
        {
            "block_number": n,
            "block_hash": b"hash%d" % n,
            "parent_hash": b"nobody" if n in broken else b"hash%d" % (n - 1),
            "transaction_count": 1,
        }
        for n in numbers
    ]


def children(indexes: dict[int, list[int]]) -> list[dict[str, Any]]:
    return [{"block_number": n, "log_index": i} for n, each in indexes.items() for i in each]


def batches(rows: list[dict[str, Any]], size: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist(rows[i : i + size]) for i in range(0, len(rows), size)]


def suspects(found: Scan) -> set[int]:
    return {n for span in found.suspects for n in range(span.start, span.end + 1)}


@settings(max_examples=50)
@given(st.integers(1, 12))
def test_a_whole_chain_raises_no_suspicion(size: int) -> None:
    found = scan("blocks", BLOCKS, batches(chain(list(range(10, 20))), size))
    assert (suspects(found), found.outside) == (set(), None)
    assert (found.first_parent, found.last_hash) == (b"hash9", b"hash19")


@settings(max_examples=50)
@given(st.integers(1, 12), st.sets(st.integers(11, 19), min_size=1))
def test_a_broken_link_makes_both_blocks_suspect(size: int, broken: set[int]) -> None:
    rows = chain(list(range(10, 20)), frozenset(broken))
    assert suspects(scan("blocks", BLOCKS, batches(rows, size))) == broken | {n - 1 for n in broken}


@settings(max_examples=50)
@given(st.integers(1, 12), st.sets(st.integers(10, 19), min_size=1))
def test_every_block_that_is_missing_is_suspect(size: int, missing: set[int]) -> None:
    rows = chain([n for n in range(10, 20) if n not in missing])
    assert missing <= suspects(scan("blocks", BLOCKS, batches(rows, size)))


@settings(max_examples=50)
@given(st.integers(1, 12), st.integers(10, 19))
def test_a_block_that_is_there_twice_is_suspect(size: int, twice: int) -> None:
    rows = chain(sorted([*range(10, 20), twice]))
    assert twice in suspects(scan("blocks", BLOCKS, batches(rows, size)))


@settings(max_examples=50)
@given(st.integers(1, 12))
def test_children_are_counted_from_zero_and_blocks_may_have_none(size: int) -> None:
    rows = children({10: [0, 1, 2], 13: [0], 19: [0, 1]})
    assert suspects(scan("logs", BLOCKS, batches(rows, size))) == set()
    assert suspects(scan("logs", BLOCKS, [])) == set()


@corpus(
    ("indexes", "expected"),
    [
        ({10: [1, 2], 13: [0]}, {10}),
        ({10: [0], 13: [0, 2]}, {13}),
        ({10: [0], 13: [0, 1, 1, 2]}, {13}),
        ({10: [0], 13: [1]}, {10, 13}),
        ({13: [0], 10: [0]}, {10, 13}),
    ],
)
@corpus("size", [1, 2, 100])
def test_children_that_do_not_count_up_are_suspect(
    indexes: dict[int, list[int]], expected: set[int], size: int
) -> None:
    assert suspects(scan("logs", BLOCKS, batches(children(indexes), size))) == expected


@pytest.mark.parametrize("stranger", [9, 20, 0, 10**12])
def test_rows_of_other_blocks_are_outside(stranger: int) -> None:
    found = scan("blocks", BLOCKS, batches(chain([*range(10, 20), stranger]), 4))
    assert found.outside == BlockRange(stranger, stranger)


def test_a_number_that_is_null_belongs_to_no_block() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"block_number": pa.array([10, None], pa.int64()), "log_index": [0, 0]}
    )
    assert scan("logs", BLOCKS, [rows]).outside is not None


def test_counts_are_compared_where_both_are_known() -> None:
    said = scan("blocks", BLOCKS, batches(chain(list(range(10, 20))), 3))
    rows = [{"block_number": n, "transaction_index": 0} for n in range(8, 16) if n != 12]
    counted = scan("transactions", BlockRange(8, 15), batches(rows, 3))
    assert unequal_counts(said, counted) == [BlockRange(12, 12)]
    elsewhere = scan("transactions", BlockRange(30, 31), [])
    assert unequal_counts(said, elsewhere) == []
