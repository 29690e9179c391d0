"""① A source, or a person in its place, emits events of a dataset."""

from __future__ import annotations

import difflib
from uuid import UUID

from trace_platform.dispatcher.refuse_held import refuse_held
from trace_platform.domain.errors import UnknownDataset
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import datasets, events, generations
from trace_platform.wire.control import EmitRequest

# Names that an error shows, and those that are looked through for one that is alike.
_SHOWN, _MOST_NAMES = 20, 10_000


async def emit_events(state: Database, org_id: UUID, request: EmitRequest) -> int:
    """How many are new. An older generation's are recorded and routed nowhere."""
    async with state.transaction() as tx:
        # What is current stays so until this is on record.
        await generations.share_routing(tx)
        dataset = await find_dataset(tx, org_id, request.dataset)
        await refuse_held(tx, org_id, dataset["dag_name"], dataset["job_name"])
        version = request.dataset_version or dataset["current_version"]
        if not await events.known_generation(tx, org_id, dataset["uuid"], version):
            raise UnknownDataset(
                f"'{request.dataset}' has no generation {version}",
                hint=f"its current one is {dataset['current_version']}",
            )
        identity = {
            "org_id": str(org_id),
            "dataset_uuid": str(dataset["uuid"]),
            "dataset_version": str(version),
        }
        return await events.record(
            tx, [identity | event.model_dump(mode="json") for event in request.events]
        )


async def find_dataset(tx: Tx, org_id: UUID, named: str) -> Row:
    """By published name, by uuid, or as DAG.JOB and DAG.JOB.OUTPUT."""
    found = await datasets.find(tx, org_id, named)
    if found is None:
        known = await datasets.names(tx, org_id, _MOST_NAMES)
        near = difflib.get_close_matches(named, known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        shown = ", ".join(known[:_SHOWN]) or "none yet"
        raise UnknownDataset(
            f"there is no dataset '{named}'",
            hint=f"{meant}published: {shown}; or name an output as DAG.JOB or DAG.JOB.OUTPUT",
        )
    return found
