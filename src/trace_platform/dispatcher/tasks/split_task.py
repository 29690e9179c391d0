"""⑦ A task whose range is too large for one, or that several ranges woke, becomes several of the
same job."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import BadInput
from trace_platform.domain.freshness import Given, overlap, range_of
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import tasks
from trace_platform.state.task_rows import HeldTask
from trace_platform.wire.task import Span


def check_split(task: HeldTask, parts: Sequence[Span]) -> None:
    """Raise BadInput unless the parts, two or more, are exactly the blocks that woke the task: its
    range cut in order, or its ranges where blocks lie between them that it was not asked for."""
    woken = _woken(task)
    spans = [span for given in woken if (span := range_of(given)) is not None]
    if not spans or len(spans) < len(woken):
        raise BadInput("only a task that block ranges woke can be split")
    wholes = [merged.span for merged in merge_ranges(spans)]
    given = [BlockRange(part.start, part.end) for part in parts]
    is_cut = len(woken) == 1 and _is_cut(wholes[0], given)
    if len(given) < 2 or not (is_cut or given == wholes):
        keys = ", ".join(whole.key for whole in wholes[:3])
        raise BadInput(f"the parts are not the task's blocks {keys}, cut in order")


def _is_cut(whole: BlockRange, parts: Sequence[BlockRange]) -> bool:
    joined = all(before.end + 1 == after.start for before, after in pairwise(parts))
    return bool(parts) and joined and (parts[0].start, parts[-1].end) == (whole.start, whole.end)


async def split_task(tx: Tx, task: HeldTask, parts: Sequence[Span]) -> None:
    """In the transaction that ends it, after `check_split`."""
    woken = _woken(task)
    spans = [BlockRange(part.start, part.end) for part in parts]
    await tasks.split(tx, task.id, [_part_of(woken, span) for span in spans])


def _part_of(woken: Sequence[Given], part: BlockRange) -> list[Given]:
    found = [(given, overlap(range_of(given), part)) for given in woken]
    return [
        given | {"partition_key": own.key, "start": own.start, "end": own.end}
        for given, own in found
        if own is not None
    ]


def _woken(task: HeldTask) -> list[Given]:
    return [given for given in task.inputs if given.get("trigger", True)]
