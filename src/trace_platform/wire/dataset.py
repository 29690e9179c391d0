"""Datasets as users see them, all under this name: what there is, where it comes from and whether
it is up to date are here, what it takes in the object store in storage.py."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.fields import (
    ByteCount,
    DatasetUuid,
    DatasetVersionId,
    Label,
    OutputIndex,
    PartitionCount,
    Producer,
    RowCount,
    Strict,
)
from trace_platform.wire.storage import (
    CollectRequest,
    DatasetFiles,
    FileBytes,
    Garbage,
    GarbageExplanation,
    GarbageItem,
    KeptFiles,
    PartitionFiles,
    PurgedGeneration,
    PurgePlan,
    PurgeRequest,
    PurgeResponse,
)
from trace_platform.wire.why import Reason

__all__ = [
    "MAX_GAPS",
    "BlockGap",
    "ColdPart",
    "CollectRequest",
    "DatasetDetail",
    "DatasetEntries",
    "DatasetEntry",
    "DatasetFiles",
    "DatasetReason",
    "DatasetState",
    "DatasetVersion",
    "DatasetVersions",
    "DatasetWhy",
    "Direction",
    "FileBytes",
    "Garbage",
    "GarbageExplanation",
    "GarbageItem",
    "KeptFiles",
    "Lineage",
    "LineageEdge",
    "LineageNode",
    "Partition",
    "PartitionFiles",
    "Partitions",
    "PurgePlan",
    "PurgeRequest",
    "PurgeResponse",
    "PurgedGeneration",
]


DatasetState = Literal["fresh", "stale", "blocked"]
Direction = Literal["up", "down", "both"]

# Gaps that are named.
MAX_GAPS = 20


class DatasetEntry(Strict):
    dataset: Label
    name: str | None = Field(
        description="Published name of the dataset; null when it is not published."
    )
    dataset_uuid: DatasetUuid
    owner: str | None = Field(
        default=None, description="Who answers for it, as its DAG says; null when it does not."
    )
    tags: list[str] = Field(default=[], description="Words that it is found by, as its DAG says.")
    producer: Producer
    output_index: OutputIndex
    dataset_version: UUID = Field(description="Id of the generation that readers see.")
    partitions: int = Field(
        description="Number of current partitions; for a table, of its cold part."
    )
    rows: int = Field(description="Number of rows; for a table, with those of its cold part.")
    rows_estimated: bool = Field(
        default=False, description="Whether the rows were estimated and not counted."
    )
    bytes: int = Field(
        description="Size of the files in bytes. Rows of a table in Postgres are not part of it."
    )
    newest_at: datetime | None = Field(
        description="When the generation's newest commit or event was; null when there was none."
    )
    age_s: float | None = Field(description="Seconds since then; null when there was none.")
    state: DatasetState = Field(
        description="`fresh`: everything that is known upstream is in it. `stale`: something "
        "is missing, and the platform will make it. `blocked`: something is missing, and "
        "nothing happens until somebody acts."
    )


class DatasetEntries(Strict):
    datasets: list[DatasetEntry] = Field(description="The datasets, by name.")


class BlockGap(Strict):
    """Blocks that no partition has, both included."""

    start: int = Field(description="First block that is missing.")
    end: int = Field(description="Last block that is missing, included.")


class ColdPart(Strict):
    """The files of a table: another dataset, which may hold some of what the table has too."""

    dataset: Label
    dataset_version: DatasetVersionId
    partitions: PartitionCount
    rows: RowCount
    bytes: ByteCount


class DatasetDetail(DatasetEntry):
    answer: str = Field(description="The first reason of the dataset's state, in one sentence.")
    description: str | None = Field(
        description="What the dataset holds, as its DAG says; null when it says nothing."
    )
    storage: str = Field(description="Where the rows live: `parquet`, `postgres` or `buffered`.")
    write_mode: str | None = Field(
        description="Whether a commit replaces earlier rows or appends to them: `replace` or "
        "`append`; null when the DAG does not say."
    )
    columns: dict[str, dict[str, Any]] | None = Field(
        description="The columns by name; null while nobody has said them. Of each: `type` "
        "(the declared one, if there is one), `declared`, `committed`, `nullable`, "
        "`description` and `from` (the columns it comes from). What nobody said is null."
    )
    misfits: list[str] = Field(
        default=[],
        description="What the declared schema promises and committed data does not keep, a "
        "sentence each.",
    )
    pii: list[str] = Field(description="Names of the columns that hold personal data.")
    max_age_s: float | None = Field(
        description="Age in seconds beyond which the dataset counts as stale; null is no limit."
    )
    generation_id: UUID = Field(
        description="Id of the generation across all outputs of the job, which share it."
    )
    generations: int = Field(description="Number of generations that there are.")
    location: str = Field(
        description="URI of the folder that holds the files of the current generation."
    )
    path: str | None = Field(
        default=None,
        description="The same folder as a path on this machine, where a command can tell; "
        "else null.",
    )
    table: str | None = Field(
        description="For a table, its name in Postgres; null for a dataset of files."
    )
    files: FileBytes | None = Field(
        default=None, description="What the files take; null for a table."
    )
    cursor: int | None = Field(
        description="For a table, the last block that it holds; null when it holds none, and "
        "for files."
    )
    cold: ColdPart | None = Field(
        default=None,
        description="For a table, the dataset of files that holds what has left it; null "
        "when there is none.",
    )
    first_block: int | None = Field(
        description="First block that the dataset holds; null when nothing in it is a block range."
    )
    last_block: int | None = Field(
        description="Last block that the dataset holds; null when nothing in it is a block range."
    )
    gap_count: int = Field(description="Number of gaps between the first and the last block.")
    gaps: list[BlockGap] = Field(description="The first of these gaps.")
    upstream: list[str] = Field(description="The datasets that the dataset's job reads.")
    downstream: list[str] = Field(description="The jobs that read the dataset, as DAG.JOB.")


class DatasetVersion(Strict):
    """A generation of a dataset."""

    dataset_version: DatasetVersionId
    generation_id: UUID = Field(
        description="Id of the generation across all outputs of the job, which share it."
    )
    current: bool = Field(description="Whether readers see this generation.")
    active: bool = Field(description="Whether an active version of the DAG has this generation.")
    building: bool = Field(description="Whether the generation is being built.")
    created_at: datetime = Field(description="When the generation was made.")
    built_at: datetime | None = Field(description="When it was built completely; null until then.")
    purged_at: datetime | None = Field(
        description="When its data was deleted; null while it is there."
    )
    dag_versions: list[UUID] = Field(
        description="Ids of the DAG's versions that can be rolled back to only while this "
        "generation is there."
    )
    partitions: PartitionCount
    rows: RowCount
    rows_estimated: bool = Field(
        default=False, description="Whether the rows were estimated and not counted."
    )
    bytes: ByteCount


class DatasetVersions(Strict):
    dataset: Label
    versions: list[DatasetVersion] = Field(description="The generations, the newest first.")


class Partition(Strict):
    partition_key: str = Field(
        description="Key of the partition. For a block range it is START-END."
    )
    start: int | None = Field(
        description="First block of the partition; null when it is no block range."
    )
    end: int | None = Field(
        description="Last block of the partition, included; null when it is no block range."
    )
    rows: RowCount
    bytes: ByteCount
    files: int = Field(description="Number of files.")
    committed_at: datetime = Field(description="When the partition was committed.")
    task_id: UUID | None = Field(
        description="Id of the task that wrote it; null for a webhook's delivery, which no "
        "task writes."
    )
    attempt: int | None = Field(
        description="Number of the attempt that wrote it; null for a webhook's delivery."
    )


class Partitions(Strict):
    dataset: Label
    dataset_version: DatasetVersionId
    cold_of: str | None = Field(
        default=None,
        description="When a table was asked for, its name: these are the files of its cold "
        "part. Else null.",
    )
    partitions: list[Partition] = Field(description="The partitions of this page, in order.")
    next: str | None = Field(
        description="Where the next page begins, to be given as `after`; null on the last page."
    )


class PartitionColumns(Strict):
    """Partitions in order, one list for each of their fields."""

    dataset_version: DatasetVersionId
    start: list[int | None] = Field(description="First blocks; null where there is no range.")
    end: list[int | None] = Field(description="Last blocks, included; null without a range.")
    key: list[str | None] = Field(description="Keys; null for a block range, START-END.")
    rows: list[int] = Field(description="Numbers of rows.")
    bytes: list[int] = Field(description="Numbers of bytes.")
    files: list[int] = Field(description="Numbers of files.")
    committed_ms: list[int] = Field(
        description="When they were committed, in milliseconds since 1970."
    )
    task_id: list[UUID | None] = Field(
        description="Ids of the tasks that wrote them; null for a webhook's delivery."
    )
    attempt: list[int | None] = Field(description="Numbers of the attempts that wrote them.")
    next: str | None = Field(
        description="Where the next page begins, to be given as `after`; null on the last page."
    )


class LineageNode(Strict):
    id: str = Field(
        description="What the node is: a dataset's name or DAG.JOB.OUTPUT, a job as DAG.JOB, "
        "or a column as DATASET.COLUMN."
    )
    kind: Literal["dataset", "job", "column"] = Field(description="What kind of thing the node is.")
    producer: str | None = Field(
        description="The job that it belongs to, as DAG.JOB; null for a column that nobody "
        "publishes."
    )
    active: bool = Field(default=True, description="Whether an active version of a DAG has it.")


class LineageEdge(Strict):
    """Data flows from one node to the other."""

    source: str = Field(description="Id of the node that data flows from.")
    target: str = Field(description="Id of the node that data flows to.")


class Lineage(Strict):
    subject: str = Field(description="Id of the node that was asked for.")
    direction: Direction = Field(
        description="Whether the nodes are upstream of the subject, downstream of it, or both."
    )
    nodes: list[LineageNode] = Field(description="The subject and everything it is connected with.")
    edges: list[LineageEdge] = Field(description="How data flows between the nodes.")
    truncated: bool = Field(
        description="Whether there is more beyond the depth that was asked for."
    )


class Graph(Strict):
    nodes: list[LineageNode] = Field(description="Every dataset and job of the active versions.")
    edges: list[LineageEdge] = Field(description="How data flows between the nodes.")


class DatasetReason(Reason):
    level: DatasetState = Field(
        description="How much the reason matters. `fresh`: worth knowing, and no cause to wait."
    )
    at: str = Field(description="Where upstream it is, as DAG.JOB or a dataset.")
    steps: int = Field(description="How many jobs upstream that is; 0 is the dataset itself.")


class DatasetWhy(Strict):
    """Whether a dataset is up to date, and what keeps it from being so."""

    dataset: Label
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    producer: Producer
    state: DatasetState = Field(
        description="Whether the dataset is up to date, will be, or needs somebody to act."
    )
    answer: str = Field(
        description="What keeps the dataset from being up to date, in one sentence."
    )
    reasons: list[DatasetReason] = Field(
        description="Everything that explains it: what blocks comes first, and of equals "
        "what is furthest upstream, as the cause of the others."
    )
    age_s: float | None = Field(
        description="Seconds since the generation's newest commit or event; null when there "
        "was none."
    )
    max_age_s: float | None = Field(
        description="Age in seconds beyond which the dataset counts as stale; null is no limit."
    )
