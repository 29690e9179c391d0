"""What the scheduler has to do, and what time it is."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from trace_platform.drivers.postgres.database import Database
from trace_platform.state import sources
from trace_platform.wire.sources import Schedule, ScheduleList


async def list_schedules(state: Database, org_id: UUID) -> ScheduleList:
    """The cron sources of active versions."""
    async with state.transaction() as tx:
        rows = await sources.schedules(tx, org_id)
        # After the rows: no tick of theirs is later than this.
        now = await sources.now(tx)
    return ScheduleList(now=now, schedules=[Schedule(**asdict(row)) for row in rows])
