"""Which queries there were, and who saw columns about persons. Never the text of a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def record(tx: Tx, org_id: UUID, queries: Sequence[dict[str, Any]]) -> int:
    """How many are new: one that is on record changes nothing."""
    new: int = await _sql.record(tx, org_id=org_id, queries=Jsonb(list(queries)))
    return new


async def newest(
    tx: Tx, org_id: UUID, caller: str | None, dataset: str | None, limit: int
) -> list[Row]:
    """The newest first: of everybody or of one, of all datasets or of one by its name."""
    asked = {"org_id": org_id, "limit": limit}
    if dataset is not None:
        rows = await _sql.newest_of_dataset(tx, **asked, caller=caller, dataset=dataset)
    elif caller is not None:
        rows = await _sql.newest_of_caller(tx, **asked, caller=caller)
    else:
        rows = await _sql.newest(tx, **asked)
    found: list[Row] = rows
    return found


async def accesses(
    tx: Tx, org_id: UUID, caller: str | None, dataset: UUID | str | None, limit: int
) -> list[Row]:
    """Who saw columns about persons, the newest first. A dataset by its uuid, or by the name that
    is on record."""
    asked = {"org_id": org_id, "limit": limit}
    if isinstance(dataset, UUID):
        rows = await _sql.accesses_of_dataset(tx, **asked, caller=caller, dataset_uuid=dataset)
    elif dataset is not None:
        rows = await _sql.accesses_of_name(tx, **asked, caller=caller, dataset=dataset)
    elif caller is not None:
        rows = await _sql.accesses_of_caller(tx, **asked, caller=caller)
    else:
        rows = await _sql.accesses(tx, **asked)
    found: list[Row] = rows
    return found
