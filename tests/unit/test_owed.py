from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trace_platform.data.owed import Extent, after_rewrite, owed_by_rewrite

# How many blocks below the next one a rewrite starts, how many it brings, and of which fork.
Step = tuple[int, int, int]
STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 2)), max_size=12)


def _changed_from(before: dict[int, int], after: dict[int, int], start: int) -> int | None:
    touched = [block for block in before.keys() | after.keys() if block >= start]
    changed = [block for block in touched if before.get(block) != after.get(block)]
    return min(changed, default=None)


@given(first=st.integers(0, 20), steps=STEPS)
def test_who_reads_what_is_owed_has_what_the_table_has(first: int, steps: list[Step]) -> None:
    extent = Extent(None, None, None)
    table: dict[int, int] = {}
    reader: dict[int, int] = {}
    for back, count, fork in steps:
        following = first if extent.last_block is None else extent.last_block + 1
        start = max(0, following - back)
        end = start + count - 1
        kept = {block: of for block, of in table.items() if block < start}
        fresh = kept | dict.fromkeys(range(start, end + 1), fork)
        owed = owed_by_rewrite(extent, start, end, _changed_from(table, fresh, start))
        announced = -1 if extent.announced_to is None else extent.announced_to
        table, extent = fresh, after_rewrite(extent, start, end)

        assert sum(each.again for each in owed) <= 1
        for each in owed:
            assert each.start <= each.end
            assert each.end <= announced if each.again else each.start > announced
            for block in range(each.start, each.end + 1):
                reader.pop(block, None)
                if block in table:
                    reader[block] = table[block]
        assert reader == table


@given(first=st.integers(0, 20), steps=STEPS)
def test_what_stays_the_same_is_owed_to_nobody(first: int, steps: list[Step]) -> None:
    extent = Extent(None, None, None)
    for back, count, _ in steps:
        following = first if extent.last_block is None else extent.last_block + 1
        start = max(0, following - back)
        extent = after_rewrite(extent, start, start + count - 1)
        assert owed_by_rewrite(extent, start, start + count - 1, None) == []
