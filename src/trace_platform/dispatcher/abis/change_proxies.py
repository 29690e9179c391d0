"""A contract is decoded by another one's ABIs, from a block to a block: said, and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_platform.dispatcher.abis.list_abis import shown_proxy
from trace_platform.dispatcher.abis.tell_changes import Before, places_now, record_changes
from trace_platform.domain.abi_places import StandsIn
from trace_platform.domain.errors import BadInput, Conflict, NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import abis, locks
from trace_platform.state.abis import StoredProxy
from trace_platform.wire.abi import AbiChanged, AddProxy, ProxyRemoved, RemoveProxy

# Of one chain: all of them travel with tasks.
MAX_PROXIES = 1_000


async def add_proxy(state: Database, org_id: UUID, given: AddProxy) -> AbiChanged:
    """What was decoded otherwise in these blocks is decoded again. Raise Conflict when the contract
    has another implementation from the same block."""
    proxy = _checked(given)
    async with state.transaction() as tx:
        await locks.routing(tx)
        there = await abis.proxies(tx, org_id, given.chain_id)
        same = _at(there, given.address, given.from_block)
        if same is not None and _is_same(same, proxy):
            return AbiChanged(name=None, version=None, new=False, redo=[])
        if same is not None and not given.replace:
            raise Conflict(
                f"{given.address} has the implementation {same.implementation} from block"
                f" {given.from_block:,} already",
                hint="give --from-block where it was upgraded; or --replace, if that was wrong",
            )
        if len(there) >= MAX_PROXIES:
            raise BadInput(f"chain {given.chain_id} has {MAX_PROXIES:,} implementations already")
        before = await _before(tx, org_id, given.chain_id)
        if same is not None:
            await abis.remove_proxies(tx, [same.id])
        await abis.add_proxy(tx, org_id, given.chain_id, proxy)
        reason = f"{given.address} has the implementation {given.implementation}"
        redo = await record_changes(tx, org_id, before, reason)
    return AbiChanged(name=None, version=None, new=True, redo=redo)


async def remove_proxy(state: Database, org_id: UUID, given: RemoveProxy) -> ProxyRemoved:
    """What was decoded because of it is decoded again, without it."""
    async with state.transaction() as tx:
        await locks.routing(tx)
        there = await abis.proxies(tx, org_id, given.chain_id)
        found = _at(there, given.address, given.from_block)
        if found is None:
            raise NotFound(
                f"{given.address} has no implementation from block {given.from_block:,} on chain"
                f" {given.chain_id}",
                hint="trace abi list shows which there are",
            )
        before = await _before(tx, org_id, given.chain_id)
        await abis.remove_proxies(tx, [found.id])
        reason = f"{given.address} has no more the implementation {found.implementation}"
        redo = await record_changes(tx, org_id, before, reason)
    return ProxyRemoved(removed=shown_proxy(found), redo=redo)


def _checked(given: AddProxy) -> StandsIn:
    if given.address == given.implementation:
        raise BadInput("a contract is no implementation of itself")
    if given.to_block is not None and given.to_block < given.from_block:
        raise BadInput(
            f"the last block, {given.to_block:,}, is before the first one, {given.from_block:,}"
        )
    return StandsIn(given.address, given.implementation, given.from_block, given.to_block)


def _at(there: Sequence[StoredProxy], address: str, from_block: int) -> StoredProxy | None:
    place = (address, from_block)
    return next((each for each in there if (each.address, each.from_block) == place), None)


def _is_same(stored: StoredProxy, proxy: StandsIn) -> bool:
    return (stored.implementation, stored.to_block) == (proxy.implementation, proxy.to_block)


async def _before(tx: Tx, org_id: UUID, chain_id: int) -> Before:
    """Of all ABIs of the chain: each of them may be what either contract is decoded by."""
    names = sorted({each.name for each in await abis.versions(tx, org_id, None, chain_id)})
    return await places_now(tx, org_id, names, chain_id)
