"""⑦ What an attempt staged takes the place of what is there, unless that had read more.

The current partitions of a generation never overlap. An attempt replaces what lies within the range
that it read; where it would cut a partition, or what is there had read a change that it had not,
another attempt of the task reads what is current and does the whole of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from trace_platform.dispatcher.commits.refuse_unfit import refuse_unfit_files, refuse_unfit_tables
from trace_platform.dispatcher.events.record_events import Generation
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import CommitOvertaken, PartitionOverlap
from trace_platform.domain.freshness import (
    Change,
    Given,
    Partition,
    Read,
    StoredRead,
    as_one,
    has_read,
    is_older,
    keys_of,
    left_of,
    merges,
    overlap,
    ranges_of,
    reads_of,
)
from trace_platform.domain.merge_ranges import gaps
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import appends, datasets, partitions, reads, tasks
from trace_platform.state.partitions import Committed
from trace_platform.state.task_rows import HeldTask, Pinned
from trace_platform.wire.manifest import Manifest
from trace_platform.wire.task import OutputCommit

# The manifest of files; None for a table, which has none.
Verified = list[tuple[OutputCommit, Manifest | None]]
Commits = Mapping[tuple[Generation, str], Committed]
# By input: what wakes the job now.
Wakes = Mapping[int, Given]


@dataclass(frozen=True, slots=True)
class Staged:
    """A partition that is to be committed, and what is there of its range or key."""

    output: OutputCommit
    manifest: Manifest
    current: Sequence[Partition]

    @property
    def span(self) -> BlockRange | None:
        return span_of(self.manifest)


async def commit_outputs(tx: Tx, task: HeldTask, verified: Verified) -> Commits:
    """What was committed; a partition that others hold by now is not among it, and noted.

    The caller holds the task's fence in this transaction. Raise CommitOvertaken when another
    attempt has to read what is current, PartitionOverlap when a partition that no range woke would
    cut one that is there, IncompatibleSchema when the generation cannot have its columns or the DAG
    declares others.
    """
    # All of them at once and in one order: two commits never wait for each other in a circle, and
    # what one transaction commits is there at one moment.
    pinned = sorted(UUID(output["dataset_version"]) for output in task.outputs)
    known, moment = await datasets.lock_generations(tx, pinned)
    wakes = (await reads.wakes(tx, [task.generation_id]))[task.generation_id]
    _refuse_obsolete(task, wakes)
    staged = [
        Staged(output, manifest, await _current(tx, task, output, manifest, wakes))
        for output, manifest in verified
        if manifest is not None
    ]
    tables = [output for output, manifest in verified if manifest is None]
    if tables:
        await _refuse_changed(tx, task)
        await refuse_unfit_tables(tx, tables)
    for output in tables:
        await datasets.advance_cursor(tx, output)
    # All of them or none: outputs of one attempt are of one state of the inputs.
    if staged and all(_adds_nothing(task, each) for each in staged):
        held = dict.fromkeys(p.key for each in staged for p in each.current)
        await tasks.note(tx, task, f"covered by {', '.join(list(held)[:3])}")
        return {}
    committed: dict[tuple[Generation, str], Committed] = {}
    gave_way = await _gave_way(tx, task)
    declared = await datasets.declared(tx, pinned) if staged else {}
    for each in staged:
        await _check(tx, task, each, wakes, gave_way)
        version = each.output.dataset_version
        columns = await datasets.widen_columns(tx, known[version], each.manifest)
        refuse_unfit_files(declared.get(version, ()), columns, each.manifest)
        made = await partitions.replace(
            tx,
            each.output,
            each.manifest,
            task,
            *_made_of(task, each),
            [partition.key for partition in each.current],
            moment,
        )
        generation = (each.output.dataset_uuid, each.output.dataset_version)
        committed[generation, each.manifest.partition_key] = made
    return committed


async def _current(
    tx: Tx, task: HeldTask, output: OutputCommit, manifest: Manifest, wakes: Wakes
) -> list[Partition]:
    """What gives way: of what has no range also what holds some of the same, under another name."""
    version, span = output.dataset_version, span_of(manifest)
    if span is not None:
        return await partitions.within(tx, version, span)
    found = {
        each.key: each for each in await partitions.of_key(tx, version, manifest.partition_key)
    }
    if task.takes_several:
        same = keys_of(reads_of(task.inputs), wakes)
        found |= {each.key: each for each in await partitions.of_keys(tx, version, same)}
    return list(found.values())


def _refuse_obsolete(task: HeldTask, wakes: Wakes) -> None:
    """What it read of another DAG may have given way to another version meanwhile."""
    for given in _woken(task):
        version = wakes.get(given["input_index"], given)
        if version["dataset_version"] != given["dataset_version"]:
            raise CommitOvertaken(
                f"input {given['input_index']} is another version of its dataset by now",
                hint="another attempt reads the one that is current",
            )


async def _refuse_changed(tx: Tx, task: HeldTask) -> None:
    """Of the rows of a table nobody knows what they were made of: whoever read what was rewritten
    since writes them once more."""
    for read in reads_of(_woken(task)):
        if read.span is not None and await reads.changed_since(tx, read):
            raise CommitOvertaken(
                f"input {read.input_index} was rewritten in {read.span.key} since it was read",
                hint="another attempt reads what is current",
            )


def _adds_nothing(task: HeldTask, staged: Staged) -> bool:
    """Whether all that woke the task was read by whoever made what is there. Of what is appended
    to that cannot be told."""
    changes = [Change.of(given) for given in _woken(task)]
    if not (changes and staged.current) or "append" in _pinned(task, staged.output):
        return False
    if staged.span is None:
        return all(any(p.holds_key(change) for p in staged.current) for change in changes)
    if any(change.span is None for change in changes):
        return False
    parts = [replace(c, span=part) for c in changes if (part := overlap(c.span, staged.span))]
    return bool(parts) and not any(left_of(part, [staged.current]) for part in parts)


async def _gave_way(tx: Tx, task: HeldTask) -> dict[int, str]:
    """By input: the version that is current of what does not wake the job, where the attempt read
    another."""
    only = [given for given in task.inputs if not given.get("trigger", True)]
    read = {given["input_index"]: given["dataset_version"] for given in only}
    now = await reads.only_read(tx, task.generation_id) if read else {}
    return {index: now[index] for index in read if now.get(index, read[index]) != read[index]}


async def _check(
    tx: Tx, task: HeldTask, staged: Staged, wakes: Wakes, gave_way: Mapping[int, str]
) -> None:
    """Raise unless it may take the place of what is there."""
    pinned = _pinned(task, staged.output)
    if "base" in pinned:
        await _check_base(tx, task, pinned, staged.manifest)
        _refuse_overlap(staged)
    else:
        _refuse_older(task, staged, wakes, gave_way)


def _made_of(task: HeldTask, staged: Staged) -> tuple[list[Read], list[StoredRead]]:
    """What it read, and knew. Of partitions that become one, what they had."""
    if not merges(task.inputs):
        return reads_of(task.inputs), task.knows
    made_of, knows = as_one(staged.current)
    return made_of, [read.stored() for read in knows]


def _pinned(task: HeldTask, output: OutputCommit) -> Pinned:
    return next(o for o in task.outputs if o["output_index"] == output.output_index)


def _refuse_older(
    task: HeldTask, staged: Staged, wakes: Wakes, gave_way: Mapping[int, str]
) -> None:
    ours = reads_of(task.inputs)
    known = [*ours, *map(Read.of, task.knows)]
    for partition in staged.current:
        newer = any(gave_way.get(read.input_index) == read.version for read in partition.made_of)
        if newer or is_older(known, [*partition.made_of, *partition.knows]):
            raise CommitOvertaken(
                f"partition {partition.key} was made of a newer state of the inputs",
                hint="another attempt reads what is current",
            )
        if task.takes_several and keys_of(partition.made_of, wakes) - keys_of(ours, wakes):
            raise CommitOvertaken(
                f"partition {partition.key} is there, and not all that it holds was read",
                hint="another attempt does all of it",
            )
    if staged.span is None:
        return
    woken = {given["input_index"] for given in _woken(task) if "start" in given}
    if not woken:
        _refuse_overlap(staged)
        return
    for partition in staged.current:
        assert partition.span is not None, "a partition with a key is not within a range"
        asked = ranges_of(partition, woken, set(wakes), several=task.takes_several)
        if any(gaps(partition.span, [staged.span])) or not has_read(ours, asked):
            raise CommitOvertaken(
                f"partition {partition.key} is there, and not all of it was read",
                hint="another attempt does all of it",
            )


def _refuse_overlap(staged: Staged) -> None:
    own = staged.span
    for partition in staged.current:
        if own is not None and partition.span is not None and any(gaps(partition.span, [own])):
            raise PartitionOverlap(
                f"partition {staged.manifest.partition_key} overlaps {partition.key}, "
                "which is committed",
                hint="commit ranges that are equal to, larger than or clear of the committed ones",
            )


async def _check_base(tx: Tx, task: HeldTask, pinned: Pinned, manifest: Manifest) -> None:
    if not await appends.is_current(tx, task, pinned):
        raise CommitOvertaken(
            f"rows were committed where partition {manifest.partition_key} is to take its place",
            hint="another attempt reads what is current",
        )


def _woken(task: HeldTask) -> list[Given]:
    return [given for given in task.inputs if given.get("trigger", True)]


def span_of(manifest: Manifest) -> BlockRange | None:
    if manifest.start is None or manifest.end is None:
        return None
    return BlockRange(manifest.start, manifest.end)
