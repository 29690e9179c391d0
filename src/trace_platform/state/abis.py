"""ABIs that users gave, where they are valid, and which blocks a change of them touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from trace_platform.domain.abi_places import Place, StandsIn, Valid, places
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of an ABI, of a contract from a block on."""

    id: UUID
    name: str
    chain_id: int
    address: str | None
    from_block: int
    hash: str
    added_at: datetime
    removed_at: datetime | None
    events: int
    functions: int


@dataclass(frozen=True, slots=True)
class Definition:
    """What a version says, as signatures."""

    hash: str
    events: list[str]
    functions: list[str]


@dataclass(frozen=True, slots=True)
class StoredProxy:
    id: UUID
    chain_id: int
    address: str
    implementation: str
    from_block: int
    to_block: int | None
    added_at: datetime


@dataclass(frozen=True, slots=True)
class AbiUser:
    """A job that decodes by a stored ABI, as DAG.JOB: of a version that is active, or being
    built."""

    job: str
    generation_id: UUID
    abi: str
    chain_id: int
    active: bool


@dataclass(frozen=True, slots=True)
class AbiChange:
    """Blocks that an ABI decodes otherwise than before."""

    id: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class FirstOutput:
    """Of a generation: the version of its job's first dataset, and what that is called."""

    dataset_uuid: UUID
    dataset_version: UUID
    dataset: str


async def keep_definition(tx: Tx, definition: Definition) -> None:
    await _sql.keep_definition(
        tx, hash=definition.hash, events=definition.events, functions=definition.functions
    )


async def add_version(
    tx: Tx, org_id: UUID, name: str, chain_id: int, address: str | None, from_block: int, hash: str
) -> None:
    await _sql.add_version(
        tx,
        org_id=org_id,
        name=name,
        chain_id=chain_id,
        address=address,
        from_block=from_block,
        hash=hash,
    )


async def remove_versions(tx: Tx, ids: Sequence[UUID]) -> None:
    await _sql.remove_versions(tx, ids=list(ids))


async def versions(
    tx: Tx,
    org_id: UUID,
    name: str | None = None,
    chain_id: int | None = None,
    *,
    with_removed: bool = False,
) -> list[StoredVersion]:
    """In the order in which they were added."""
    return await _sql.rows(
        tx,
        "versions",
        StoredVersion,
        org_id=org_id,
        name=name,
        chain_id=chain_id,
        with_removed=with_removed,
    )


async def definitions(tx: Tx, hashes: Sequence[str]) -> dict[str, Definition]:
    found = await _sql.rows(tx, "definitions", Definition, hashes=list(hashes))
    return {each.hash: each for each in found}


async def add_proxy(tx: Tx, org_id: UUID, chain_id: int, proxy: StandsIn) -> None:
    await _sql.add_proxy(
        tx,
        org_id=org_id,
        chain_id=chain_id,
        address=proxy.address,
        implementation=proxy.implementation,
        from_block=proxy.from_block,
        to_block=proxy.to_block,
    )


async def remove_proxies(tx: Tx, ids: Sequence[UUID]) -> None:
    await _sql.remove_proxies(tx, ids=list(ids))


async def proxies(tx: Tx, org_id: UUID, chain_id: int | None = None) -> list[StoredProxy]:
    return await _sql.rows(tx, "proxies", StoredProxy, org_id=org_id, chain_id=chain_id)


async def record_changes(
    tx: Tx, org_id: UUID, name: str, chain_id: int, changed: Sequence[BlockRange], reason: str
) -> None:
    if changed:
        await _sql.record_changes(
            tx,
            org_id=org_id,
            name=name,
            chain_id=chain_id,
            firsts=[blocks.start for blocks in changed],
            lasts=[blocks.end for blocks in changed],
            reason=reason,
        )


async def users(tx: Tx, org_id: UUID) -> list[AbiUser]:
    return await _sql.rows(tx, "users", AbiUser, org_id=org_id)


async def untold(tx: Tx, org_id: UUID, user: AbiUser) -> list[AbiChange]:
    """Changes since the job's generation began, that it was not told of."""
    return await _sql.rows(
        tx,
        "untold",
        AbiChange,
        org_id=org_id,
        abi=user.abi,
        chain_id=user.chain_id,
        generation_id=user.generation_id,
    )


async def reads_up_to(tx: Tx, generation_id: UUID) -> int | None:
    """The last block of all that it was ever given; None: of nothing yet."""
    found: int | None = await _sql.reads_up_to(tx, generation_id=generation_id)
    return found


async def first_output(tx: Tx, generation_id: UUID) -> FirstOutput:
    found = await _sql.row(tx, "first_output", FirstOutput, generation_id=generation_id)
    assert found is not None, "a job that decodes has outputs"
    return found


async def tell(tx: Tx, generation_id: UUID, change_id: int, invalidation_id: UUID | None) -> None:
    await _sql.tell(
        tx, generation_id=generation_id, change_id=change_id, invalidation_id=invalidation_id
    )


async def untell_moved(tx: Tx) -> None:
    """Generations whose invalidations went to another one do not know of those changes."""
    await _sql.untell_moved(tx)


def places_of(versions: Sequence[StoredVersion], proxies: Sequence[StoredProxy]) -> list[Place]:
    """Of one ABI on one chain: those that are valid."""
    valid = [Valid(v.hash, v.address, v.from_block) for v in versions if v.removed_at is None]
    stands_in = [StandsIn(p.address, p.implementation, p.from_block, p.to_block) for p in proxies]
    return places(valid, stands_in)
