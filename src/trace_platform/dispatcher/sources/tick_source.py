"""A cron source emits: one event per tick on each of its outputs, in one transaction.

The cursor of a tick is its time in seconds since 1970. A tick that comes twice is one event.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from trace_platform.dispatcher.sources.refuse_held import refuse_held
from trace_platform.dispatcher.versions.find_job import find_job
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import datasets, events, locks, sources
from trace_platform.state.dags import ActiveJob
from trace_platform.state.events import NewEvent
from trace_platform.wire.sources import TickRequest


async def tick_source(state: Database, org_id: UUID, request: TickRequest) -> int:
    """How many events are new. Raise JobOnHold while the source is paused: then the ticks are
    missed ones when it goes on."""
    name = (org_id, request.dag_name, request.job_name)
    async with state.transaction() as tx:
        await locks.share_routing(tx)
        job = await find_job(tx, *name)
        if (job.source or {}).get("kind") != "cron":
            raise BadInput(f"{request.dag_name}.{request.job_name} is no cron source")
        await refuse_held(tx, *name)
        known = await sources.hold_ticks(tx, *name)
        if known is None:
            raise NotFound(
                f"the schedule of {request.dag_name}.{request.job_name} has not begun",
                hint="try again in a second",
            )
        until = _until(request, known.now)
        # What was done with before the schedule changed, or by another scheduler, is not due.
        ticks = sorted({tick for tick in request.ticks if tick > known.last_tick})
        accepted = await _record(tx, org_id, job, ticks)
        if until is not None:
            await sources.move_ticks(tx, *name, until)
        return accepted


def _until(request: TickRequest, now: datetime) -> datetime | None:
    given = [*request.ticks, *([request.done_until] if request.done_until else [])]
    latest = max(given, default=None)
    if latest is not None and latest > now:
        raise BadInput(
            f"a tick at {latest.isoformat()} is in the future",
            hint="only the database's time decides: GET /internal/schedules has it",
        )
    return latest


async def _record(tx: Tx, org_id: UUID, job: ActiveJob, ticks: list[datetime]) -> int:
    if not ticks:
        return 0
    outputs = await datasets.outputs_of_job(tx, org_id, job.dag_name, job.name)
    given = [
        NewEvent(
            org_id=org_id,
            dataset_uuid=output.dataset_uuid,
            dataset_version=output.dataset_version,
            cursor=int(tick.timestamp()),
        )
        for tick in ticks
        for output in outputs
        if output.output_index < len(job.outputs)
    ]
    return await events.record(tx, given)
