"""④ What an attempt reads is settled when it starts: versions, ranges, and how far they are.

That is a fact from then on: what the attempt commits is measured by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_platform.dispatcher.fit_ranges import fit_ranges
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import appends, reads

Given = dict[str, Any]


async def pin_inputs(tx: Tx, claimed: Sequence[Row]) -> None:
    """Of tasks that were just claimed, in the same transaction."""
    if not claimed:
        return
    before = {task["id"]: task["inputs"] for task in claimed}
    await _follow_versions(tx, claimed)
    await fit_ranges(tx, claimed)
    await reads.add(tx, claimed)
    await _add_positions(tx, claimed)
    changed = [task for task in claimed if task["inputs"] != before[task["id"]]]
    if changed:
        await reads.store(tx, changed)
    await appends.pin(tx, claimed)


async def _follow_versions(tx: Tx, claimed: Sequence[Row]) -> None:
    """A dataset of another DAG may have been rebuilt, or rolled back, since a task was made: what
    is current is read, or its results would be those of a version that gave way."""
    now = await reads.versions(tx, list({task["generation_id"] for task in claimed}))
    for task in claimed:
        read: dict[Any, Given] = {}
        for given in task["inputs"]:
            if not given.get("trigger", True):
                continue
            place = (task["generation_id"], given["input_index"])
            about = (given.get("partition_key"), given.get("cursor"), given.get("invalidation"))
            # Of one partition in two versions the last counts.
            read[*place, *about] = _in_version(given, now.get(place, {}))
        task["inputs"] = list(read.values())


def _in_version(given: Given, version: dict[str, str]) -> Given:
    """Positions of one version say nothing about another."""
    if version.get("dataset_version", given["dataset_version"]) == given["dataset_version"]:
        return given
    kept = {name: given[name] for name in given if name not in ("changed_at", "read_at")}
    return kept | version


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
