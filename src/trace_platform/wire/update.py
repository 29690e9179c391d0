"""What is said of datasets: an update of one, or that a part of one is wrong."""

from __future__ import annotations

from typing import Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from trace_platform.wire.fields import (
    BlockNumber,
    DatasetUuid,
    DatasetVersionId,
    Strict,
)


class EventScope(Strict):
    """What an update is about: a cursor, or a partition."""

    cursor: BlockNumber | None = Field(
        default=None,
        description="Block number or tick that the dataset reached. Given alone, without a "
        "partition.",
    )
    partition_key: str | None = Field(
        default=None,
        max_length=256,
        description="Key of the partition that changed. For a block range it is START-END.",
    )
    start: BlockNumber | None = Field(
        default=None,
        description="First block of the partition; null for a partition that is no block range.",
    )
    end: BlockNumber | None = Field(
        default=None,
        description="Last block of the partition, included; null for a partition that is no "
        "block range.",
    )

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
        if (self.cursor is None) == (self.partition_key is None):
            raise ValueError("give either cursor, or partition_key with start and end")
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end come together")
        if self.start is not None:
            if self.partition_key != f"{self.start}-{self.end}":
                raise ValueError("partition_key of a block range is START-END, inclusive")
            if self.end is not None and self.end < self.start:
                raise ValueError("end is before start")
        return self


class DatasetEvent(EventScope):
    """One update of one dataset generation."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId


class InvalidScope(Strict):
    """The part of a dataset that is not right any more: a partition by its key, or a range."""

    scope: Literal["partition", "row_range"] = Field(
        description="Whether a partition is wrong, named by its key, or a range of blocks."
    )
    partition_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="Key of the partition that is wrong. For a block range it is START-END.",
    )
    start: BlockNumber | None = Field(
        default=None, description="First block that is wrong; needed for a `row_range`."
    )
    end: BlockNumber | None = Field(
        default=None, description="Last block that is wrong, included; needed for a `row_range`."
    )
    reason: str = Field(
        min_length=1,
        max_length=2_000,
        description="Why it is wrong, in words for the people who look into it later.",
    )

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end come together")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ValueError("end is before start")
        if self.scope == "row_range" and self.start is None:
            raise ValueError("a row_range has start and end")
        if self.scope == "partition" and self.partition_key is None:
            raise ValueError("a partition has a partition_key")
        ranged = f"{self.start}-{self.end}"
        if None not in (self.start, self.partition_key) and self.partition_key != ranged:
            raise ValueError("partition_key of a block range is START-END, inclusive")
        return self


class Invalidation(InvalidScope):
    """Of an attempt's output: it was rewritten. Of an input: it is wrong and must be made anew."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    request_id: UUID | None = Field(
        default=None,
        description="Id that the reporter chooses. The same id twice, also from another "
        "attempt, is one invalidation.",
    )
