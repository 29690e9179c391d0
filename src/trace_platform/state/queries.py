"""Which queries there were, and who saw columns about persons. Never the text of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class RecordedQuery:
    query_id: UUID
    started_at: datetime
    org_id: UUID
    caller: str
    kind: str
    sql_sha256: str
    format: str
    datasets: list[Any]
    pii: Any
    row_count: int
    bytes: int
    elapsed_ms: float
    error: str | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class RecordedAccess:
    """Somebody saw columns about persons."""

    query_id: UUID
    accessed_at: datetime
    org_id: UUID
    caller: str
    kind: str
    dataset: str
    dataset_uuid: UUID
    dataset_version: UUID
    columns: list[str]
    recorded_at: datetime


async def record(tx: Tx, org_id: UUID, queries: Sequence[dict[str, Any]]) -> int:
    """How many are new: one that is on record changes nothing."""
    new: int = await _sql.record(tx, org_id=org_id, queries=Jsonb(list(queries)))
    return new


async def newest(
    tx: Tx, org_id: UUID, caller: str | None, dataset: str | None, limit: int
) -> list[RecordedQuery]:
    """The newest first: of everybody or of one, of all datasets or of one by its name."""
    asked = {"org_id": org_id, "limit": limit}
    if dataset is not None:
        return await _sql.rows(
            tx, "newest_of_dataset", RecordedQuery, **asked, caller=caller, dataset=dataset
        )
    if caller is not None:
        return await _sql.rows(tx, "newest_of_caller", RecordedQuery, **asked, caller=caller)
    return await _sql.rows(tx, "newest", RecordedQuery, **asked)


async def accesses(
    tx: Tx, org_id: UUID, caller: str | None, dataset: UUID | str | None, limit: int
) -> list[RecordedAccess]:
    """Who saw columns about persons, the newest first. A dataset by its uuid, or by the name that
    is on record."""
    asked = {"org_id": org_id, "limit": limit}
    if isinstance(dataset, UUID):
        return await _sql.rows(
            tx, "accesses_of_dataset", RecordedAccess, **asked, caller=caller, dataset_uuid=dataset
        )
    if dataset is not None:
        return await _sql.rows(
            tx, "accesses_of_name", RecordedAccess, **asked, caller=caller, dataset=dataset
        )
    if caller is not None:
        return await _sql.rows(tx, "accesses_of_caller", RecordedAccess, **asked, caller=caller)
    return await _sql.rows(tx, "accesses", RecordedAccess, **asked)
