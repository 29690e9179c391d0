"""④ What an attempt reads is settled when it starts: versions, ranges, and how far they are.

That is a fact from then on: what the attempt commits is measured by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from trace_platform.dispatcher.freshness.fit_keys import fit_keys
from trace_platform.dispatcher.freshness.fit_ranges import fit_ranges
from trace_platform.domain.freshness import REDONE, Read
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import appends, reads

Given = dict[str, Any]
# By generation and input: what wakes it now.
Wakes = Mapping[UUID, Mapping[int, Given]]


async def pin_inputs(tx: Tx, claimed: Sequence[Row]) -> None:
    """Of tasks that were just claimed, in the same transaction."""
    if not claimed:
        return
    before = {task["id"]: (task["inputs"], task["knows"]) for task in claimed}
    wakes = await reads.wakes(tx, list({task["generation_id"] for task in claimed}))
    _follow_versions(claimed, wakes)
    await _name_ticks(tx, claimed)
    await fit_ranges(tx, claimed, wakes)
    await fit_keys(tx, claimed, wakes)
    await reads.add(tx, claimed)
    await _add_positions(tx, claimed)
    await _add_knows(tx, claimed, wakes)
    changed = [task for task in claimed if (task["inputs"], task["knows"]) != before[task["id"]]]
    if changed:
        await reads.store(tx, changed)
    await appends.pin(tx, claimed)


def _follow_versions(claimed: Sequence[Row], wakes: Wakes) -> None:
    """A dataset of another DAG may have been rebuilt, or rolled back, since a task was made: what
    is current is read, or its results would be those of a version that gave way."""
    for task in claimed:
        now = wakes[task["generation_id"]]
        read: dict[Any, Given] = {}
        for given in task["inputs"]:
            if not given.get("trigger", True):
                continue
            index = given["input_index"]
            about = (given.get("partition_key"), given.get("cursor"), given.get("invalidation"))
            read[index, *about] = _as_one(
                read.get((index, *about)), _in_version(given, now.get(index, {}))
            )
        task["inputs"] = list(read.values())


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
    kept = {name: given[name] for name in given if name not in ("changed_at", "read_at")}
    return kept | version


async def _name_ticks(tx: Tx, claimed: Sequence[Row]) -> None:
    """A cursor is a tick, unless it says how far a table goes: then its rows are what changed."""
    moved = [given for task in claimed for given in task["inputs"] if "cursor" in given]
    if not moved:
        return
    tables = await reads.tables(tx, [given["dataset_version"] for given in moved])
    for task in claimed:
        task["inputs"] = [
            given | {"tick": given["cursor"]}
            if "cursor" in given and given["dataset_version"] not in tables
            else given
            for given in task["inputs"]
        ]


async def _add_positions(tx: Tx, claimed: Sequence[Row]) -> None:
    """Asked for before the files are: what these hold is at least as new."""
    without = [given for task in claimed for given in task["inputs"] if "read_at" not in given]
    if not without:
        return
    now = await reads.positions(tx, list({given["dataset_version"] for given in without}))
    for task in claimed:
        task["inputs"] = [
            {"read_at": now.get(given["dataset_version"], 0)} | given for given in task["inputs"]
        ]


async def _add_knows(tx: Tx, claimed: Sequence[Row], wakes: Wakes) -> None:
    """What the attempt does not read and may be measured by all the same: the other inputs that
    wake its job, and what its generation was told to do once more."""
    others = {task["id"]: _not_read(task, wakes[task["generation_id"]]) for task in claimed}
    versions = {version for each in others.values() for version in each.values()}
    now = await reads.positions(tx, list(versions)) if versions else {}
    for task in claimed:
        known = [
            Read(index, version, now.get(version, 0))
            for index, version in sorted(others[task["id"]].items())
        ]
        if task["redone"]:
            known.append(Read(REDONE, str(task["generation_id"]), task["redone"]))
        task["knows"] = [each.stored() for each in known]


def _not_read(task: Row, wakes: Mapping[int, Given]) -> dict[int, str]:
    """By input."""
    read = {given["input_index"] for given in task["inputs"]}
    return {index: given["dataset_version"] for index, given in wakes.items() if index not in read}
