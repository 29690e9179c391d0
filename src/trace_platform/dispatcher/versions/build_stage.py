"""What is built of a version is given what its inputs hold, in turns.

Whoever is woken by what is built comes by itself. Whoever only reads it would read what is half
there, and nothing would wake it again: its turn is when that is built.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from graphlib import TopologicalSorter
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import deploys, generations
from trace_platform.state.deploys import Deploy
from trace_platform.state.generations import EdgeWithin, Unfinished


async def build_stage(tx: Tx, deploy: Deploy, waiting: Sequence[UUID]) -> list[UUID]:
    """Begin with the next of those that wait; who waits on. The caller holds the lock of routing,
    and has seen that nothing is left to do of those before."""
    turns = _turns(deploy.building, await generations.edges_within(tx, deploy.building))
    now = min((turns[each] for each in waiting), default=0)
    later = [each for each in waiting if turns[each] > now]
    if later != deploy.waiting:
        await deploys.set_waiting(tx, deploy.id, later)
        await generations.subscribe(tx, deploy.org_id)
    ready = [each for each in waiting if turns[each] == now]
    # Of generations that an earlier version had, and this one has again.
    await generations.revive_tasks(tx, ready)
    await generations.owe_missing(tx, ready, deploy.id)
    await generations.redo_outlived(tx, ready)
    return later


async def unfinished(tx: Tx, deploy: Deploy) -> Unfinished:
    """What is left to do of those whose turn has come."""
    begun = [each for each in deploy.building if each not in deploy.waiting]
    return await generations.unfinished(tx, begun)


def _turns(generation_ids: Sequence[UUID], edges: Sequence[EdgeWithin]) -> dict[UUID, int]:
    """By generation. One that is woken by a single other finds what that one committed with it."""
    woken: dict[UUID, set[UUID | None]] = defaultdict(set)
    above: dict[UUID, set[UUID]] = {each: set() for each in generation_ids}
    read: dict[UUID, set[UUID]] = defaultdict(set)
    for edge in edges:
        reader, made_of = edge.generation_id, edge.above
        if edge.trigger:
            woken[reader].add(made_of)
        elif made_of is not None:
            read[reader].add(made_of)
        if made_of is not None:
            above[reader].add(made_of)
    turns: dict[UUID, int] = {}
    for each in TopologicalSorter(above).static_order():
        waits = read[each] if len(woken[each]) > 1 else read[each] - woken[each]
        turns[each] = max((turns[other] + (other in waits) for other in above[each]), default=0)
    return turns
