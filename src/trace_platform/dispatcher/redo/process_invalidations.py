"""An invalidation is processed when the tasks that it became completed, and not before.

A task that failed or was canceled leaves it open: its retry closes it. What was superseded counts
as closed once its generation is neither read nor built any more: the one in its place was built
later, from what is right by now, or was given the invalidation itself; and else it would stay open
for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import structlog

from trace_platform.dispatcher.redo.invalidate import new_invalidation
from trace_platform.domain.freshness import Given
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import invalidations
from trace_platform.state.invalidations import NewInvalidation
from trace_platform.state.task_rows import HeldTask
from trace_platform.wire.task import Invalidation, OutputCommit

log = structlog.get_logger()


async def process_invalidations(tx: Tx, completed: Iterable[HeldTask]) -> None:
    """Of tasks that complete in this transaction, behind their fences."""
    done = [task.id for task in completed if does_again(task)]
    if done:
        await invalidations.close_tasks(tx, done)


def does_again(task: HeldTask) -> bool:
    return any(given.get("invalidation") is not None for given in task.inputs)


def cascaded(task: HeldTask, tables: Sequence[OutputCommit]) -> Iterator[NewInvalidation]:
    """What a task that replaced a part of a table thereby says of it. Files need none: their new
    materialisation is an event; the cursor of a table is where it was. What is appended replaces
    nothing, and of an input that is all of a dataset nobody knows which part it was."""
    if task.update_strategy == "append":
        return
    for given in task.inputs:
        again = given.get("invalidation") is not None or given.get("replaces")
        if not again or given.get("partition_key") is None:
            continue
        for table in tables:
            yield new_invalidation(task, _same_part(given, table), remade=True)


def _same_part(given: Given, table: OutputCommit) -> Invalidation:
    return Invalidation(
        dataset_uuid=table.dataset_uuid,
        dataset_version=table.dataset_version,
        scope="row_range" if "start" in given else "partition",
        partition_key=given.get("partition_key"),
        start=given.get("start"),
        end=given.get("end"),
        reason=_reason(given),
    )


def _reason(given: Given) -> str:
    if (invalidation := given.get("invalidation")) is not None:
        return f"what it is made of was invalid ({invalidation})"
    return "what it is made of was replaced"


async def close_invalidations(state: Database, limit: int = 1_000) -> int:
    """How many were processed although nobody completes what they wait for. Safe in several
    dispatchers at once."""
    async with state.transaction() as tx:
        gone: list[UUID] = await invalidations.abandoned(tx, limit)
        closed = await invalidations.close_tasks(tx, gone) if gone else 0
    async with state.transaction() as tx:
        closed += await invalidations.process_left(tx, limit)
    if closed:
        log.info("invalidations_closed", invalidations=closed, tasks=len(gone))
    return closed
