"""④ The stored ABIs of an attempt are settled when it starts: they travel with its payload.

An attempt that started before a change decodes by the old ones to its end. What it commits is then
made anew, because the change has an invalidation of it (tell_changes.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from trace_platform.domain.abi_places import Place
from trace_platform.domain.freshness import hull, range_of
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.decode.abi import version_of
from trace_platform.operators.decode.stored_names import StoredNames, stored_names
from trace_platform.state import abis
from trace_platform.state.abis import Definition, StoredVersion
from trace_platform.state.task_rows import DefinedTask
from trace_platform.wire.abi import AbiPlace, AbiSignatures, TaskAbi


async def abis_of_tasks(tx: Tx, tasks: Sequence[DefinedTask]) -> list[list[TaskAbi]]:
    """Of each task those that its config names. Each is looked up once."""
    known: dict[tuple[UUID, StoredNames], TaskAbi] = {}
    found: list[list[TaskAbi]] = []
    for task in tasks:
        own = stored_names(task.operator, task.config)
        for named in own:
            if (task.org_id, named) not in known:
                known[task.org_id, named] = await whole_abi(tx, task.org_id, named)
        found.append([_near(known[task.org_id, named], task) for named in own])
    return found


async def whole_abi(tx: Tx, org_id: UUID, named: StoredNames) -> TaskAbi:
    """With all places of it."""
    versions = await abis.versions(tx, org_id, named.abi, named.chain_id, with_removed=True)
    said = await abis.definitions(tx, list({each.hash for each in versions}))
    proxies = await abis.proxies(tx, org_id, named.chain_id) if versions else []
    return TaskAbi(
        name=named.abi,
        versions=_signatures(versions, said, named.entries),
        places=[_place(each) for each in abis.places_of(versions, proxies)],
    )


def _near(found: TaskAbi, task: DefinedTask) -> TaskAbi:
    """Places beyond the task's blocks say nothing to it."""
    ranges = [span for given in task.inputs if (span := range_of(given)) is not None]
    if not ranges:
        return found
    blocks = hull(ranges)
    near = [p for p in found.places if p.start <= blocks.end and p.end >= blocks.start]
    return found.model_copy(update={"places": near})


def _signatures(
    versions: Sequence[StoredVersion],
    said: dict[str, Definition],
    entries: Collection[str],
) -> list[AbiSignatures]:
    """In the order in which they came for the first time; of the entries that are decoded."""
    valid = {each.hash for each in versions if each.removed_at is None}
    return [
        AbiSignatures(
            version=version_of(hash),
            events=[text for text in said[hash].events if _name(text) in entries],
            functions=[text for text in said[hash].functions if _name(text) in entries],
            valid=hash in valid,
        )
        for hash in dict.fromkeys(each.hash for each in versions)
    ]


def _name(signature: str) -> str:
    """Of `event Transfer(…)`."""
    return signature.partition("(")[0].rpartition(" ")[2]


def _place(place: Place) -> AbiPlace:
    return AbiPlace(
        version=version_of(place.version),
        address=place.address,
        start=place.blocks.start,
        end=place.blocks.end,
    )
