"""④ The keys of a task that takes several inputs are fitted to what its job has committed.

A partition is replaced as a whole: whatever else it was made of is read with the key that changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from trace_platform.dispatcher.freshness.fit_ranges import own_versions
from trace_platform.domain.freshness import Given, Key, hull, keys_of, range_of
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import partitions
from trace_platform.state.task_rows import ClaimedTask


async def fit_keys(
    tx: Tx, claimed: Sequence[ClaimedTask], wakes: Mapping[UUID, Mapping[int, Given]]
) -> list[ClaimedTask]:
    """After the ranges. By generation and input: what wakes it now."""
    return [
        await _fit(tx, task, wakes[task.generation_id]) if task.takes_several else task
        for task in claimed
    ]


async def _fit(tx: Tx, task: ClaimedTask, wakes: Mapping[int, Given]) -> ClaimedTask:
    own = {
        (given["input_index"], given["partition_key"])
        for given in task.inputs
        if "partition_key" in given and "start" not in given
    }
    spans = [span for given in task.inputs if (span := range_of(given)) is not None]
    whole: set[Key] = set(own)
    for version in own_versions(task):
        if spans:
            for partition in await partitions.within(tx, version, hull(spans)):
                whole |= keys_of(partition.made_of, wakes)
        if whole:
            whole |= await _together(tx, version, whole, wakes)
    added = [
        wakes[index] | {"input_index": index, "partition_key": key, "changed_at": 0}
        for index, key in sorted(whole - own)
    ]
    return replace(task, inputs=task.inputs + added)


async def _together(tx: Tx, version: UUID, keys: set[Key], wakes: Mapping[int, Given]) -> set[Key]:
    """With all keys that partitions hold together with these."""
    while True:
        found = await partitions.of_keys(tx, version, keys, named=True)
        more = keys.union(*(keys_of(partition.made_of, wakes) for partition in found))
        if more == keys:
            return keys
        keys = more
