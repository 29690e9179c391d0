"""A user gives an ABI, or another version of one."""

from __future__ import annotations

import asyncio
from uuid import UUID

from trace_platform.dispatcher.abis.tell_changes import places_now, record_changes
from trace_platform.domain.errors import BadInput, Conflict
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.decode import builtin
from trace_platform.operators.decode.abi import Abi, version_of, written
from trace_platform.operators.decode.abi_source import read_abi
from trace_platform.state import abis, locks
from trace_platform.state.abis import Definition, StoredVersion
from trace_platform.wire.abi import AbiChanged, AddAbi

# Of one ABI on one chain. They travel with tasks; more contracts than that come from a dataset.
MAX_PLACES = 1_000


async def add_abi(state: Database, org_id: UUID, given: AddAbi) -> AbiChanged:
    """What was decoded by another version, in blocks and of contracts where this one is valid now,
    is decoded again. Raise InvalidAbi for what cannot be read, Conflict where another one is."""
    _refuse_builtin(given.name)
    # In a thread: a large file takes a while, and heartbeats must not wait for it.
    abi = await asyncio.to_thread(read_abi, given.text)
    async with state.transaction() as tx:
        # Nothing is routed meanwhile: whatever was made of the old ABIs is found.
        await locks.routing(tx)
        there = await abis.versions(tx, org_id, given.name, given.chain_id)
        same = _at_its_place(there, given)
        if same is not None and same.hash == abi.digest:
            return _answer(given, abi, new=False)
        if same is not None and not given.replace:
            raise _taken(same, given)
        _refuse_many(there, given)
        before = await places_now(tx, org_id, [given.name], given.chain_id)
        if same is not None:
            await abis.remove_versions(tx, [same.id])
        await _add(tx, org_id, given, abi)
        reason = f"ABI {given.name} {abi.version} was added from block {given.from_block:,}"
        redo = await record_changes(tx, org_id, before, reason)
    return _answer(given, abi, new=True).model_copy(update={"redo": redo})


async def _add(tx: Tx, org_id: UUID, given: AddAbi, abi: Abi) -> None:
    await abis.keep_definition(
        tx,
        Definition(abi.digest, list(map(written, abi.events)), list(map(written, abi.functions))),
    )
    await abis.add_version(
        tx, org_id, given.name, given.chain_id, given.address, given.from_block, abi.digest
    )


def _refuse_builtin(name: str) -> None:
    if name in builtin.NAMES:
        raise BadInput(
            f"{name} is the name of an ABI that comes with Trace",
            hint=f"take another name, such as my_{name}",
        )


def _at_its_place(there: list[StoredVersion], given: AddAbi) -> StoredVersion | None:
    place = (given.address, given.from_block)
    return next((each for each in there if (each.address, each.from_block) == place), None)


def _taken(same: StoredVersion, given: AddAbi) -> Conflict:
    of = given.address or "any contract"
    return Conflict(
        f"ABI {given.name} of {of} on chain {given.chain_id} has version {version_of(same.hash)}"
        f" from block {given.from_block:,} already",
        hint="give --from-block where the contract changed; or --replace, if that one was wrong",
    )


def _refuse_many(there: list[StoredVersion], given: AddAbi) -> None:
    if len(there) >= MAX_PLACES:
        raise BadInput(
            f"ABI {given.name} has {MAX_PLACES:,} versions and contracts on chain {given.chain_id}",
            hint="add it without --address, and give the job `addresses` from a dataset",
        )


def _answer(given: AddAbi, abi: Abi, *, new: bool) -> AbiChanged:
    return AbiChanged(name=given.name, version=abi.version, new=new, redo=[])
