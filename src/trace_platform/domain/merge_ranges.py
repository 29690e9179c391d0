"""Block ranges that overlap or touch become one; what a span lacks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trace_platform.domain.block_range import BlockRange


@dataclass(frozen=True, slots=True)
class Merged:
    """Exactly the blocks of its members, which leave no gap between them."""

    span: BlockRange
    # Places in what was given, in that order.
    members: tuple[int, ...]


def merge_ranges(given: Sequence[BlockRange]) -> list[Merged]:
    """Each range is in one of them; between any two lies a block that nobody named."""
    groups: list[tuple[BlockRange, list[int]]] = []
    for place in sorted(range(len(given)), key=lambda n: given[n]):
        span = given[place]
        if groups and span.start <= groups[-1][0].end + 1:
            before, members = groups[-1]
            members.append(place)
            groups[-1] = BlockRange(before.start, max(before.end, span.end)), members
        else:
            groups.append((span, [place]))
    return [Merged(span, tuple(sorted(members))) for span, members in groups]


def gaps(span: BlockRange, held: Iterable[BlockRange]) -> Iterator[BlockRange]:
    """The parts of the span that no range holds, in order."""
    following = span.start
    for merged in merge_ranges(list(held)):
        if merged.span.start > span.end:
            break
        if merged.span.start > following:
            yield BlockRange(following, merged.span.start - 1)
        following = max(following, merged.span.end + 1)
    if following <= span.end:
        yield BlockRange(following, span.end)
