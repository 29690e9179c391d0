"""Which blocks files hold, as their names say, and which of a range they do not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.merge_ranges import merge_ranges

_NAMED_RANGE = re.compile(r"_(\d{1,19})_(\d{1,19})(?:[-.]\d+)?\.parquet$")


def merge(ranges: Iterable[BlockRange]) -> list[BlockRange]:
    """The same blocks in as few ranges as possible, in order."""
    return [merged.span for merged in merge_ranges(list(ranges))]


def touches(blocks: BlockRange, ranges: Iterable[BlockRange]) -> bool:
    return any(each.start <= blocks.end and blocks.start <= each.end for each in ranges)


def named_range(uri: str) -> BlockRange | None:
    """The blocks that a committed file is for, as its name says; empty blocks count too."""
    match = _NAMED_RANGE.search(uri)
    if match is None or int(match[1]) > int(match[2]):
        return None
    return BlockRange(int(match[1]), int(match[2]))


def held_by(files: Iterable[str]) -> list[BlockRange]:
    """The blocks that the files are for."""
    return merge(found for uri in files if (found := named_range(uri)) is not None)


def uncovered(ranges: Sequence[BlockRange], files: Sequence[str]) -> BlockRange | None:
    """The first blocks of the ranges that no file is for."""
    held = held_by(files)
    for wanted in merge(ranges):
        start = wanted.start
        for each in held:
            if each.start <= start <= each.end:
                start = each.end + 1
        if start <= wanted.end:
            ends = [each.start - 1 for each in held if start < each.start <= wanted.end]
            return BlockRange(start, min([wanted.end, *ends]))
    return None


def seam(
    ranges: Sequence[BlockRange], first: int | None
) -> tuple[list[BlockRange], list[BlockRange]]:
    """The blocks below the table's first, and those from it on."""
    if first is None:
        return merge(ranges), []
    below = [BlockRange(r.start, min(r.end, first - 1)) for r in merge(ranges) if r.start < first]
    above = [BlockRange(max(r.start, first), r.end) for r in merge(ranges) if r.end >= first]
    return below, above
