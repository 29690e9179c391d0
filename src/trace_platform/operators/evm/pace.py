"""How many blocks to ask for at once: as many as wanted, as few as memory bears."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.evm.node import Answers

# An answer of so many rows costs some tens of megabytes, as JSON and as structs.
_ROWS_PER_BATCH = 16_384
# Nobody knows yet what the blocks hold.
_FIRST_BLOCKS = 8


class Pace:
    """Follows the blocks' size, from answer to answer in their order: the same range is cut the
    same way every time."""

    def __init__(self, batch_blocks: int) -> None:
        self._most = batch_blocks
        self._size = min(batch_blocks, _FIRST_BLOCKS)

    def pieces(self, blocks: BlockRange) -> Iterator[BlockRange]:
        """Cut when asked for: `seen` changes the size of what is left."""
        start = blocks.start
        while start <= blocks.end:
            piece = BlockRange(start, min(start + self._size - 1, blocks.end))
            yield piece
            start = piece.end + 1

    def seen(self, answers: Answers) -> Answers:
        fitting = _ROWS_PER_BATCH * len(answers.blocks) // max(1, answers.rows)
        self._size = max(1, min(self._most, 4 * self._size, fitting))
        return answers
