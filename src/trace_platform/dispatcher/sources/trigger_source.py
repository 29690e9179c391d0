"""A manual source emits a range."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.sources.refuse_held import refuse_held
from trace_platform.dispatcher.versions.find_job import find_job
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import BadInput
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import datasets, events, locks
from trace_platform.state.events import NewEvent
from trace_platform.wire.control import TriggerRequest


async def trigger_source(
    state: Database, org_id: UUID, dag_name: str, job_name: str, request: TriggerRequest
) -> int:
    """How many events are new: the same range twice is one event."""
    span = BlockRange(request.start, request.end)
    async with state.transaction() as tx:
        # What is current stays so until this is on record.
        await locks.share_routing(tx)
        job = await find_job(tx, org_id, dag_name, job_name)
        if job.activation != "source":
            raise BadInput(f"job '{job_name}' is not a source", hint="trigger a source job")
        kind = (job.source or {}).get("kind")
        if kind != "manual":
            raise BadInput(
                f"job '{job_name}' is a source of kind {kind}: it emits by itself",
                hint=f"emit an event in its place: trace events emit {dag_name}.{job_name}",
            )
        await refuse_held(tx, org_id, dag_name, job_name)
        outputs = await datasets.outputs_of_job(tx, org_id, dag_name, job_name)
        if request.output >= len(outputs):
            raise BadInput(f"job '{job_name}' has {len(outputs)} outputs, not {request.output + 1}")
        event = NewEvent(
            org_id=org_id,
            dataset_uuid=outputs[request.output].dataset_uuid,
            dataset_version=outputs[request.output].dataset_version,
            partition_key=span.key,
            start=span.start,
            end=span.end,
        )
        return await events.record(tx, [event])
