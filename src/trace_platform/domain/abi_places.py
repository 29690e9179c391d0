"""Which version of an ABI decodes which contract in which blocks, and what a change of it touches.

A contract is decoded by the version that is valid from the newest block that has been reached. One
that stands in for another contract in some blocks (a proxy) is decoded by that one's ABI there. All
contracts without a version of their own are decoded by the one that is for any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trace_platform.domain.block_range import MAX_BLOCK, BlockRange
from trace_platform.domain.merge_ranges import gaps, merge_ranges


@dataclass(frozen=True, slots=True)
class Valid:
    """A version of an ABI from a block on: of a contract, or (None) of any."""

    version: str
    address: str | None
    from_block: int


@dataclass(frozen=True, slots=True)
class StandsIn:
    """A contract that is decoded by another one's ABIs. An implementation that follows ends it,
    too."""

    address: str
    implementation: str
    from_block: int
    to_block: int | None


@dataclass(frozen=True, slots=True)
class Place:
    address: str | None
    blocks: BlockRange
    version: str


def places(valid: Sequence[Valid], proxies: Sequence[StandsIn] = ()) -> list[Place]:
    """Of one ABI on one chain; no two of one contract overlap."""
    own: dict[str | None, list[Place]] = defaultdict(list)
    for address, each in _by_address(valid).items():
        own[address] = [
            Place(address, blocks, one.version)
            for one, blocks in zip(each, _until_next([v.from_block for v in each]), strict=True)
        ]
    stood_in = {
        proxy: list(_implemented(proxy, each, own)) for proxy, each in _by_proxy(proxies).items()
    }
    for proxy, taken in stood_in.items():
        left = [cut for place in own[proxy] for cut in _without(place, taken)]
        own[proxy] = [*left, *taken]
    found = [place for each in own.values() for place in each]
    return sorted(found, key=lambda place: (place.address or "", place.blocks))


def changed(before: Sequence[Place], after: Sequence[Place]) -> list[BlockRange]:
    """Blocks in which a contract is decoded by another version, or by one at all, than before."""
    found = []
    for address in {place.address for place in (*before, *after)}:
        old = [place for place in before if place.address == address]
        new = [place for place in after if place.address == address]
        found += [*_not_in(old, new), *_not_in(new, old)]
    return [merged.span for merged in merge_ranges(found)]


def _not_in(some: Sequence[Place], others: Sequence[Place]) -> Iterator[BlockRange]:
    for place in some:
        same = [each.blocks for each in others if each.version == place.version]
        yield from gaps(place.blocks, same)


def _by_address(valid: Sequence[Valid]) -> dict[str | None, list[Valid]]:
    found: dict[str | None, list[Valid]] = defaultdict(list)
    for each in sorted(valid, key=lambda one: one.from_block):
        found[each.address].append(each)
    return found


def _by_proxy(proxies: Sequence[StandsIn]) -> dict[str, list[StandsIn]]:
    found: dict[str, list[StandsIn]] = defaultdict(list)
    for each in sorted(proxies, key=lambda one: one.from_block):
        found[each.address].append(each)
    return found


def _until_next(starts: Sequence[int]) -> Iterator[BlockRange]:
    for start, following in zip(starts, [*starts[1:], MAX_BLOCK + 1], strict=True):
        yield BlockRange(start, following - 1)


def _implemented(
    proxy: str, each: Sequence[StandsIn], own: dict[str | None, list[Place]]
) -> Iterator[Place]:
    for one, until_next in zip(each, _until_next([p.from_block for p in each]), strict=True):
        last = until_next.end if one.to_block is None else min(one.to_block, until_next.end)
        for place in own.get(one.implementation, ()):
            start, end = max(one.from_block, place.blocks.start), min(last, place.blocks.end)
            if start <= end:
                yield Place(proxy, BlockRange(start, end), place.version)


def _without(place: Place, taken: Sequence[Place]) -> Iterator[Place]:
    for blocks in gaps(place.blocks, [each.blocks for each in taken]):
        yield Place(place.address, blocks, place.version)
