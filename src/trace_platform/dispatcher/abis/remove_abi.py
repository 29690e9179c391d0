"""A version of an ABI is removed where it is valid, or somewhere of it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_platform.dispatcher.abis.list_abis import by_abi, shown_versions, unknown_abi
from trace_platform.dispatcher.abis.tell_changes import Before, places_now, record_changes
from trace_platform.domain.errors import AbiInUse, BadInput, NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.decode.abi import version_of
from trace_platform.state import abis, locks
from trace_platform.state.abis import StoredVersion
from trace_platform.wire.abi import AbiRemoved, RemoveAbi


async def remove_abi(state: Database, org_id: UUID, name: str, given: RemoveAbi) -> AbiRemoved:
    """Raise AbiInUse while a job decodes by it, unless it is forced: then what was decoded by it
    is decoded again, without it."""
    async with state.transaction() as tx:
        await locks.routing(tx)
        chosen = await _chosen(tx, org_id, name, given)
        users = by_abi(await abis.users(tx, org_id))
        shown = shown_versions(chosen, users)
        jobs = sorted({job for each in shown for job in each.used_by})
        if jobs and not given.force:
            raise AbiInUse(
                f"ABI {name} {shown[0].version} is what {', '.join(jobs)} decodes by",
                hint="add another version from a later block, or with --replace from the same one;"
                " or say --force: what it decoded is decoded again without it",
            )
        before: Before = {}
        for chain_id in {each.chain_id for each in chosen}:
            before |= await places_now(tx, org_id, [name], chain_id)
        await abis.remove_versions(tx, [each.id for each in chosen])
        reason = f"ABI {name} {shown[0].version} was removed"
        redo = await record_changes(tx, org_id, before, reason)
    return AbiRemoved(removed=shown, redo=redo)


async def _chosen(tx: Tx, org_id: UUID, name: str, given: RemoveAbi) -> Sequence[StoredVersion]:
    versions = await abis.versions(tx, org_id, name)
    if not versions:
        raise unknown_abi(name, sorted({each.name for each in await abis.versions(tx, org_id)}))
    found = [
        each
        for each in versions
        if each.hash.startswith(given.version)
        and given.chain_id in (None, each.chain_id)
        and given.address in (None, each.address)
    ]
    there = ", ".join(dict.fromkeys(version_of(each.hash) for each in versions))
    if not found:
        raise NotFound(
            f"ABI {name} has no version {given.version} there", hint=f"there are {there}"
        )
    if len({each.hash for each in found}) > 1:
        raise BadInput(
            f"several versions of ABI {name} begin with {given.version}",
            hint=f"give more of one: {there}",
        )
    return found
