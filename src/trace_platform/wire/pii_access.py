"""Who saw columns that tell about persons."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from trace_platform.wire.task import Strict


class PiiAccess(Strict):
    """A query that showed such columns of one generation of a dataset."""

    query_id: UUID
    caller: str
    kind: Literal["user", "task"]
    # What it was called then: its published name, or DAG.JOB.OUTPUT.
    dataset: str
    dataset_uuid: UUID
    dataset_version: UUID
    columns: list[str]
    accessed_at: datetime


class PiiAccesses(Strict):
    """`GET /v1/pii-access`; the newest first."""

    accesses: list[PiiAccess]
