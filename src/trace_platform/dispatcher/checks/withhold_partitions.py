"""④ An attempt is never given files that a check keeps from its job.

It is put back: tried again when the partition has given way to another, whose checks may pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    if not withheld:
        return started
    held = [
        (task, found)
        for task, payload in started
        if (found := next(_given(payload, withheld.get(_reader(task), ())), None))
    ]
    if held:
        await checks.put_back(tx, [_put_back(task, found) for task, found in held])
        await tasks.announce_next(tx, {task.id: task.job_id for task, _ in held})
    gone = {task.id for task, _ in held}
    return [(task, payload) for task, payload in started if task.id not in gone]


def _given(payload: TaskPayload, withheld: Sequence[Withheld]) -> Iterator[Withheld]:
    files = [uri for given in payload.inputs for uri in given.files]
    return (each for each in withheld if any(uri.startswith(each.location) for uri in files))


def _put_back(task: ClaimedTask, found: Withheld) -> PutBack:
    return PutBack(
        task.id,
        task.attempt,
        task.lease_token,
        f"{found.dataset} {found.partition_key} failed {', '.join(found.checks)}, which keeps it "
        f"from {task.dag_name}.{task.job_name}",
    )


def _reader(task: ClaimedTask) -> Reader:
    return Reader(task.org_id, task.dag_name, task.job_name)
