"""What checks found, the newest first, without what tells about persons."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.checks.mask_sample import PersonalColumns, hidden_columns, masked
from trace_platform.dispatcher.datasets.find_dataset import find_dataset
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import checks
from trace_platform.state.checks import ListedCheck, StoredResult
from trace_platform.wire.check import CheckList, CheckResult, CheckResults, CheckSummary


async def list_checks(state: Database, org_id: UUID, dataset: str | None) -> CheckList:
    """Each check that has run, by its newest result; of one dataset, or of all."""
    async with state.transaction() as tx:
        found = None if dataset is None else await find_dataset(tx, org_id, dataset)
        rows = await checks.listing(tx, org_id, found.uuid if found else None)
    summaries = [
        CheckSummary(
            dataset=row.dataset,
            name=row.name,
            kind=row.kind,
            on_failure=_on_failure(row),
            outcome=row.outcome,
            partition_key=row.partition_key,
            checked_at=row.checked_at,
            passed=row.passed,
            failed=row.failed,
        )
        for row in rows
    ]
    return CheckList(checks=sorted(summaries, key=lambda each: (each.dataset, each.name)))


async def show_checks(
    state: Database, org_id: UUID, dataset: str, limit: int, *, failed: bool = False
) -> CheckResults:
    """Each result of a dataset's checks; `failed` alone, or all."""
    async with state.transaction() as tx:
        uuid = (await find_dataset(tx, org_id, dataset)).uuid
        rows = await checks.results(tx, org_id, uuid, limit, failed=failed)
        personal = await checks.personal_columns(tx, [uuid])
    return CheckResults(results=[_result(row, personal) for row in rows])


def _result(row: StoredResult, personal: PersonalColumns) -> CheckResult:
    about = row.kind, row.sample, row.dataset_uuid, personal
    return CheckResult(
        dataset=row.dataset,
        name=row.name,
        kind=row.kind,
        partition_key=row.partition_key,
        outcome=row.outcome,
        on_failure=_on_failure(row),
        rows=row.row_count,
        failing=row.failing,
        message=row.message,
        sample=masked(*about),
        masked=hidden_columns(*about),
        committed=row.materialisation is not None,
        blocks_now=row.blocks_now,
        checked_at=row.checked_at,
        task_id=row.task_id,
        attempt=row.attempt,
    )


def _on_failure(row: ListedCheck | StoredResult) -> str:
    if row.blocks_all:
        return "block"
    return f"block {', '.join(row.readers)}" if row.readers else "warn"
