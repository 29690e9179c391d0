"""Parameters that several routes take."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query
from pydantic import Field

DagNamed = Annotated[str, Path(min_length=1, max_length=128, description="Name of the DAG.")]
JobNamed = Annotated[str, Path(min_length=1, max_length=128, description="Name of the job.")]
OfDag = Annotated[str, Query(description="Only of the DAG with this name.")]
OfTask = Annotated[UUID, Path(description="Id of the task.")]
OfBackfill = Annotated[UUID, Path(description="Id of the backfill.")]
DatasetName = Annotated[
    str,
    Field(min_length=1, max_length=512, description="A published name, a uuid, or DAG.JOB.OUTPUT."),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most this many, the newest first.")]
