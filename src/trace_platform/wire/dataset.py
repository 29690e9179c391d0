"""Datasets as users see them: what there is, where it comes from, whether it is up to date."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.control import Reason
from trace_platform.wire.manifest import ManifestFile
from trace_platform.wire.task import Strict

# stale: there is something to do, and it will be done. blocked: not unless somebody acts.
DatasetState = Literal["fresh", "stale", "blocked"]
Direction = Literal["up", "down", "both"]

# Gaps that are named.
MAX_GAPS = 20


class DatasetEntry(Strict):
    # Its published name, or DAG.JOB.OUTPUT.
    dataset: str
    # None unless it is published.
    name: str | None
    dataset_uuid: UUID
    # Who writes it, as DAG.JOB.
    producer: str
    output_index: int
    # The generation that readers see.
    dataset_version: UUID
    # A table with those of its cold part; its bytes are those of the files.
    partitions: int
    rows: int
    # They were not counted: near enough to look at.
    rows_estimated: bool = False
    bytes: int
    # Of the newest commit or event of that generation; None when there was none.
    newest_at: datetime | None
    age_s: float | None
    state: DatasetState


class DatasetEntries(Strict):
    datasets: list[DatasetEntry]


class BlockGap(Strict):
    """Blocks that no partition has, both included."""

    start: int
    end: int


class ColdPart(Strict):
    """The files of a table: another dataset, which may hold some of what the table has too."""

    dataset: str
    dataset_version: UUID
    partitions: int
    rows: int
    bytes: int


class FileBytes(Strict):
    """What the files of a generation take."""

    # What readers see.
    live_bytes: int
    # What gave way to newer files and is not deleted yet.
    superseded_bytes: int
    # Of that: what an attempt that runs may be reading.
    pinned_bytes: int


class DatasetDetail(DatasetEntry):
    # The first reason of its state, as `trace why` says it.
    answer: str
    description: str | None
    storage: str
    write_mode: str | None
    # By name: type, which is the declared one if there is one; declared, committed and nullable,
    # None where nobody said so; description, from.
    columns: dict[str, dict[str, Any]] | None
    # What of the declared columns is not so in what is committed, one sentence each.
    misfits: list[str] = []
    pii: list[str]
    max_age_s: float | None
    # All outputs of the job have it in common.
    generation_id: UUID
    generations: int
    # Where the files of the current generation are.
    location: str
    # The same as a folder of this machine, where a command says it. None: it is none.
    path: str | None = None
    # Of a dataset that is a table: its name in Postgres, how far it goes, and where its files are.
    table: str | None
    # None of a table, and of a dispatcher that does not tell yet.
    files: FileBytes | None = None
    cursor: int | None
    cold: ColdPart | None = None
    first_block: int | None
    last_block: int | None
    gap_count: int
    # The first of them.
    gaps: list[BlockGap]
    # Datasets that its producer reads, and jobs that read it.
    upstream: list[str]
    downstream: list[str]


class DatasetVersion(Strict):
    """A generation of a dataset."""

    dataset_version: UUID
    generation_id: UUID
    # What readers see.
    current: bool
    # Of an active version of the DAG.
    active: bool
    building: bool
    created_at: datetime
    built_at: datetime | None
    purged_at: datetime | None
    # Versions of the DAG that can only be rolled back to while it is there.
    dag_versions: list[UUID]
    partitions: int
    rows: int
    rows_estimated: bool = False
    bytes: int


class DatasetVersions(Strict):
    dataset: str
    versions: list[DatasetVersion]


class Partition(Strict):
    partition_key: str
    start: int | None
    end: int | None
    rows: int
    bytes: int
    files: int
    committed_at: datetime
    # None when no task wrote it: a webhook's delivery.
    task_id: UUID | None
    attempt: int | None


class Partitions(Strict):
    dataset: str
    dataset_version: UUID
    # The table whose cold part this is, when that was asked for.
    cold_of: str | None = None
    partitions: list[Partition]
    # Give it as `after` for what follows; None at the end.
    next: str | None


class LineageNode(Strict):
    # A dataset's name or DAG.JOB.OUTPUT, DAG.JOB, or DATASET.COLUMN.
    id: str
    kind: Literal["dataset", "job", "column"]
    # Who writes it or what it is, as DAG.JOB; None of a column that nobody publishes.
    producer: str | None
    # False: no active version of a DAG has it.
    active: bool = True


class LineageEdge(Strict):
    """Data flows from one node to the other."""

    source: str
    target: str


class Lineage(Strict):
    subject: str
    direction: Direction
    nodes: list[LineageNode]
    edges: list[LineageEdge]
    # There is more beyond the depth that was asked for.
    truncated: bool


class DatasetReason(Reason):
    # fresh: worth knowing, and no reason to wait.
    level: DatasetState
    # Where upstream, as DAG.JOB or a dataset, and how many jobs away; 0 is the dataset's own.
    at: str
    steps: int


class DatasetWhy(Strict):
    """Whether a dataset is up to date, and what keeps it from being so."""

    dataset: str
    dataset_uuid: UUID
    dataset_version: UUID
    producer: str
    state: DatasetState
    # One sentence.
    answer: str
    # What blocks comes first; of those alike, the one furthest upstream: the cause of the others.
    reasons: list[DatasetReason]
    age_s: float | None
    max_age_s: float | None


class PurgeRequest(Strict):
    # Generations of the dataset: each with all outputs of its job.
    versions: list[UUID] = Field(min_length=1, max_length=1000)


class PurgedGeneration(Strict):
    """What a purge deletes of one generation: all outputs of its job."""

    dataset_version: UUID
    generation_id: UUID
    created_at: datetime
    # Why it cannot go. None: it can.
    in_use: str | None
    # It was purged before; only files may be left of it.
    purged_at: datetime | None
    datasets: list[str]
    partitions: int
    rows: int
    bytes: int
    files: int
    # Versions of the DAG that can then not be rolled back to.
    dag_versions: list[UUID]


class PurgePlan(Strict):
    dataset: str
    producer: str
    generations: list[PurgedGeneration]


class PurgeResponse(Strict):
    dataset: str
    # Generations of the dataset that are gone now.
    purged: list[UUID]
    # Objects that were deleted by this call.
    objects: int


class PartitionFiles(Strict):
    """A partition with what its manifest promises."""

    partition_key: str
    start: int | None
    end: int | None
    # The folder that the files are in.
    location: str
    files: list[ManifestFile]
    rows: int
    bytes: int
    schema_hash: str
    # None when no task wrote it: a webhook's delivery, which has no manifest.
    task_id: UUID | None


class DatasetFiles(Strict):
    dataset: str
    dataset_version: UUID
    # The table whose cold part this is, when that was asked for.
    cold_of: str | None = None
    # What is wrong can be made anew: it is the generation that readers see.
    current: bool
    # How many there are, on all pages.
    count: int
    partitions: list[PartitionFiles]
    # Give it as `after` for what follows; None at the end.
    next: str | None


class GarbageItem(Strict):
    """Objects that nobody needs."""

    place: str
    # not_committed, not_published, stray, delivery, log, superseded
    why: str
    objects: int
    bytes: int


class Garbage(Strict):
    # What was deleted, or would be.
    items: list[GarbageItem]
    # Lies where only data should, and belongs to nobody: left alone.
    unknown: list[str]
    # How many places were looked at.
    places: int
    # Give it as `after` for what follows; None at the end.
    next: str | None


class KeptFiles(FileBytes):
    """What one generation keeps, and why."""

    dataset: str
    dataset_version: UUID
    current: bool
    superseded_partitions: int
    # Of the superseded bytes: no new reader is given them, and they go when the last one ended.
    retired_bytes: int
    # When the next file is old enough to be retired; None when nothing gave way.
    next_retired_at: datetime | None


class GarbageExplanation(Strict):
    """What is kept in the object store, by which rule, and what holds back what could go."""

    superseded_days: float
    superseded_versions: int
    reader_grace_s: float
    # The attempt that started first of those that may read what gave way since; None: nobody does.
    oldest_reader: UUID | None
    oldest_reader_since: datetime | None
    generations: list[KeptFiles]


class CollectRequest(Strict):
    # Only say what would be deleted.
    dry_run: bool = False
    # `next` of the answer before.
    after: str = Field(default="", max_length=2_000)
