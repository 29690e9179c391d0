"""① A source, or a person in its place, emits events of a dataset."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.datasets.find_dataset import find_dataset
from trace_platform.dispatcher.sources.refuse_held import refuse_held
from trace_platform.domain.errors import UnknownDataset
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import events, locks
from trace_platform.state.events import NewEvent
from trace_platform.wire.control import EmitRequest


async def emit_events(state: Database, org_id: UUID, request: EmitRequest) -> int:
    """How many are new. An older generation's are recorded and routed nowhere."""
    async with state.transaction() as tx:
        # What is current stays so until this is on record.
        await locks.share_routing(tx)
        dataset = await find_dataset(tx, org_id, request.dataset)
        await refuse_held(tx, org_id, dataset.dag_name, dataset.job_name)
        version = request.dataset_version or dataset.current_version
        if not await events.known_generation(tx, org_id, dataset.uuid, version):
            raise UnknownDataset(
                f"'{request.dataset}' has no generation {version}",
                hint=f"its current one is {dataset.current_version}",
            )
        given = [
            NewEvent(
                org_id=org_id,
                dataset_uuid=dataset.uuid,
                dataset_version=version,
                cursor=event.cursor,
                partition_key=event.partition_key,
                start=event.start,
                end=event.end,
            )
            for event in request.events
        ]
        return await events.record(tx, given)
