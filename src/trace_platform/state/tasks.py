"""Tasks and their attempts. Every statement that ends an attempt carries the whole fence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.domain.errors import StaleFence
from trace_platform.domain.fence import Fence
from trace_platform.domain.freshness import Given
from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state import locks
from trace_platform.state.task_rows import (
    AnnouncedTask,
    AttemptRow,
    ClaimedTask,
    HeldTask,
    Lease,
    ListedTask,
    Outcome,
    ReapedAttempt,
    SelectedTask,
    StoredTask,
    TaskCount,
)

_sql = load_queries(__file__)

# A task that a deploy hands over to another definition at the moment of a look seems to have none,
# and its fence to be lost: what is not found is looked for once more.
_LOOKS = 2


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt says that it ended."""

    fence: Fence
    status: str
    error_code: str | None = None
    error_message: str | None = None
    retryable: bool = True
    retry_after_s: float = 0.0
    interrupted: bool = False
    outage: bool = False
    has_log: bool = False


class Chosen(NamedTuple):
    """Tasks of a DAG, a job, a status (None: any), that ended, or were made, in a span of time."""

    dag_name: str | None
    job_name: str | None
    status: str | None
    since: datetime | None
    until: datetime


async def claim(
    tx: Tx,
    runtime: str,
    worker_ids: Sequence[str],
    task_ids: Sequence[UUID] | None = None,
    *,
    sources: bool | None = False,
) -> list[ClaimedTask]:
    """Queued -> Running with a new attempt and lease, at most one task per worker id; only of
    these tasks when some are named. Runs of `sources`, or everything else; None: either."""
    await locks.claims(tx, runtime)
    claimed: list[ClaimedTask] = []
    while len(claimed) < len(worker_ids):
        # One look takes a few tasks of each job at most: another, until it is enough or all.
        found = await _sql.rows(
            tx,
            "claim_tasks",
            ClaimedTask,
            runtime=runtime,
            worker_ids=list(worker_ids[len(claimed) :]),
            task_ids=None if task_ids is None else list(task_ids),
            sources=sources,
        )
        claimed += found
        if not found or not found[0].more:
            break
    return claimed


async def get(tx: Tx, task_id: UUID) -> StoredTask | None:
    return await _sql.row(tx, "get_task", StoredTask, task_id=task_id)


async def extend_leases(
    tx: Tx, beats: Sequence[tuple[Fence, dict[str, Any] | None]], grace_s: float
) -> dict[UUID, Lease]:
    """By task: the new end of the lease and what the worker shall do. A task that is missing was
    lost to another attempt, or is later than its time-out and grace."""
    extended: dict[UUID, Lease] = {}
    for _ in range(_LOOKS):
        rest = [beat for beat in beats if beat[0].task_id not in extended]
        if rest:
            rows = await _sql.rows(
                tx,
                "extend_leases",
                Lease,
                **_columns(fence for fence, _ in rest),
                progress=[None if progress is None else Jsonb(progress) for _, progress in rest],
                grace_s=grace_s,
            )
            extended |= {lease.id: lease for lease in rows}
    return extended


async def hold_fences(tx: Tx, fences: Sequence[Fence]) -> dict[UUID, HeldTask]:
    """By task: those whose fence holds, locked against any other attempt until the transaction
    ends."""
    held: dict[UUID, HeldTask] = {}
    for _ in range(_LOOKS):
        rest = [fence for fence in fences if fence.task_id not in held]
        if rest:
            rows = await _sql.rows(tx, "hold_fences", HeldTask, **_columns(rest))
            held |= {task.id: task for task in rows}
    return held


async def hold_fence(tx: Tx, fence: Fence) -> HeldTask:
    held = await hold_fences(tx, [fence])
    if not held:
        raise stale(fence)
    return held[fence.task_id]


async def finish(tx: Tx, endings: Sequence[Ending]) -> set[UUID]:
    """End attempts as Completed or Canceled. Which tasks did: the others' fences are lost."""
    rows = await _sql.finish_tasks(
        tx,
        **_columns(e.fence for e in endings),
        **_errors(endings),
        statuses=[e.status for e in endings],
    )
    return {row["id"] for row in rows}


async def fail(
    tx: Tx, endings: Sequence[Ending], retry_base_s: float, outage_s: float
) -> set[UUID]:
    """End attempts as Failed. A task that was to be canceled is then. Attempts that met an outage
    do not count until it has lasted for `outage_s`."""
    rows = await _sql.fail_tasks(
        tx,
        **_columns(e.fence for e in endings),
        **_errors(endings),
        retryable=[e.retryable for e in endings],
        retry_after_s=[e.retry_after_s for e in endings],
        interrupted=[e.interrupted for e in endings],
        outages=[e.outage for e in endings],
        retry_base_s=retry_base_s,
        outage_s=outage_s,
    )
    return {row["id"] for row in rows}


async def note(tx: Tx, task: HeldTask, said: str) -> None:
    """What is worth knowing of how a task completed."""
    await _sql.note_task(
        tx, id=task.id, attempt=task.attempt, lease_token=task.lease_token, note=said
    )


async def announce_next(tx: Tx, ended: Mapping[UUID, UUID]) -> None:
    """For each of these tasks that ended, another of its job is due, if the job has a limit.
    By task: its job."""
    await _sql.announce_next(tx, job_ids=list(ended.values()), task_ids=list(ended))


async def ended_outcomes(tx: Tx, fences: Sequence[Fence]) -> dict[UUID, Outcome]:
    """By task: how these very attempts ended, and with which error."""
    rows = await _sql.rows(tx, "ended_outcomes", Outcome, **_columns(fences))
    return {row.task_id: row for row in rows}


async def expired(tx: Tx, limit: int) -> list[UUID]:
    return [row["id"] for row in await _sql.expired_leases(tx, limit=limit)]


async def abandoned(tx: Tx, identity: str, incarnation: int) -> list[UUID]:
    """What earlier incarnations of this worker still have a lease for."""
    rows = await _sql.abandoned_leases(tx, identity=identity, incarnation=incarnation)
    return [row["id"] for row in rows]


async def reap(
    tx: Tx, task_ids: Sequence[UUID], identity: str | None = None, incarnation: int | None = None
) -> list[ReapedAttempt]:
    """Those of the tasks whose lease ran out, or which an earlier incarnation of this worker left
    behind, given up."""
    reaped = await _sql.rows(
        tx,
        "reap_leases",
        ReapedAttempt,
        task_ids=list(task_ids),
        identity=identity,
        incarnation=incarnation,
    )
    await announce_next(tx, {attempt.task: attempt.job_id for attempt in reaped})
    return reaped


async def due(tx: Tx, limit: int) -> list[UUID]:
    """What is to be announced: retries whose time has come, wake-ups that seem lost."""
    return [row["id"] for row in await _sql.due_tasks(tx, limit=limit)]


async def requeue(tx: Tx, task_ids: Sequence[UUID], announce_again_s: float) -> list[AnnouncedTask]:
    return await _sql.rows(
        tx,
        "requeue_due",
        AnnouncedTask,
        task_ids=list(task_ids),
        announce_again_s=announce_again_s,
    )


async def next_in_line(tx: Tx, runtime: str, limit: int) -> list[UUID]:
    """Tasks that could be claimed, the oldest of the highest priority first."""
    return [row["id"] for row in await _sql.next_in_line(tx, runtime=runtime, limit=limit)]


async def cancel(tx: Tx, org_id: UUID, task_id: UUID) -> str | None:
    """The task's status after the request, or None when there is nothing to cancel."""
    rows = await _sql.cancel_tasks(tx, org_id=org_id, task_ids=[task_id])
    return rows[0]["status"] if rows else None


async def cancel_all(tx: Tx, org_id: UUID, task_ids: Sequence[UUID]) -> list[UUID]:
    """Those of them that had not ended: they are canceled, or told to stop."""
    rows = await _sql.cancel_tasks(tx, org_id=org_id, task_ids=list(task_ids))
    return [row["id"] for row in rows]


async def retry(tx: Tx, org_id: UUID, task_id: UUID) -> bool:
    """Whether the task had ended without success, and is queued again."""
    return bool(await retry_all(tx, org_id, [task_id]))


async def retry_all(tx: Tx, org_id: UUID, task_ids: Sequence[UUID]) -> list[UUID]:
    """Those of them that had ended without success: they are queued again."""
    rows = await _sql.retry_tasks(tx, org_id=org_id, task_ids=list(task_ids))
    return [row["id"] for row in rows]


async def retryable(tx: Tx, org_id: UUID, chosen: Chosen, limit: int) -> list[SelectedTask]:
    """What ended badly, and would be done again: Failed ones unless others are asked for."""
    given = chosen._asdict() | {"status": chosen.status or "Failed"}
    return await _sql.rows(tx, "retryable", SelectedTask, org_id=org_id, limit=limit, **given)


async def cancelable(tx: Tx, org_id: UUID, chosen: Chosen, limit: int) -> list[SelectedTask]:
    """What has not ended, and was not told to."""
    return await _sql.rows(
        tx, "cancelable", SelectedTask, org_id=org_id, limit=limit, **chosen._asdict()
    )


async def listing(
    tx: Tx,
    org_id: UUID,
    dag_name: str | None,
    job_name: str | None,
    status: str | None,
    limit: int,
) -> list[ListedTask]:
    return await _sql.rows(
        tx,
        "list_tasks",
        ListedTask,
        org_id=org_id,
        dag_name=dag_name,
        job_name=job_name,
        status=status,
        limit=limit,
    )


async def attempts_of(tx: Tx, task_id: UUID) -> list[AttemptRow]:
    return await _sql.rows(tx, "attempts_of", AttemptRow, task_id=task_id)


async def counts(tx: Tx, org_id: UUID, dag_name: str, since: datetime) -> list[TaskCount]:
    """By job and status: all that is alive, and what was made since then."""
    return await _sql.rows(
        tx, "count_tasks", TaskCount, org_id=org_id, dag_name=dag_name, since=since
    )


def stale(fence: Fence) -> StaleFence:
    return StaleFence(
        f"attempt {fence.attempt} of task {fence.task_id} does not own the task",
        hint="another attempt took over, or this one has ended: stop working on it",
    )


def _columns(fences: Iterable[Fence]) -> dict[str, list[Any]]:
    given = list(fences)
    return {
        "task_ids": [fence.task_id for fence in given],
        "attempts": [fence.attempt for fence in given],
        "lease_tokens": [fence.lease_token for fence in given],
    }


def _errors(endings: Sequence[Ending]) -> dict[str, list[Any]]:
    return {
        "error_codes": [e.error_code for e in endings],
        "error_messages": [e.error_message for e in endings],
        "has_logs": [e.has_log for e in endings],
    }


async def split(tx: Tx, task_id: UUID, parts: Sequence[list[Given]]) -> None:
    """Tasks beside this one or in its place, each with these inputs of it."""
    await _sql.split(tx, task_id=task_id, inputs=[Jsonb(inputs) for inputs in parts])
