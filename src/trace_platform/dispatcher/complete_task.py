"""⑦ An attempt ends: its outputs are committed and its events recorded, or it failed.

All of it is one transaction behind the fence. A report that comes twice (the reply got lost) is
answered like the first one.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from trace_platform.dispatcher.record_events import Generation, event_rows
from trace_platform.dispatcher.verify_output import verify_output
from trace_platform.domain.errors import StaleFence
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import datasets, events, tasks
from trace_platform.wire.manifest import Manifest
from trace_platform.wire.task import CompleteRequest, CompleteResponse, DatasetEvent, OutputCommit

Verified = list[tuple[OutputCommit, Manifest]]
Committed = dict[tuple[Generation, str], UUID]


async def complete_task(
    state: Database, store: ObjectStore, request: CompleteRequest, retry_base_s: float
) -> CompleteResponse:
    """Raise StaleFence, with nothing changed, when another attempt owns the task."""
    try:
        if request.status == "Completed":
            await _complete(state, store, request)
        else:
            await _give_up(state, request, retry_base_s)
    except StaleFence:
        async with state.transaction() as tx:
            if await tasks.ended_outcome(tx, request.fence) != request.status:
                raise
    return CompleteResponse(status=request.status)


async def _complete(state: Database, store: ObjectStore, request: CompleteRequest) -> None:
    async with state.transaction() as tx:
        task = await tasks.hold_fence(tx, request.fence)
    # Reading the manifests takes time, so it happens outside of the transaction that commits:
    # staged files belong to this attempt alone and never change.
    verified: Verified = [
        (output, await asyncio.to_thread(verify_output, store, task, output))
        for output in request.outputs
    ]
    async with state.transaction() as tx:
        task = await tasks.finish(tx, request.fence, "Completed", (None, None))
        committed = await _commit(tx, task, verified)
        given = [*request.events, *_events_of(verified, committed)]
        rows = event_rows(task, given, committed)
        if rows:
            await events.record(tx, task["org_id"], rows, (task["id"], task["attempt"]))


async def _give_up(state: Database, request: CompleteRequest, retry_base_s: float) -> None:
    error = (request.error_code, request.error_message)
    async with state.transaction() as tx:
        if request.status == "Canceled":
            await tasks.finish(tx, request.fence, "Canceled", error)
        else:
            await tasks.fail(
                tx,
                request.fence,
                error,
                retryable=request.retryable,
                interrupted=request.interrupted,
                retry_base_s=retry_base_s,
            )


async def _commit(tx: Tx, task: Row, verified: Verified) -> Committed:
    committed: Committed = {}
    # One order for everybody: two commits never wait for each other in a circle.
    for output, manifest in sorted(verified, key=lambda v: v[0].dataset_version):
        partition_id = await datasets.commit_partition(
            tx, output, manifest, task["id"], task["attempt"]
        )
        if partition_id is not None:
            generation = (output.dataset_uuid, output.dataset_version)
            committed[generation, manifest.partition_key] = partition_id
    return committed


def _events_of(verified: Verified, committed: Committed) -> list[DatasetEvent]:
    """One event per committed output, so that none can be forgotten."""
    return [
        DatasetEvent(
            dataset_uuid=output.dataset_uuid,
            dataset_version=output.dataset_version,
            partition_key=manifest.partition_key,
            start=manifest.start,
            end=manifest.end,
        )
        for output, manifest in verified
        if ((output.dataset_uuid, output.dataset_version), manifest.partition_key) in committed
    ]
