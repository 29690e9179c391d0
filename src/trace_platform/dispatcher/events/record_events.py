"""① A running attempt emits events of its own outputs, says what is invalid, and how far its tables
go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from trace_platform.dispatcher.commits.refuse_unfit import refuse_unfit_tables
from trace_platform.dispatcher.commits.verify_output import check_table
from trace_platform.dispatcher.redo.invalidate import new_invalidations
from trace_platform.dispatcher.redo.process_invalidations import does_again
from trace_platform.dispatcher.tasks.trust import Trusts, refuse_untrusted
from trace_platform.domain.errors import Forbidden
from trace_platform.domain.fence import Fence
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import datasets, events, invalidations, operator_state, tasks
from trace_platform.state.events import NewEvent
from trace_platform.state.partitions import Committed
from trace_platform.state.task_rows import HeldTask
from trace_platform.wire.task import DatasetEvent, EventsRequest, Invalidation

Generation = tuple[UUID, UUID]


# Hears of the ranges that a job rewrote, with the names of its DAG and its own.
Rewrote = Callable[[str, str, Sequence[Invalidation]], None]


async def record_events(
    state: Database,
    request: EventsRequest,
    trusts: Trusts,
    rewrote: Rewrote = lambda dag, job, ranges: None,
) -> int:
    """How many of them are new. Raise StaleFence when the attempt lost its task."""
    async with state.transaction() as tx:
        task = await tasks.hold_fence(tx, request.fence)
        refuse_superseded(task, request.fence)
        accepted = 0
        await refuse_unfit_tables(tx, request.tables)
        # In the order in which commits take these locks.
        for table in sorted(request.tables, key=lambda each: each.dataset_version):
            check_table(task, table, trusts)
            await datasets.advance_cursor(tx, table)
        if request.events:
            accepted += await events.record(tx, new_events(task, request.events, {}))
        # What gave way can never become current: nobody reads it, and nobody makes it anew.
        if request.invalidations and not task.superseded:
            rows = new_invalidations(task, request.invalidations, trusts)
            accepted += await invalidations.record(tx, rows)
        if request.state:
            refuse_untrusted(task, trusts, "keep state")
            await operator_state.change(tx, task.generation_id, request.state)
    if request.invalidations:
        rewrote(task.dag_name, task.job_name, request.invalidations)
    return accepted


def refuse_superseded(task: HeldTask, fence: Fence) -> None:
    """Raise StaleFence for an attempt whose version gave way. A source has no inputs; what it still
    says goes to its own generation, which nobody reads."""
    if task.superseded and task.inputs:
        raise tasks.stale(fence)


def new_events(
    task: HeldTask, given: list[DatasetEvent], committed: Mapping[tuple[Generation, str], Committed]
) -> list[NewEvent]:
    """Events as they are recorded; those of a partition just committed name its materialisation."""
    allowed = pinned_generations(task) if given else set()
    # What follows from a task that is less urgent than its job is no more urgent than it.
    priority = task.priority if task.priority > task.job_priority else None
    repeat = task.id if _does_again(task) else None
    found = []
    for event in given:
        generation = (event.dataset_uuid, event.dataset_version)
        if generation not in allowed:
            raise Forbidden(f"dataset {event.dataset_uuid} is not an output of this attempt")
        made = committed.get((generation, event.partition_key or ""))
        found.append(
            NewEvent(
                org_id=task.org_id,
                dataset_uuid=event.dataset_uuid,
                dataset_version=event.dataset_version,
                cursor=event.cursor,
                partition_key=event.partition_key,
                start=event.start,
                end=event.end,
                materialisation=made.id if made else None,
                task_id=task.id,
                attempt=task.attempt,
                priority=priority,
                repeat=repeat,
                replaces=made.replaces if made else None,
            )
        )
    return found


def _does_again(task: HeldTask) -> bool:
    """Whether what the task passes on may have been passed on before, as it was then."""
    return (
        task.backfill_id is not None
        or does_again(task)
        or any(given.get("replaces") for given in task.inputs)
    )


def pinned_generations(task: HeldTask) -> set[Generation]:
    """The dataset generations that this attempt was given to write."""
    return {(UUID(o["dataset_uuid"]), UUID(o["dataset_version"])) for o in task.outputs}
