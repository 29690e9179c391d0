"""⑦ What a task was to make anew is made anew: else what gave way above stays current below.

Only of what an invalidation, or an input whose rows gave way, woke the task for: of the rest
nothing is there yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from trace_platform.domain.errors import IncompleteOutput
from trace_platform.domain.freshness import REDONE, Change, Given, Partition, Read, overlap
from trace_platform.domain.merge_ranges import gaps
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import partitions
from trace_platform.state.task_rows import HeldTask


async def refuse_unfinished(tx: Tx, task: HeldTask) -> None:
    """Raise IncompleteOutput. Of a task that completes, after its commit and in its transaction."""
    changes = [Change.of(given) for given in task.inputs if _makes_anew(given)]
    if not changes:
        return
    redone = _redone(map(Read.of, task.knows))
    for output in task.outputs:
        # What is appended replaces nothing.
        if "append" in output:
            continue
        for change in changes:
            for partition in await _current(tx, UUID(output["dataset_version"]), change):
                if not _holds(partition, change, redone):
                    raise IncompleteOutput(
                        f"partition {partition.key} of output '{output['name']}' was to be made "
                        "anew, and the attempt ended without it",
                        hint="commit its whole range, with no rows where none are left",
                    )


def _makes_anew(given: Given) -> bool:
    about = given.get("invalidation") is not None or given.get("replaces", False)
    return bool(about and given.get("trigger", True) and "partition_key" in given)


async def _current(tx: Tx, version: UUID, change: Change) -> list[Partition]:
    if change.span is not None:
        return await partitions.within(tx, version, change.span)
    return await partitions.of_key(tx, version, change.key or "")


def _holds(partition: Partition, change: Change, redone: int) -> bool:
    if change.changed_at is None:
        return _redone(partition.knows) >= redone
    if change.span is None:
        return partition.holds_key(change)
    own = overlap(partition.span, change.span)
    return own is None or not any(gaps(own, partition.held(change)))


def _redone(knows: Iterable[Read]) -> int:
    return max((read.position for read in knows if read.input_index == REDONE), default=0)
