"""Parameters that several routes take."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

# A DAG's, a job's.
Named = Annotated[str, Path(min_length=1, max_length=128)]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most this many, the newest first.")]
