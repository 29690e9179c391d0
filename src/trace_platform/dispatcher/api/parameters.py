"""Parameters that several routes take."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

# A DAG's, a job's.
Named = Annotated[str, Path(min_length=1, max_length=128)]
DatasetName = Annotated[
    str,
    Field(min_length=1, max_length=512, description="A published name, a uuid, or DAG.JOB.OUTPUT."),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most this many, the newest first.")]
