"""How far backfills are, and what of them failed."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from trace_platform.dispatcher.redo.plan_backfill import tasks_for
from trace_platform.dispatcher.versions.refuse_unknown_dag import check_known
from trace_platform.domain.errors import NotFound
from trace_platform.domain.freshness import Given
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import backfills
from trace_platform.state.backfills import ListedBackfill
from trace_platform.wire.backfill import (
    BackfillDetail,
    BackfillList,
    BackfillStatus,
    FailedTask,
)

# More would be a page of the same error.
FAILED_SHOWN = 20


async def list_backfills(
    state: Database, org_id: UUID, dag_name: str | None, limit: int
) -> BackfillList:
    """The newest first."""
    async with state.transaction() as tx:
        rows = await backfills.listing(tx, org_id, dag_name, limit)
        if not rows:
            await check_known(tx, org_id, dag_name)
    return BackfillList(backfills=[as_status(row) for row in rows])


async def show_backfill(state: Database, org_id: UUID, backfill_id: UUID) -> BackfillDetail:
    async with state.transaction() as tx:
        row = await backfills.get(tx, org_id, backfill_id)
        if row is None:
            raise no_backfill(backfill_id)
        failed = await backfills.failed(tx, backfill_id, FAILED_SHOWN)
    tasks = [
        FailedTask(
            task_id=task.task_id,
            scope=_scope(task.inputs),
            status=task.status,
            error_code=task.error_code,
            error_message=task.error_message,
        )
        for task in failed
    ]
    return BackfillDetail(**as_status(row).model_dump(), failed_tasks=tasks)


def as_status(row: ListedBackfill) -> BackfillStatus:
    counts = row.counts
    left = 0
    if row.status in ("Running", "Paused"):
        left = tasks_for(row.execution_strategy, row.inputs - row.inputs_given)
    fields = {
        name: value for name, value in asdict(row).items() if name in BackfillStatus.model_fields
    }
    return BackfillStatus(
        **fields,
        done=counts.get("Completed", 0),
        failed=counts.get("Failed", 0),
        canceled=counts.get("Canceled", 0),
        in_flight=sum(counts.get(each, 0) for each in ("Queued", "Running", "Retrying")),
        total=sum(counts.values()) + left,
    )


def no_backfill(backfill_id: UUID) -> NotFound:
    return NotFound(f"there is no backfill {backfill_id}", hint="trace backfills list")


def _scope(inputs: list[Given]) -> str:
    first = inputs[0]
    key = str(first.get("partition_key") or first.get("cursor") or "")
    return key if len(inputs) == 1 else f"{key} and {len(inputs) - 1} more"
