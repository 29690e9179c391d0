"""④ An attempt is never given files that a check keeps from its job; nor does it merge partitions
of its own with one that is kept from another job, who would find it under another name.

It is put back: tried again when the partition has given way to another, whose checks may pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from trace_platform.domain.freshness import merges
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import checks, tasks
from trace_platform.state.checks import PutBack, Reader, Withheld
from trace_platform.state.task_rows import ClaimedTask
from trace_platform.wire.task import TaskPayload

Started = tuple[ClaimedTask, TaskPayload]


async def without_withheld(
    tx: Tx, claimed: Sequence[ClaimedTask], payloads: Sequence[TaskPayload]
) -> list[Started]:
    """Those that may have what they are to read, of tasks that were claimed in this transaction.
    Asked after their files are known: what withholds a file is committed with it."""
    started = list(zip(claimed, payloads, strict=True))
    if not started:
        return []
    withheld = await checks.withheld_from(tx, [_reader(task) for task in claimed])
    kept = await checks.withheld_of(tx, [id for task in claimed for id in _merged(task)])
    held = [
        (task, found)
        for task, payload in started
        if (found := _kept_from(task, payload, withheld.get(_reader(task), ()), kept))
    ]
    if held:
        await checks.put_back(tx, [_put_back(task, found) for task, found in held])
        await tasks.announce_next(tx, {task.id: task.job_id for task, _ in held})
    gone = {task.id for task, _ in held}
    return [(task, payload) for task, payload in started if task.id not in gone]


def _kept_from(
    task: ClaimedTask,
    payload: TaskPayload,
    withheld: Sequence[Withheld],
    kept: Mapping[UUID, Withheld],
) -> Withheld | None:
    merged = (kept[id] for id in _merged(task) if id in kept)
    return next(_given(payload, withheld), None) or next(merged, None)


def _merged(task: ClaimedTask) -> list[UUID]:
    """The partitions that become one."""
    if not merges(task.inputs):
        return []
    return [UUID(id) for pinned in task.outputs for id in pinned.get("base", [])]


def _given(payload: TaskPayload, withheld: Sequence[Withheld]) -> Iterator[Withheld]:
    files = [uri for given in payload.inputs for uri in given.files]
    return (each for each in withheld if any(uri.startswith(each.location) for uri in files))


def _put_back(task: ClaimedTask, found: Withheld) -> PutBack:
    return PutBack(
        task.id,
        task.attempt,
        task.lease_token,
        f"{found.dataset} {found.partition_key} failed {', '.join(found.checks)}, which keeps it "
        f"from {found.dag_name}.{found.job_name}",
    )


def _reader(task: ClaimedTask) -> Reader:
    return Reader(task.org_id, task.dag_name, task.job_name)
