"""What an attempt adds to, or merges: the partitions that were current when it started.

They are pinned with its outputs as `base`. Its commit takes their place, and counts only while
nothing else did: so no row that was there is ever lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.domain.freshness import merges
from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state.task_rows import ClaimedTask, DefinedTask, HeldTask, Pinned

_sql = load_queries(__file__)


async def pin(tx: Tx, claimed: Sequence[ClaimedTask]) -> list[ClaimedTask]:
    """To the outputs of tasks that start, and append or merge: what there is."""
    return [
        await _pin(tx, task) if task.append is not None or merges(task.inputs) else task
        for task in claimed
    ]


async def _pin(tx: Tx, task: ClaimedTask) -> ClaimedTask:
    outputs = []
    for pinned in task.outputs:
        added: Pinned = {"base": await _current(tx, task, pinned)}
        if task.append is not None:
            added["append"] = task.append
        outputs.append(pinned | added)
    await _sql.set_outputs(tx, id=task.id, outputs=Jsonb(outputs))
    return replace(task, outputs=outputs)


async def is_current(tx: Tx, task: HeldTask, pinned: Pinned) -> bool:
    """Whether what the attempt added to is still all there is. The caller holds the generation's
    lock."""
    return bool(await _current(tx, task, pinned) == pinned["base"])


async def with_files(tx: Tx, tasks: Sequence[DefinedTask]) -> list[list[Pinned]]:
    """By task: its outputs, those that are appended to with the files of what is there."""
    ids = {id for task in tasks for pinned in task.outputs for id in _base(pinned)}
    rows = await _sql.files_of_partitions(tx, ids=[UUID(id) for id in ids]) if ids else []
    files = {
        str(row["id"]): [row["location"] + file["name"] for file in row["files"]] for row in rows
    }
    return [[_with_files(pinned, files) for pinned in task.outputs] for task in tasks]


def _with_files(pinned: Pinned, files: dict[str, list[str]]) -> Pinned:
    shown = cast(Pinned, {k: v for k, v in pinned.items() if k not in ("base", "shared")})
    found = [uri for id in _base(pinned) for uri in files[id]]
    return shown | {"files": found} if found else shown


def _base(pinned: Pinned) -> list[str]:
    return pinned.get("base", [])


async def _current(tx: Tx, task: ClaimedTask | HeldTask, pinned: Pinned) -> list[str]:
    """Of the output, in the range or of the keys that woke the task; all of it where that is
    neither."""
    woken = [given for given in task.inputs if given.get("trigger", True)]
    ranges = [given for given in woken if "start" in given]
    keys = [given["partition_key"] for given in woken if "partition_key" in given]
    rows = await _sql.current_partitions(
        tx,
        dataset_version=UUID(pinned["dataset_version"]),
        first=min((given["start"] for given in ranges), default=None),
        last=max((given["end"] for given in ranges), default=None),
        keys=keys,
        everything=not keys,
    )
    return [str(row["id"]) for row in rows]
