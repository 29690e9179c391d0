from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.evm.partitions import partitions


@given(
    start=st.integers(0, 10**9),
    length=st.integers(1, 100_000),
    cores=st.integers(1, 64),
    batch_blocks=st.integers(1, 1000),
    max_partitions=st.integers(1, 100),
)
def test_partitions_cover_the_range_once_with_whole_batches(
    start: int, length: int, cores: int, batch_blocks: int, max_partitions: int
) -> None:
    blocks = BlockRange(start, start + length - 1)
    found = partitions(
        blocks, cores=cores, batch_blocks=batch_blocks, max_partitions=max_partitions
    )
    assert found[0].start == blocks.start
    assert found[-1].end == blocks.end
    for before, after in pairwise(found):
        assert after.start == before.end + 1
        assert len(before) % batch_blocks == 0
    assert len(found) <= min(2 * cores, max_partitions)
