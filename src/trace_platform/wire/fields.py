"""Fields that many payloads have, each described once. What may be null says itself what null
means."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from trace_platform.domain.block_range import MAX_BLOCK

BlockNumber = Annotated[int, Field(ge=0, le=MAX_BLOCK)]


class Strict(BaseModel):
    # What checks a payload is built with the first one: a command line knows a hundred kinds, and
    # has to do with two.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


WorkerId = Annotated[str, Field(min_length=1, max_length=256)]

DagName = Annotated[str, Field(description="Name of the DAG.")]
JobName = Annotated[str, Field(description="Name of the job within its DAG.")]
TaskId = Annotated[UUID, Field(description="Id of the task.")]
Attempt = Annotated[int, Field(description="Number of the attempt, counted from 1 for each task.")]
OutputIndex = Annotated[
    int, Field(description="Position of the output in the job's `outputs`, from 0.")
]
Label = Annotated[
    str,
    Field(description="The dataset's published name, or DAG.JOB.OUTPUT while it has none."),
]
Producer = Annotated[str, Field(description="The job that writes the dataset, as DAG.JOB.")]
DatasetUuid = Annotated[
    UUID, Field(description="Id of the dataset. It stays the same when the dataset is renamed.")
]
DatasetVersionId = Annotated[
    UUID,
    Field(
        description="Id of a generation of the dataset: the data of one definition of its job. "
        "A deploy that changes what the data means begins a new generation."
    ),
]
PartitionCount = Annotated[int, Field(description="Number of partitions.")]
RowCount = Annotated[int, Field(description="Number of rows.")]
ByteCount = Annotated[int, Field(description="Size in bytes.")]
