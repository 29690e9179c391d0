"""Stored rows next to the chain's, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trace_platform.domain.errors import InvalidConfig

# Not part of the chain: nodes count it differently.
_NOT_COMPARED = frozenset({"size"})


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that is wrong with a block's rows."""

    block: int
    what: str  # a column, or `rows` for their number
    stored: str
    chain: str


def differences(
    stored: pa.Table, chain: pa.Table, key: tuple[str, ...], since: str | None = None
) -> list[Difference]:
    """One for each block whose rows are not the same, in order of block. `chain` is sorted. A row
    with null in the column `since` was written before there were that one and those after it."""
    names = [n for n in chain.schema.names if n in stored.schema.names and n not in _NOT_COMPARED]
    stored = stored.sort_by([(name, "ascending") for name in key])
    found = _by_number(stored, chain)
    uncounted = pa.array(sorted(found), pa.int64())
    stored, chain = _without(stored, uncounted), _without(chain, uncounted)
    for name in names:
        if name == since:
            is_told = stored[name].is_valid()
            stored, chain = stored.filter(is_told), chain.filter(is_told)
        for difference in _in_column(name, stored, chain):
            found.setdefault(difference.block, difference)
    return [found[block] for block in sorted(found)]


def _by_number(stored: pa.Table, chain: pa.Table) -> dict[int, Difference]:
    here, there = _counts(stored), _counts(chain)
    return {
        block: Difference(block, "rows", str(here.get(block, 0)), str(there.get(block, 0)))
        for block in here.keys() | there.keys()
        if here.get(block, 0) != there.get(block, 0)
    }


def _counts(rows: pa.Table) -> dict[int, int]:
    blocks, counts = np.unique(rows["block_number"].to_numpy(), return_counts=True)
    return dict(zip(blocks.tolist(), counts.tolist(), strict=True))


def _without(rows: pa.Table, blocks: pa.Array) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows["block_number"], blocks))) if len(blocks) else rows


def _in_column(name: str, stored: pa.Table, chain: pa.Table) -> list[Difference]:
    """Each block has as many rows here as there, in the same order: they stand side by side."""
    right = chain[name].combine_chunks()
    left = _as(stored[name].combine_chunks(), right.type, name)
    both_null = pc.and_(left.is_null(), right.is_null())
    same = pc.or_(pc.fill_null(pc.equal(left, right), False), both_null)
    (wrong,) = np.nonzero(~same.to_numpy(zero_copy_only=False))
    blocks = chain["block_number"].to_numpy()[wrong]
    _, firsts = np.unique(blocks, return_index=True)
    places = wrong[firsts].tolist()
    numbers = [int(chain["block_number"][place].as_py()) for place in places]
    return [
        Difference(number, name, shown(left[place].as_py()), shown(right[place].as_py()))
        for number, place in zip(numbers, places, strict=True)
    ]


def _as(values: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowException:
        raise InvalidConfig(
            f"column {name} is {values.type} in the files, {kind} on the chain",
            hint="leave the dataset out of the check, or make it anew with today's columns",
        ) from None


def shown(value: Any) -> str:
    text = "0x" + value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 80 else f"{text[:66]}… ({len(text)} characters)"
