"""What a rewrite owes to those who read the table's events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extent:
    """Blocks that a hot table answers for, and up to where they were announced."""

    first_block: int | None
    last_block: int | None
    announced_to: int | None
    # The lowest that it ever had: what lies between it and the first one has left the table.
    origin_block: int | None = None


@dataclass(frozen=True, slots=True)
class Owed:
    start: int
    end: int
    # They were announced before: as an invalidation of the range.
    again: bool


def owed_by_rewrite(before: Extent, start: int, end: int, changed_from: int | None) -> list[Owed]:
    """Blocks `start` to `end` stand in place of every block from `start` on. `changed_from` is the
    lowest one whose content differs, gone ones included; None when none does."""
    owed = []
    announced = -1 if before.announced_to is None else before.announced_to
    last = end if before.last_block is None else max(end, before.last_block)
    if changed_from is not None and changed_from <= min(last, announced):
        owed.append(Owed(changed_from, min(last, announced), again=True))
    if end >= max(start, announced + 1):
        owed.append(Owed(max(start, announced + 1), end, again=False))
    return owed


def after_rewrite(before: Extent, start: int, end: int) -> Extent:
    first = start if before.first_block is None else min(start, before.first_block)
    announced = end if before.announced_to is None else max(end, before.announced_to)
    return Extent(first, end, announced)
