"""Cut a block range into the pieces that Spark tasks read."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.domain.block_range import BlockRange


def partitions(
    blocks: BlockRange, *, cores: int, batch_blocks: int, max_partitions: int
) -> list[BlockRange]:
    """About two pieces per core, so that a slow one does not leave the others idle for long;
    each of whole batches, so that none is spent on a few left-over blocks."""
    batches = -(-len(blocks) // batch_blocks)
    n = max(1, min(2 * cores, max_partitions, batches))
    size = -(-batches // n) * batch_blocks
    return list(pieces(blocks, size))


def pieces(blocks: BlockRange, size: int) -> Iterator[BlockRange]:
    """Runs of `size` blocks from the range's own start; the last may be shorter."""
    for start in range(blocks.start, blocks.end + 1, size):
        yield BlockRange(start, min(start + size - 1, blocks.end))
