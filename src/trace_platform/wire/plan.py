"""What a deploy would do, as data: shown, saved, and applied unchanged or not at all."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from trace_platform.domain.digest import digest
from trace_platform.wire.fields import ByteCount, DagName, JobName, PartitionCount, RowCount
from trace_platform.wire.operator_code import CodeFiles
from trace_platform.wire.task import Strict

Action = Literal["added", "changed", "affected", "updated", "removed", "unchanged"]
BUILT: frozenset[Action] = frozenset({"added", "changed", "affected"})


class Amount(Strict):
    """How much data, and how long it takes."""

    partitions: PartitionCount = 0
    rows: RowCount = 0
    bytes: ByteCount = 0
    seconds: float | None = Field(
        default=None,
        description="Seconds of work, as if one task ran at a time; null when past tasks do "
        "not tell.",
    )


class ColumnChange(Strict):
    column: str = Field(description="Name of the column.")
    change: Literal["added", "removed", "changed"] = Field(
        description="What becomes of the column. `changed`: it has another type, is computed in "
        "another way, or comes from a column that changes."
    )
    why: str = Field(description="Why that is so, in one sentence.")


class OutputChange(Strict):
    """What of an output that is built anew will not be as it was."""

    output: str = Field(description="Name of the job's output.")
    rows: bool = Field(
        description="Whether other rows may be there: a filter, a join or a key changed, or the "
        "rows that are read."
    )
    columns: list[ColumnChange] = Field(description="The columns that change; no others do.")


class JobChange(Strict):
    job: JobName
    action: Action = Field(
        description="What the deploy does to the job. `added`, `changed` and `affected`: its "
        "data is built, `affected` because of something that it reads. `updated`: it runs "
        "differently and keeps its data."
    )
    why: list[str] = Field(description="Why that is so, a sentence for each cause.")
    reuses: bool = Field(
        default=False,
        description="Whether an earlier version built the same data and it is still there, "
        "so that only what is missing is made.",
    )
    holds: Amount = Field(
        default=Amount(),
        description="What the job's outputs hold now: about the amount that is built anew, "
        "or that stays.",
    )
    columns: list[OutputChange] | None = Field(
        default=None,
        description="Of a job that is `changed` or `affected`, by output, which columns change; "
        "null where that does not follow from SQL, decoding or compaction.",
    )

    @property
    def builds(self) -> bool:
        return self.action in BUILT


class PublishChange(Strict):
    dataset: str = Field(description="The published name.")
    action: Literal["published", "unpublished", "moved", "redescribed"] = Field(
        description="What becomes of the name."
    )
    why: str = Field(description="Why that is so, in one sentence.")


class Reader(Strict):
    """A job of another DAG that reads what is built anew, or a name that goes."""

    dag_name: str = Field(description="Name of the other DAG.")
    job_name: str = Field(description="Name of its job.")
    dataset: str = Field(description="Published name of the dataset that the job reads.")


class Plan(Strict):
    dag_name: DagName
    file: str = Field(description="Name of the DAG file.")
    base_version: UUID | None = Field(
        description="Id of the version that is active; null when none is. The plan holds as "
        "long as that is so."
    )
    content_hash: str = Field(
        description="SHA-256 of what the file means: formatting and comments do not change it."
    )
    jobs: list[JobChange] = Field(description="What becomes of each job.")
    publishes: list[PublishChange] = Field(
        description="What becomes of each published name that changes."
    )
    readers: list[Reader] = Field(
        description="Jobs of other DAGs that read what is built anew, or a name that goes."
    )
    slots: int = Field(
        description="Number of tasks that can run at once, as far as workers have said."
    )
    warnings: list[str] = Field(
        default=[],
        description="Mistakes in the file that have no effect, each with its line, and "
        "things that the DAG needs and that are missing here. The DAG can be deployed all the "
        "same.",
    )

    @property
    def changes(self) -> list[JobChange]:
        return [job for job in self.jobs if job.action != "unchanged"]

    @property
    def builds(self) -> list[JobChange]:
        return [job for job in self.jobs if job.builds]

    @property
    def total(self) -> Amount:
        """Of what is built anew. What is reused is there already."""
        anew = [job.holds for job in self.builds if not job.reuses]
        known = [amount.seconds for amount in anew if amount.seconds is not None]
        return Amount(
            partitions=sum(amount.partitions for amount in anew),
            rows=sum(amount.rows for amount in anew),
            bytes=sum(amount.bytes for amount in anew),
            seconds=sum(known) if known else None,
        )

    @property
    def plan_hash(self) -> str:
        """Of what would be done, not of how much data there is by now."""
        done = [[job.job, job.action, job.reuses] for job in self.jobs]
        named = [[each.dataset, each.action] for each in self.publishes]
        read = [[each.dag_name, each.job_name, each.dataset] for each in self.readers]
        version = str(self.base_version)
        return digest([self.dag_name, version, self.content_hash, done, named, read])


class PlanRequest(Strict):
    yaml: str = Field(description="Text of the DAG file.")
    file: str = Field(
        default="dag.yaml",
        max_length=512,
        description="Name of the DAG file, as errors shall show it.",
    )
    code: CodeFiles = Field(
        default={}, description="Python files beside the DAG file that its operators need, by name."
    )


class SavedPlan(Strict):
    """A plan in a file, with all that it takes to apply it."""

    yaml: str = Field(description="Text of the DAG file.")
    code: CodeFiles = Field(
        default={}, description="Python files beside the DAG file that its operators need, by name."
    )
    plan: Plan = Field(description="What the deploy would do.")
    plan_hash: str = Field(
        description="Hash of the plan, which the deploy repeats so that it does this or nothing."
    )
    saved_at: datetime = Field(description="When the plan was saved.")


class RollbackRequest(Strict):
    to_version: UUID | None = Field(
        default=None,
        description="Id of the version to make active; the one that was active before unless "
        "given.",
    )
    instead_of: UUID | None = Field(
        default=None,
        description="Id of the version that shall not be active, or built, any more. With "
        "it, a request that is repeated because its answer was lost does not go back twice.",
    )


class RollbackPlan(Strict):
    """What a rollback would do now."""

    dag_name: DagName
    instead_of: UUID | None = Field(
        description="Id of the version that would not be active, or built, any more; null "
        "when there is none."
    )
    to_version: UUID | None = Field(
        description="Id of the version that would be active; null when none was before."
    )
    unpublishes: list[str] = Field(
        default=[], description="Published names that would stand for nothing any more."
    )
    readers: list[Reader] = Field(
        default=[], description="Jobs of other DAGs that read these names."
    )


class RemovalPlan(Strict):
    """What the removal of a DAG would do now."""

    dag_name: DagName
    dag_version: UUID = Field(
        description="Id of the version that is active; of a DAG that was never built the one that "
        "was deployed last."
    )
    sources: list[str] = Field(
        description="Names of the sources that would finish what they have begun and end."
    )
    unpublishes: list[str] = Field(
        description="Published names that would stand for nothing any more."
    )
    tasks: int = Field(description="Number of tasks that have not ended and would be canceled.")
    backfills: int = Field(
        description="Number of backfills that have not ended and would be canceled."
    )
    keeps: Amount = Field(description="Data that is kept until it is purged.")
    readers: list[Reader] = Field(
        description="Jobs of other DAGs that read the DAG's datasets. While there are any, "
        "the DAG is not removed."
    )
    building: UUID | None = Field(
        description="Id of a version that is being built; null when none is. While there is "
        "one, the DAG is not removed."
    )


class RemovalRequest(Strict):
    dag_version: UUID | None = Field(
        default=None,
        description="Id of the version that the caller takes for the active one. If another "
        "one is active, nothing is removed.",
    )


class RemovalResponse(Strict):
    dag_name: DagName
    dag_version: UUID = Field(
        description="Id of the version that was active until now; of a DAG that was never built "
        "the one that was deployed last."
    )
    deploy_id: UUID = Field(description="Id of the removal among the deploys.")
    unpublished: list[str] = Field(description="Published names that stand for nothing any more.")
    tasks: int = Field(description="Number of tasks that had not ended and were canceled.")
    backfills: int = Field(description="Number of backfills that had not ended and were canceled.")


class DeployProgress(Strict):
    """How far a job of a version that is being built is."""

    job: JobName
    partitions: int = Field(description="Partitions of the job's outputs that were made so far.")
    before: int = Field(description="Partitions of its outputs in the generation that is replaced.")
    tasks: int = Field(description="Number of tasks that have not ended.")


class DeployStatus(Strict):
    deploy_id: UUID = Field(description="Id of the deploy.")
    dag_name: DagName
    kind: Literal["deploy", "rollback", "removal"] = Field(
        description="Whether it is a deploy, a rollback or a removal."
    )
    from_version: UUID | None = Field(
        description="Id of the version that was active before; null when none was."
    )
    to_version: UUID | None = Field(
        description="Id of the version that becomes active; null for a removal."
    )
    status: Literal["Building", "CutOver", "Failed", "Canceled"] = Field(
        description="`Building`: data is being built, and the old version serves. `CutOver`: "
        "it took effect. `Failed`, `Canceled`: it did not."
    )
    error: str | None = Field(description="Why it failed; null when it did not.")
    started_at: datetime = Field(description="When it started.")
    ended_at: datetime | None = Field(description="When it ended; null while it is being built.")
    progress: list[DeployProgress] = Field(
        default=[], description="How far each job that is built is."
    )


class DeployList(Strict):
    deploys: list[DeployStatus] = Field(
        description="The deploys, rollbacks and removals, the newest first."
    )


class DagVersion(Strict):
    dag_version: UUID = Field(description="Id of the version.")
    dag_name: DagName
    content_hash: str = Field(
        description="SHA-256 of what the file means: formatting and comments do not change it."
    )
    created_at: datetime = Field(description="When the version was first deployed.")
    active: bool = Field(description="Whether this version is active.")
    activated_at: datetime | None = Field(
        description="When it became active; null unless it is active."
    )
    purged: bool = Field(
        description="Whether some of its data was deleted, so that it cannot be rolled back to."
    )


class DagVersionList(Strict):
    versions: list[DagVersion] = Field(description="The versions, the newest first.")


class DagVersionDetail(DagVersion):
    yaml: str = Field(description="Text of the DAG file.")


DagState = Literal["Active", "Building", "Removed", "NotBuilt"]


class DagSummary(Strict):
    dag_name: DagName
    state: DagState = Field(
        description="`Active`: a version is active. `Building`: a version is being built, "
        "beside an active one or as the first. `Removed`, `NotBuilt`: none is active, and the "
        "rest is about what was last deployed."
    )
    dag_version: UUID = Field(description="Id of the version that the other fields are about.")
    jobs: int = Field(description="Number of jobs, sources included.")
    sources: int = Field(description="Number of sources.")
    job_names: list[str] = Field(description="Names of all jobs.")
    datasets: list[str] = Field(description="Names under which the DAG publishes now.")
    paused: int = Field(description="Number of jobs that a user paused.")
    activated_at: datetime | None = Field(
        description="When the active version became active; null when none is active."
    )
    last_deploy: DeployStatus | None = Field(
        description="The newest deploy, rollback or removal; null when none is on record."
    )


class DagList(Strict):
    dags: list[DagSummary] = Field(description="The DAGs, by name.")
