"""Queries that were made, for those who look after the service, and who saw what of persons."""

from __future__ import annotations

from uuid import UUID

from trace_platform.domain.errors import BadInput
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import datasets, overview, queries
from trace_platform.wire.pii_access import PiiAccess, PiiAccesses
from trace_platform.wire.query import QueryHistory, QueryRecord, RecordQueries


async def record_queries(state: Database, org_id: UUID, request: RecordQueries) -> int:
    """How many are new. Telling it again changes nothing."""
    for record in request.queries:
        _refuse_unattributed(record)
    if not request.queries:
        return 0
    async with state.statement() as tx:
        return await queries.record(
            tx, org_id, [record.model_dump(mode="json") for record in request.queries]
        )


def _refuse_unattributed(record: QueryRecord) -> None:
    """What was shown of persons is logged by generation, and so has to be of one."""
    read = {dataset.name for dataset in record.datasets}
    for name in record.pii:
        if name not in read:
            raise BadInput(
                f"query {record.query_id} showed columns of '{name}', which it did not read",
                hint="name it among the datasets",
            )


async def list_queries(
    state: Database, org_id: UUID, caller: str | None, dataset: str | None, limit: int
) -> QueryHistory:
    async with state.statement() as tx:
        rows = await queries.newest(tx, org_id, caller, dataset, limit)
    found = [QueryRecord.model_validate(row, from_attributes=True) for row in rows]
    return QueryHistory(queries=found)


async def list_pii_accesses(
    state: Database, org_id: UUID, caller: str | None, dataset: str | None, limit: int
) -> PiiAccesses:
    """Of the dataset that has the name now, also while it had another; of a name that no dataset
    has any more, what was recorded under it."""
    async with overview.snapshot(state) as tx:
        named = await datasets.find_published(tx, org_id, dataset) if dataset else None
        rows = await queries.accesses(tx, org_id, caller, named.uuid if named else dataset, limit)
    found = [PiiAccess.model_validate(row, from_attributes=True) for row in rows]
    return PiiAccesses(accesses=found)
