"""④ What an attempt reads is settled when it starts: versions, ranges, and how far they are.

That is a fact from then on: what the attempt commits is measured by it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from trace_platform.dispatcher.freshness.fit_keys import fit_keys
from trace_platform.dispatcher.freshness.fit_lists import read_lists, spread_lists
from trace_platform.dispatcher.freshness.fit_ranges import fit_ranges
from trace_platform.dispatcher.freshness.fit_transforms import fit_transforms, read_around
from trace_platform.domain.freshness import REDONE, Given, Read, StoredRead
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import appends, reads
from trace_platform.state.task_rows import ClaimedTask

# By generation and input: what wakes it now.
Wakes = Mapping[UUID, Mapping[int, Given]]


async def pin_inputs(tx: Tx, claimed: Sequence[ClaimedTask]) -> list[ClaimedTask]:
    """Tasks that were just claimed, in the same transaction, as their attempts read them."""
    if not claimed:
        return []
    wakes = await reads.wakes(tx, list({task.generation_id for task in claimed}))
    pinned = [_follow_versions(task, wakes[task.generation_id]) for task in claimed]
    pinned = await _name_ticks(tx, pinned)
    pinned = await fit_transforms(tx, pinned, wakes)
    pinned = await spread_lists(tx, pinned, wakes)
    pinned = await fit_ranges(tx, pinned, wakes)
    pinned = await fit_keys(tx, pinned, wakes)
    pinned = read_around(await reads.add(tx, pinned), wakes)
    pinned = read_lists(pinned, wakes)
    pinned = await _add_positions(tx, pinned)
    pinned = await _add_knows(tx, pinned, wakes)
    changed = [task for task, was in zip(pinned, claimed, strict=True) if task != was]
    if changed:
        await reads.store(tx, changed)
    return await appends.pin(tx, pinned)


def _follow_versions(task: ClaimedTask, now: Mapping[int, Given]) -> ClaimedTask:
    """A dataset of another DAG may have been rebuilt, or rolled back, since a task was made: what
    is current is read, or its results would be those of a version that gave way."""
    read: dict[Any, Given] = {}
    for given in task.inputs:
        if not given.get("trigger", True):
            continue
        index = given["input_index"]
        about = (given.get("partition_key"), given.get("cursor"), given.get("invalidation"))
        read[index, *about] = _as_one(
            read.get((index, *about)), _in_version(given, now.get(index, {}))
        )
    return replace(task, inputs=list(read.values()))


def _as_one(known: Given | None, given: Given) -> Given:
    """A partition that changed twice is read once, for the newer of both changes; whichever of them
    was routed first."""
    if known is None:
        return given
    one = known | given
    if "changed_at" in known and "changed_at" in given:
        one["changed_at"] = max(known["changed_at"], given["changed_at"])
    else:
        one.pop("changed_at", None)
    return one


def _in_version(given: Given, version: Given) -> Given:
    """Positions of one version say nothing about another."""
    if version.get("dataset_version", given["dataset_version"]) == given["dataset_version"]:
        return given
    kept = {name: said for name, said in given.items() if name not in ("changed_at", "read_at")}
    return cast(Given, kept) | version


async def _name_ticks(tx: Tx, claimed: Sequence[ClaimedTask]) -> list[ClaimedTask]:
    """A cursor is a tick, unless it says how far a table goes: then its rows are what changed."""
    moved = [given for task in claimed for given in task.inputs if "cursor" in given]
    if not moved:
        return list(claimed)
    tables = await reads.tables(tx, [given["dataset_version"] for given in moved])
    return [
        replace(task, inputs=[_with_tick(given, tables) for given in task.inputs])
        for task in claimed
    ]


def _with_tick(given: Given, tables: Container[str]) -> Given:
    if "cursor" not in given or given["dataset_version"] in tables:
        return given
    return given | {"tick": given["cursor"]}


async def _add_positions(tx: Tx, claimed: Sequence[ClaimedTask]) -> list[ClaimedTask]:
    """Asked for before the files are: what these hold is at least as new."""
    without = [given for task in claimed for given in task.inputs if "read_at" not in given]
    if not without:
        return list(claimed)
    now = await reads.positions(tx, list({given["dataset_version"] for given in without}))
    return [
        replace(task, inputs=[_with_position(given, now) for given in task.inputs])
        for task in claimed
    ]


def _with_position(given: Given, now: Mapping[str, int]) -> Given:
    return {"read_at": now.get(given["dataset_version"], 0)} | given


async def _add_knows(tx: Tx, claimed: Sequence[ClaimedTask], wakes: Wakes) -> list[ClaimedTask]:
    """What the attempt does not read and may be measured by all the same: the other inputs that
    wake its job, and what its generation was told to do once more."""
    others = {task.id: _not_read(task, wakes[task.generation_id]) for task in claimed}
    versions = {version for each in others.values() for version in each.values()}
    now = await reads.positions(tx, list(versions)) if versions else {}
    return [replace(task, knows=_knows(task, others[task.id], now)) for task in claimed]


def _knows(
    task: ClaimedTask, others: Mapping[int, str], now: Mapping[str, int]
) -> list[StoredRead]:
    known = [Read(index, version, now.get(version, 0)) for index, version in sorted(others.items())]
    if task.redone:
        known.append(Read(REDONE, str(task.generation_id), task.redone))
    return [each.stored() for each in known]


def _not_read(task: ClaimedTask, wakes: Mapping[int, Given]) -> dict[int, str]:
    """By input."""
    read = {given["input_index"] for given in task.inputs}
    return {index: given["dataset_version"] for index, given in wakes.items() if index not in read}
