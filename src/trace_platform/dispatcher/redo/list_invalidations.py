"""What was said to be invalid, and how far it is put right."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from trace_platform.dispatcher.datasets.find_dataset import find_dataset
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import invalidations
from trace_platform.state.invalidations import ListedInvalidation
from trace_platform.wire.invalidation import InvalidationList, InvalidationStatus


async def list_invalidations(
    state: Database, org_id: UUID, named: str | None, limit: int, *, open_only: bool
) -> InvalidationList:
    """The newest first. Raise UnknownDataset when nothing has that name."""
    async with state.transaction() as tx:
        dataset = await find_dataset(tx, org_id, named) if named is not None else None
        rows = await invalidations.listing(
            tx, org_id, dataset.uuid if dataset else None, limit, open_only=open_only
        )
    return InvalidationList(
        invalidations=[InvalidationStatus(**asdict(row), state=_state(row)) for row in rows]
    )


def _state(row: ListedInvalidation) -> str:
    if row.processed_at is not None:
        return "processed"
    return "open" if row.tasks else "waiting"
