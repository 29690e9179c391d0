"""A change of ABIs becomes invalidations of what was decoded before it, and of nothing else.

Changes are on record with the blocks that they touch, and so is which generation was told of which:
one that is active now, one that is being built, and one that is rolled back to years later each
decode again exactly what they decoded before the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from trace_platform.domain.abi_places import Place, changed
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import abis, invalidations
from trace_platform.state.abis import AbiChange, AbiUser, FirstOutput
from trace_platform.state.invalidations import NewInvalidation
from trace_platform.wire.abi import AbiRedo

# Blocks that a change of an ABI touches, by name and chain: what was valid where, before it.
Before = dict[tuple[str, int], list[Place]]


async def places_now(tx: Tx, org_id: UUID, names: Sequence[str], chain_id: int) -> Before:
    """Take it before a change and give it to `record_changes` after it."""
    proxies = await abis.proxies(tx, org_id, chain_id)
    found: Before = {}
    for name in names:
        versions = await abis.versions(tx, org_id, name, chain_id)
        found[name, chain_id] = abis.places_of(versions, proxies)
    return found


async def record_changes(tx: Tx, org_id: UUID, before: Before, reason: str) -> list[AbiRedo]:
    """What is decoded again. The caller holds the lock of routing: nothing that was made of the old
    ABIs escapes."""
    for (name, chain_id), places in before.items():
        after = await places_now(tx, org_id, [name], chain_id)
        touched = changed(places, after[name, chain_id])
        await abis.record_changes(tx, org_id, name, chain_id, touched, reason)
    return await tell_changes(tx, org_id)


async def tell_changes(tx: Tx, org_id: UUID) -> list[AbiRedo]:
    """Whoever decodes by an ABI and does not know of a change of it has its blocks made anew. The
    caller holds the lock of routing."""
    redo: list[AbiRedo] = []
    for user in await abis.users(tx, org_id):
        untold = await abis.untold(tx, org_id, user) if user.active else []
        if untold:
            last = await abis.reads_up_to(tx, user.generation_id)
            output = await abis.first_output(tx, user.generation_id)
            redo += [
                each for one in untold for each in await _tell(tx, org_id, user, one, output, last)
            ]
    return redo


async def _tell(
    tx: Tx, org_id: UUID, user: AbiUser, change: AbiChange, output: FirstOutput, last: int | None
) -> list[AbiRedo]:
    if last is None or change.start > last:
        await abis.tell(tx, user.generation_id, change.id, None)
        return []
    blocks = BlockRange(change.start, min(change.end, last))
    new = _invalidation(org_id, output, blocks, change.reason)
    await invalidations.record(tx, [new])
    await abis.tell(tx, user.generation_id, change.id, new.id)
    return [
        AbiRedo(
            job=user.job,
            dataset=output.dataset,
            start=blocks.start,
            end=blocks.end,
            invalidation_id=new.id,
        )
    ]


def _invalidation(
    org_id: UUID, output: FirstOutput, blocks: BlockRange, reason: str
) -> NewInvalidation:
    return NewInvalidation(
        id=uuid4(),
        org_id=org_id,
        dataset_uuid=output.dataset_uuid,
        dataset_version=output.dataset_version,
        scope="row_range",
        partition_key=blocks.key,
        start=blocks.start,
        end=blocks.end,
        # The job decodes these blocks again, and all of its outputs with them.
        remade=False,
        reason=reason,
    )
