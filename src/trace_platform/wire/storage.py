"""What datasets take in the object store: files, what a purge deletes, what nobody needs."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from trace_platform.wire.fields import (
    ByteCount,
    DatasetVersionId,
    Label,
    PartitionCount,
    Producer,
    RowCount,
)
from trace_platform.wire.manifest import ManifestFile
from trace_platform.wire.task import Strict


class FileBytes(Strict):
    """What the files of a generation take."""

    live_bytes: int = Field(description="Size in bytes of the files that readers see.")
    superseded_bytes: int = Field(
        description="Size in bytes of the files that newer ones replaced and that are not "
        "deleted yet."
    )
    pinned_bytes: int = Field(
        description="Part of `superseded_bytes` that a running attempt may still be reading."
    )


class PurgeRequest(Strict):
    versions: list[UUID] = Field(
        min_length=1,
        max_length=1000,
        description="Ids of the generations to delete, each with all outputs of its job.",
    )


class PurgedGeneration(Strict):
    """What a purge deletes of one generation: all outputs of its job."""

    dataset_version: DatasetVersionId
    generation_id: UUID = Field(
        description="Id of the generation across all outputs of the job, which share it."
    )
    created_at: datetime = Field(description="When the generation was made.")
    in_use: str | None = Field(
        description="Why the generation cannot be deleted; null when it can."
    )
    purged_at: datetime | None = Field(
        description="When it was purged before, so that at most files are left of it; null "
        "when it was not."
    )
    datasets: list[str] = Field(description="The job's outputs, all of which lose the generation.")
    partitions: PartitionCount
    rows: RowCount
    bytes: ByteCount
    files: int = Field(description="Number of files.")
    dag_versions: list[UUID] = Field(
        description="Ids of the DAG's versions that can then not be rolled back to."
    )


class PurgePlan(Strict):
    dataset: Label
    producer: Producer
    generations: list[PurgedGeneration] = Field(
        description="The generations that were chosen, with what a purge of each would delete."
    )


class PurgeResponse(Strict):
    dataset: Label
    purged: list[UUID] = Field(description="Ids of the dataset's generations that are gone now.")
    objects: int = Field(description="Number of objects that this call deleted.")


class PartitionFiles(Strict):
    """A partition with what its manifest promises."""

    partition_key: str = Field(
        description="Key of the partition. For a block range it is START-END."
    )
    start: int | None = Field(
        description="First block of the partition; null when it is no block range."
    )
    end: int | None = Field(
        description="Last block of the partition, included; null when it is no block range."
    )
    location: str = Field(description="URI of the folder that the files are in.")
    files: list[ManifestFile] = Field(description="The files, as their manifest promises them.")
    rows: RowCount
    bytes: ByteCount
    schema_hash: str = Field(
        description="SHA-256 of the columns' names, types and nullability, in order."
    )
    task_id: UUID | None = Field(
        description="Id of the task that wrote it; null for a webhook's delivery, which has "
        "no manifest."
    )


class DatasetFiles(Strict):
    dataset: Label
    dataset_version: DatasetVersionId
    cold_of: str | None = Field(
        default=None,
        description="When a table was asked for, its name: these are the files of its cold "
        "part. Else null.",
    )
    current: bool = Field(
        description="Whether readers see this generation. If so, the platform can make a "
        "damaged partition anew."
    )
    count: int = Field(description="Number of partitions on all pages.")
    partitions: list[PartitionFiles] = Field(description="The partitions of this page, in order.")
    next: str | None = Field(
        description="Where the next page begins, to be given as `after`; null on the last page."
    )


class GarbageItem(Strict):
    """Objects that nobody needs."""

    place: str = Field(description="URI of the folder that the objects are in.")
    why: str = Field(
        description="Why nobody needs them: `not_committed`, `not_published`, `stray`, "
        "`delivery`, `log` or `superseded`."
    )
    objects: int = Field(description="Number of objects.")
    bytes: ByteCount


class Garbage(Strict):
    items: list[GarbageItem] = Field(description="What was deleted, or would be in a dry run.")
    unknown: list[str] = Field(
        description="Places that lie among the data and belong to nothing on record. They "
        "are left alone."
    )
    places: int = Field(description="Number of places that were looked at.")
    next: str | None = Field(
        description="Where the next round begins, to be given as `after`; null when all was "
        "looked at."
    )


class KeptFiles(FileBytes):
    """What one generation keeps, and why."""

    dataset: Label
    dataset_version: DatasetVersionId
    current: bool = Field(description="Whether readers see this generation.")
    superseded_partitions: int = Field(
        description="Number of partitions that newer ones replaced and whose files are still there."
    )
    retired_bytes: int = Field(
        description="Part of `superseded_bytes` that no new reader is given and that goes "
        "when the last reader ends."
    )
    next_retired_at: datetime | None = Field(
        description="When the next replaced partition is old enough to be retired; null when "
        "nothing was replaced."
    )


class GarbageExplanation(Strict):
    """What is kept in the object store, by which rule, and what holds back what could go."""

    superseded_days: float = Field(description="Days for which replaced files are kept.")
    superseded_versions: int = Field(description="Versions of one partition that are kept at most.")
    reader_grace_s: float = Field(
        description="Seconds that retired files stay for readers that began before."
    )
    oldest_reader: UUID | None = Field(
        description="Id of the task whose attempt holds back most: it started first of those "
        "that may read replaced files. Null when none runs."
    )
    oldest_reader_since: datetime | None = Field(
        description="When that attempt started; null when none runs."
    )
    generations: list[KeptFiles] = Field(description="What each generation keeps.")


class CollectRequest(Strict):
    dry_run: bool = Field(
        default=False, description="Say what would be deleted, and delete nothing."
    )
    after: str = Field(
        default="",
        max_length=2_000,
        description="The `next` of the answer before, to go on where it ended.",
    )
