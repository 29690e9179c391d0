"""Who saw columns that tell about persons."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.fields import DatasetUuid, DatasetVersionId
from trace_platform.wire.task import Strict


class PiiAccess(Strict):
    """A query that showed columns with personal data of one generation of a dataset."""

    query_id: UUID = Field(description="Id of the query.")
    caller: str = Field(
        description="Name of the user who asked, or `task:` and the id of the task."
    )
    kind: Literal["user", "task"] = Field(description="Whether a user asked or a task.")
    dataset: str = Field(
        description="What the dataset was called then: its published name, or DAG.JOB.OUTPUT."
    )
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    columns: list[str] = Field(
        description="Names of the columns with personal data whose values were shown."
    )
    accessed_at: datetime = Field(description="When the query was asked.")


class PiiAccesses(Strict):
    """`GET /v1/pii-access`; the newest first."""

    accesses: list[PiiAccess] = Field(
        description="The queries that showed personal data, the newest first."
    )
