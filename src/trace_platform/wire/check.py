"""What checks found: as an attempt reports it with its end, and as people see it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

MAX_SAMPLE = 10
MAX_TEXT = 2_000
# What stands for a value that tells about a person.
MASKED = "***"

# error: it could not be evaluated, which counts as failed.
Outcome = Literal["passed", "failed", "error"]
# By column, as text; None is null.
SampleRow = dict[str, str | None]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CheckReport(_Strict):
    """One check of one staged partition."""

    name: str = Field(min_length=1, max_length=128, description="Name of the check.")
    kind: str = Field(
        min_length=1, max_length=64, description="Kind of the check, such as not_null."
    )
    output_index: int = Field(ge=0, le=1_000, description="Which output of the job it looked at.")
    partition_key: str = Field(
        min_length=1, max_length=256, description="Key of the partition that it looked at."
    )
    start: int | None = Field(
        default=None, description="First block of the partition; null when it is no range."
    )
    end: int | None = Field(
        default=None, description="Last block of the partition; null when it is no range."
    )
    outcome: Outcome = Field(
        description="Whether it passed; error: it could not be evaluated, which counts as failed."
    )
    # Jobs that wait until the rows are good; all others read them.
    readers: list[str] = Field(
        default=[],
        max_length=64,
        description="Jobs that wait, when it fails, until the rows are good; all others read them.",
    )
    # Whether nothing is committed because of it.
    blocks_all: bool = Field(
        default=False, description="Whether nothing is committed when it fails."
    )
    rows: int = Field(ge=0, le=2**62, description="How many rows the partition has.")
    failing: int = Field(default=0, ge=0, le=2**62, description="How many of them are wrong.")
    message: str = Field(
        max_length=MAX_TEXT, description="What it found, in words that quote no value."
    )
    sample: list[SampleRow] = Field(
        default=[],
        max_length=MAX_SAMPLE,
        description="At most ten of the rows that are wrong: values as text, by column.",
    )


class CheckResult(_Strict):
    """One check of one partition, as it is kept."""

    dataset: str = Field(description="Published name of the dataset, or DAG.JOB.OUTPUT.")
    name: str = Field(description="Name of the check.")
    kind: str = Field(description="Kind of the check, such as not_null.")
    partition_key: str = Field(description="Key of the partition that it looked at.")
    outcome: Outcome = Field(
        description="Whether it passed; error: it could not be evaluated, which counts as failed."
    )
    # warn; block; or the jobs that it keeps waiting.
    on_failure: str = Field(
        description="Whom it blocks when it fails: warn, block, or block and the jobs by name."
    )
    rows: int = Field(description="How many rows the partition has.")
    failing: int = Field(description="How many of them are wrong.")
    message: str = Field(description="What it found, in words that quote no value.")
    sample: list[SampleRow] = Field(
        description="At most ten of the rows that are wrong: values as text, by column."
    )
    # Columns of the sample whose values are not shown.
    masked: list[str] = Field(description="Columns of the sample whose values are not shown.")
    # Whether the rows that it looked at were committed.
    committed: bool = Field(description="Whether the rows that it looked at were committed.")
    # Whether it keeps somebody from reading what is there now.
    blocks_now: bool = Field(
        description="Whether it keeps somebody from reading what was written, now."
    )
    checked_at: datetime = Field(description="When it was found.")
    task_id: UUID = Field(description="Id of the task that wrote the rows.")
    attempt: int = Field(description="Number of the attempt that wrote the rows.")


class CheckResults(_Strict):
    results: list[CheckResult] = Field(description="The results, the newest first.")


class CheckSummary(_Strict):
    """A check, by its newest result and what it has found so far."""

    dataset: str = Field(description="Published name of the dataset, or DAG.JOB.OUTPUT.")
    name: str = Field(description="Name of the check.")
    kind: str = Field(description="Kind of the check, such as not_null.")
    on_failure: str = Field(
        description="Whom it blocks when it fails: warn, block, or block and the jobs by name."
    )
    outcome: Outcome = Field(
        description="Whether it passed; error: it could not be evaluated, which counts as failed."
    )
    partition_key: str = Field(description="Key of the partition that it looked at.")
    checked_at: datetime = Field(description="When it was found.")
    passed: int = Field(description="How many of its results that are kept passed.")
    failed: int = Field(description="How many of its results that are kept did not.")


class CheckList(_Strict):
    checks: list[CheckSummary] = Field(description="The checks, by dataset and name.")
