"""Tasks and their attempts. Every statement that ends an attempt carries the whole fence."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.domain.errors import StaleFence
from trace_platform.domain.fence import Fence
from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def claim(tx: Tx, task_id: UUID, worker_id: str) -> Row | None:
    """Queued -> Running with a new attempt and lease, or None."""
    task: Row | None = await _sql.claim_task(tx, task_id=task_id, worker_id=worker_id)
    if task:
        await _sql.start_attempt(
            tx,
            task_id=task_id,
            attempt=task["attempt"],
            lease_token=task["lease_token"],
            worker_id=worker_id,
        )
    return task


async def pin_outputs(tx: Tx, task_id: UUID, outputs: list[dict[str, Any]]) -> None:
    """Remember which generations this attempt writes: its commit may touch no other."""
    await _sql.pin_outputs(tx, task_id=task_id, outputs=Jsonb(outputs))


async def get(tx: Tx, task_id: UUID) -> Row | None:
    row: Row | None = await _sql.get_task(tx, task_id=task_id)
    return row


async def extend_lease(
    tx: Tx, fence: Fence, progress: dict[str, Any] | None, grace_s: float
) -> Row:
    """Raise StaleFence when the attempt lost its task, or is later than its time-out and grace."""
    row: Row | None = await _sql.extend_lease(
        tx, **asdict(fence), progress=progress, grace_s=grace_s
    )
    if row is None:
        raise _stale(fence)
    await _sql.resume_attempt(tx, task_id=fence.task_id, attempt=fence.attempt)
    return row


async def hold_fence(tx: Tx, fence: Fence) -> Row:
    """Lock the task against any other attempt until the transaction ends."""
    row: Row | None = await _sql.hold_fence(tx, **asdict(fence))
    if row is None:
        raise _stale(fence)
    return row


async def finish(tx: Tx, fence: Fence, status: str, error: tuple[str | None, str | None]) -> Row:
    """End the attempt as Completed or Canceled, or raise StaleFence."""
    code, message = error
    task: Row | None = await _sql.finish_task(
        tx, **asdict(fence), status=status, error_code=code, error_message=message
    )
    return await _ended(tx, fence, task, status, error)


async def fail(
    tx: Tx,
    fence: Fence,
    error: tuple[str | None, str | None],
    *,
    retryable: bool,
    interrupted: bool,
    retry_base_s: float,
) -> Row:
    """End the attempt as Failed, or raise StaleFence. A task that was to be canceled is then."""
    code, message = error
    task: Row | None = await _sql.fail_task(
        tx,
        **asdict(fence),
        error_code=code,
        error_message=message,
        retryable=retryable,
        interrupted=interrupted,
        retry_base_s=retry_base_s,
    )
    return await _ended(tx, fence, task, "Failed", error)


async def ended_outcome(tx: Tx, fence: Fence) -> str | None:
    """How this very attempt ended: tells a repeated report from a stale one."""
    outcome: str | None = await _sql.ended_outcome(tx, **asdict(fence))
    return outcome


async def reap(tx: Tx, limit: int) -> list[Row]:
    rows: list[Row] = await _sql.reap_leases(tx, limit=limit)
    return rows


async def requeue_due(tx: Tx, limit: int, announce_again_s: float) -> list[UUID]:
    rows = await _sql.requeue_due(tx, limit=limit, announce_again_s=announce_again_s)
    return [row["id"] for row in rows]


async def cancel(tx: Tx, org_id: UUID, task_id: UUID) -> str | None:
    """The task's status after the request, or None when there is nothing to cancel."""
    row: Row | None = await _sql.cancel_task(tx, org_id=org_id, task_id=task_id)
    return row["status"] if row else None


async def retry(tx: Tx, org_id: UUID, task_id: UUID) -> bool:
    """Whether the task had ended without success, and is queued again."""
    return await _sql.retry_task(tx, org_id=org_id, task_id=task_id) is not None


async def listing(
    tx: Tx, org_id: UUID, dag_name: str | None, status: str | None, limit: int
) -> list[Row]:
    rows: list[Row] = await _sql.list_tasks(
        tx, org_id=org_id, dag_name=dag_name, status=status, limit=limit
    )
    return rows


async def counts(tx: Tx, org_id: UUID, dag_name: str) -> list[Row]:
    rows: list[Row] = await _sql.count_tasks(tx, org_id=org_id, dag_name=dag_name)
    return rows


async def _ended(
    tx: Tx, fence: Fence, task: Row | None, outcome: str, error: tuple[str | None, str | None]
) -> Row:
    if task is None:
        raise _stale(fence)
    code, message = error
    await _sql.end_attempt(
        tx, **asdict(fence), outcome=outcome, error_code=code, error_message=message
    )
    return task


def _stale(fence: Fence) -> StaleFence:
    return StaleFence(
        f"attempt {fence.attempt} of task {fence.task_id} does not own the task",
        hint="another attempt took over, or this one has ended: stop working on it",
    )
