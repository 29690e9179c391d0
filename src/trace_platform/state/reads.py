"""What tasks read: also datasets that do not wake them, and tables with what has left them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.domain.freshness import Given, Read, merges
from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state import datasets
from trace_platform.state.datasets import InputFiles
from trace_platform.state.task_rows import ClaimedTask, DefinedTask, TaskRow

_sql = load_queries(__file__)

# A version of a dataset that an input is read from.
Place = tuple[UUID, Given]
# A version of a cold part, and the block from which on it may leave the table of an input.
Leaving = tuple[UUID, int, Given]

# At which position an input changed, and up to which it is read; whether rows gave way to it.
_OWN_FACTS = ("changed_at", "read_at", "replaces", "tick", "widened", "merges")
# Partitions that leave a table with one task: a token lists their files.
_LEAVE = 10


@dataclass(frozen=True, slots=True)
class ReadInput:
    """An input of a generation: the version of the dataset that is read now, and what of it."""

    generation_id: UUID
    input_index: int
    dataset_uuid: UUID
    dataset_version: UUID
    filter: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class TableInput:
    """A version that is a table, and where the part of it lies that has left the table."""

    version: UUID
    table_start: int | None
    cold_uuid: UUID | None
    cold_version: UUID | None


async def wakes(tx: Tx, generation_ids: Sequence[UUID]) -> dict[UUID, dict[int, Given]]:
    """By generation and input: the version of the dataset that wakes it now, and what of it."""
    rows = await _sql.rows(tx, "input_versions", ReadInput, generation_ids=list(generation_ids))
    found: dict[UUID, dict[int, Given]] = {generation_id: {} for generation_id in generation_ids}
    for row in rows:
        found[row.generation_id][row.input_index] = _source(row)
    return found


def _source(row: ReadInput) -> Given:
    source: Given = {
        "dataset_uuid": str(row.dataset_uuid),
        "dataset_version": str(row.dataset_version),
    }
    if row.filter is not None:
        source["where"] = row.filter
    return source


async def only_read(tx: Tx, generation_id: UUID) -> dict[int, str]:
    """By input: the version that is read now of what does not wake the job."""
    rows = await _sql.rows(tx, "of_generations", ReadInput, generation_ids=[generation_id])
    return {row.input_index: str(row.dataset_version) for row in rows}


async def changed_since(tx: Tx, read: Read) -> bool:
    """Whether rows of what was read gave way since, or were said to be invalid."""
    assert read.span is not None, "only ranges are asked about"
    found = await _sql.changed_since(
        tx,
        version=UUID(read.version),
        position=read.position,
        start=read.span.start,
        end=read.span.end,
    )
    return found is not None


async def positions(tx: Tx, versions: Sequence[str]) -> dict[str, int]:
    """How far each version of a dataset is: whatever is read of it from now on holds all that."""
    rows = await _sql.positions(tx, versions=[UUID(version) for version in versions])
    return {str(row["version"]): row["position"] for row in rows}


async def tables(tx: Tx, versions: Sequence[str]) -> set[str]:
    """Those of these versions that are tables of Postgres data."""
    return {str(row.version) for row in await _table_rows(tx, map(UUID, versions))}


async def store(tx: Tx, tasks: Sequence[ClaimedTask]) -> None:
    """The inputs of tasks that start, as they are read, and what else their attempts know."""
    await _sql.set_inputs(
        tx,
        ids=[task.id for task in tasks],
        inputs=[Jsonb(task.inputs) for task in tasks],
        knows=[Jsonb(task.knows) for task in tasks],
    )


async def add(tx: Tx, tasks: Sequence[ClaimedTask]) -> list[ClaimedTask]:
    """To the inputs of tasks that start: what they read in the range of what woke them."""
    generations = list({task.generation_id for task in tasks})
    rows = (
        await _sql.rows(tx, "of_generations", ReadInput, generation_ids=generations)
        if tasks
        else []
    )
    return [
        replace(
            task,
            inputs=_with_read(task, [r for r in rows if r.generation_id == task.generation_id]),
        )
        for task in tasks
    ]


def _with_read(task: ClaimedTask, only_read: Sequence[ReadInput]) -> list[Given]:
    woken = [given for given in task.inputs if given.get("trigger", True)]
    return woken + [_scope(woken) | _read(row) for row in only_read]


def _read(row: ReadInput) -> Given:
    own: Given = {"input_index": row.input_index, "trigger": False}
    return own | _source(row)


def _scope(woken: Sequence[Given]) -> Given:
    """All that woke the task as one range, or the first of it where there is none."""
    if woken and all("start" in given for given in woken):
        first = min(given["start"] for given in woken)
        last = max(given["end"] for given in woken)
        return {"partition_key": f"{first}-{last}", "start": first, "end": last}
    scope: Given = {}
    for first_of_all in woken[:1]:
        if "cursor" in first_of_all:
            scope["cursor"] = first_of_all["cursor"]
        if "partition_key" in first_of_all:
            scope["partition_key"] = first_of_all["partition_key"]
    return scope


async def name_inputs(tx: Tx, tasks: Sequence[DefinedTask], inputs: Sequence[list[Given]]) -> None:
    """In place: what a transform calls each input. The name under which it is published, and those
    that its job's definition has for it."""
    given = [each["dataset_uuid"] for every in inputs for each in every]
    published = {
        str(row["uuid"]): row["name"]
        for row in await _sql.published_names(tx, uuids=[UUID(uuid) for uuid in set(given)])
    }
    edges = {
        row["id"]: row["edges"]
        for row in await _sql.edges_of_jobs(tx, job_ids=list({task.job_id for task in tasks}))
    }
    for task, every in zip(tasks, inputs, strict=True):
        for each in every:
            edge = edges[task.job_id][each["input_index"]]["from"]
            told = [edge.get("dataset"), edge.get("output"), edge.get("job")]
            names = [published.get(each["dataset_uuid"]), *told]
            each["names"] = list(dict.fromkeys(n for n in names if isinstance(n, str)))
    await _tell_columns(tx, [each for every in inputs for each in every])


async def _tell_columns(tx: Tx, inputs: Sequence[Given]) -> None:
    """In place: of what has no files in its scope, where its columns are to be found."""
    bare = [each for each in inputs if not each.get("files") and not each.get("table")]
    versions = {UUID(each["dataset_version"]) for each in bare}
    rows = await _sql.a_file_of(tx, versions=list(versions)) if versions else []
    found = {str(row["version"]): row["uri"] for row in rows}
    for each in bare:
        each["columns_of"] = found.get(each["dataset_version"])


def as_told(given: Given) -> Given:
    """An input as whoever runs the task sees it: without what the commit is measured by."""
    return cast(Given, {k: v for k, v in given.items() if k not in _OWN_FACTS})


async def with_files(tx: Tx, tasks: Sequence[DefinedTask]) -> list[list[Given]]:
    """By task: its inputs, each with the URIs of the files behind it. Of an input that is a table
    those hold what has left the table."""
    inputs = [[as_told(given) for given in task.inputs] for task in tasks]
    reading = [n for n, task in enumerate(tasks) if not merges(task.inputs)]
    every = [given for n in reading for given in inputs[n]]
    tables = await _tables(tx, every)
    plain = [g for g in every if not _is_read(g) and g["dataset_version"] not in tables]
    for given, files in zip(plain, await datasets.files_of_inputs(tx, plain), strict=True):
        given["files"] = files
    places: list[Place] = []
    leaving: list[Leaving] = []
    for n in reading:
        task = tasks[n]
        for given in inputs[n]:
            if (table := tables.get(given["dataset_version"])) is not None:
                given |= {"table": True, "files": []}
                if (cold := await _cold(tx, task, given, table)) is not None:
                    places.append((cold, given))
                leaving += _may_trim(given, table)
            elif _is_read(given):
                places.append((UUID(given["dataset_version"]), given))
    for (_, given), files in zip(places, await _files(tx, places), strict=True):
        given["files"] = files
    for (_, _, given), files in zip(leaving, await _leaving(tx, leaving), strict=True):
        given["files"] = files + given["files"]
    return inputs


def _is_read(given: Given) -> bool:
    """Whether all that there is in its scope is read, and not only what woke the task."""
    return not given.get("trigger", True) or "whole" in given


async def _tables(tx: Tx, inputs: Sequence[Given]) -> dict[str, TableInput]:
    rows = await _table_rows(tx, (UUID(given["dataset_version"]) for given in inputs))
    return {str(row.version): row for row in rows}


async def _table_rows(tx: Tx, versions: Iterable[UUID]) -> list[TableInput]:
    asked = list(set(versions))
    return await _sql.rows(tx, "tables", TableInput, versions=asked) if asked else []


async def _cold(tx: Tx, task: TaskRow, given: Given, table: TableInput) -> UUID | None:
    """The version whose files hold what has left the table. Whoever writes the cold part goes on
    from what it wrote itself."""
    if table.cold_uuid is None:
        return None
    cold: UUID | None = await _sql.cold_version(
        tx,
        cold_uuid=table.cold_uuid,
        current=table.cold_version,
        own=[UUID(output["dataset_version"]) for output in task.outputs],
        start=given.get("start"),
        end=given.get("end"),
    )
    return cold


def _may_trim(given: Given, table: TableInput) -> Iterator[Leaving]:
    """What is only read is also told what readers find in files from the table's first block on,
    below its own range: that may leave the table. What a version that is still being built has
    committed may not: readers do not see it."""
    if given.get("trigger", True) or "start" not in given:
        return
    if table.table_start is None or table.cold_version is None:
        return
    if table.table_start < given["start"]:
        yield table.cold_version, table.table_start, given


async def _leaving(tx: Tx, places: Sequence[Leaving]) -> list[list[str]]:
    if not places:
        return []
    rows = await _sql.rows(
        tx,
        "leaving",
        InputFiles,
        ns=list(range(len(places))),
        versions=[version for version, _, _ in places],
        starts=[start for _, start, _ in places],
        ends=[given["start"] - 1 for _, _, given in places],
        most=_LEAVE,
    )
    return _by_place(rows, len(places))


async def _files(tx: Tx, places: Sequence[Place]) -> list[list[str]]:
    if not places:
        return []
    rows = await _sql.rows(
        tx,
        "files_of",
        InputFiles,
        ns=list(range(len(places))),
        versions=[version for version, _ in places],
        starts=[given.get("start") for _, given in places],
        ends=[given.get("end") for _, given in places],
    )
    return _by_place(rows, len(places))


def _by_place(rows: Sequence[InputFiles], count: int) -> list[list[str]]:
    found: list[list[str]] = [[] for _ in range(count)]
    for row in rows:
        found[row.n] += [row.location + file["name"] for file in row.files]
    return found
