"""The newest events, of all datasets or of one."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.datasets.find_dataset import find_dataset
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import events
from trace_platform.wire.control import EventList, EventRecord


async def list_events(state: Database, org_id: UUID, named: str | None, limit: int) -> EventList:
    """Raise UnknownDataset when nothing has that name."""
    async with state.transaction() as tx:
        dataset = await find_dataset(tx, org_id, named) if named is not None else None
        rows = await events.listing(tx, org_id, dataset.uuid if dataset else None, limit)
    return EventList(events=[EventRecord.model_validate(row, from_attributes=True) for row in rows])
