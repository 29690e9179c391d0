"""A batch in an attempt's scratch space is handed to the sink of a buffered dataset."""

from __future__ import annotations

from trace_platform.dispatcher.events.record_events import pinned_generations, refuse_superseded
from trace_platform.domain.errors import Forbidden
from trace_platform.domain.prefix import parse_uri, scratch_prefix
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import buffers, tasks
from trace_platform.wire.task import BufferPublishRequest


async def publish_buffer(
    state: Database, scratch_bucket: str, request: BufferPublishRequest
) -> bool:
    """Whether the batch is new. Raise StaleFence when the attempt lost its task."""
    _check_place(scratch_bucket, request)
    async with state.transaction() as tx:
        task = await tasks.hold_fence(tx, request.fence)
        refuse_superseded(task, request.fence)
        generation = (request.dataset_uuid, request.dataset_version)
        if generation not in pinned_generations(task):
            raise Forbidden(f"dataset {request.dataset_uuid} is not an output of this attempt")
        return await buffers.publish(
            tx,
            # Whose rows they are is said by the task, never by the batch.
            org_id=task.org_id,
            task_id=request.task_id,
            attempt=request.attempt,
            dataset_uuid=request.dataset_uuid,
            dataset_version=request.dataset_version,
            batch_uri=request.batch_uri,
            record_count=request.record_count,
        )


def _check_place(scratch_bucket: str, request: BufferPublishRequest) -> None:
    own = scratch_prefix(scratch_bucket, request.dataset_uuid, request.task_id, request.attempt)
    parse_uri(request.batch_uri)
    if not request.batch_uri.startswith(own) or request.batch_uri == own:
        raise Forbidden(f"the batch does not lie below {own}")
