"""What a deploy would do, as data: shown, saved, and applied unchanged or not at all."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from trace_platform.domain.digest import digest
from trace_platform.wire.operator_code import CodeFiles
from trace_platform.wire.task import Strict

# added, changed, affected: its data is built, the last because of what it reads. updated: it runs
# differently and keeps its data.
Action = Literal["added", "changed", "affected", "updated", "removed", "unchanged"]
BUILT: frozenset[Action] = frozenset({"added", "changed", "affected"})


class Amount(Strict):
    """How much data, and how long it takes; None where the past does not tell."""

    partitions: int = 0
    rows: int = 0
    bytes: int = 0
    # Work, as if one task ran at a time.
    seconds: float | None = None


class JobChange(Strict):
    job: str
    action: Action
    # One sentence each.
    why: list[str]
    # The data was built by an earlier version and is still there: only what is missing is made.
    reuses: bool = False
    # What its outputs hold now: the size of what is built anew, or stays.
    holds: Amount = Amount()

    @property
    def builds(self) -> bool:
        return self.action in BUILT


class PublishChange(Strict):
    dataset: str
    action: Literal["published", "unpublished", "moved", "redescribed"]
    why: str


class Reader(Strict):
    """A job of another DAG that reads what is built anew, or a name that goes."""

    dag_name: str
    job_name: str
    dataset: str


class Plan(Strict):
    dag_name: str
    file: str
    # What is active; the plan holds as long as that is so.
    base_version: UUID | None
    content_hash: str
    jobs: list[JobChange]
    publishes: list[PublishChange]
    readers: list[Reader]
    # Tasks that can run at once, as far as workers say.
    slots: int
    # Of what is right in the file and has no effect, each with its line; and of what the DAG needs
    # and is not there, one sentence each. It can be deployed all the same.
    warnings: list[str] = []

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
    yaml: str
    file: str = Field(default="dag.yaml", max_length=512)
    code: CodeFiles = {}


class SavedPlan(Strict):
    """A plan in a file, with all that it takes to apply it."""

    yaml: str
    code: CodeFiles = {}
    plan: Plan
    plan_hash: str
    saved_at: datetime


class RollbackRequest(Strict):
    # The version that was active before this one, unless given.
    to_version: UUID | None = None
    # The version that shall not be active, or built, any more: said so, a request that is repeated
    # because its reply was lost does not go back twice.
    instead_of: UUID | None = None


class RollbackPlan(Strict):
    """What a rollback would do now."""

    dag_name: str
    # What would not be active, or built, any more.
    instead_of: UUID | None
    # What would be active; None when nothing was before.
    to_version: UUID | None
    # The names that would stand for nothing any more, and who of other DAGs reads them.
    unpublishes: list[str] = []
    readers: list[Reader] = []


class RemovalPlan(Strict):
    """What the removal of a DAG would do now."""

    dag_name: str
    # The version that is active.
    dag_version: UUID
    # Sources that finish what they have begun and end.
    sources: list[str]
    # Names that would stand for nothing any more.
    unpublishes: list[str]
    # Tasks that have not ended, and backfills: canceled.
    tasks: int
    backfills: int
    # Data that is kept, until it is purged.
    keeps: Amount
    # A DAG that others read, or that is being built, is not removed.
    readers: list[Reader]
    building: UUID | None


class RemovalRequest(Strict):
    # The version that is active as far as the caller knows: with another one nothing is removed.
    dag_version: UUID | None = None


class RemovalResponse(Strict):
    dag_name: str
    # What was active until now.
    dag_version: UUID
    deploy_id: UUID
    unpublished: list[str]
    # Tasks and backfills that had not ended.
    tasks: int
    backfills: int


class DeployProgress(Strict):
    """How far a job of a version that is being built is."""

    job: str
    # Partitions of its outputs: made so far, and in the generation that it replaces.
    partitions: int
    before: int
    # Tasks that have not ended.
    tasks: int


class DeployStatus(Strict):
    deploy_id: UUID
    dag_name: str
    kind: Literal["deploy", "rollback", "removal"]
    from_version: UUID | None
    # None of a removal.
    to_version: UUID | None
    status: Literal["Building", "CutOver", "Failed", "Canceled"]
    error: str | None
    started_at: datetime
    ended_at: datetime | None
    progress: list[DeployProgress] = []


class DeployList(Strict):
    deploys: list[DeployStatus]


class DagVersion(Strict):
    dag_version: UUID
    dag_name: str
    content_hash: str
    created_at: datetime
    active: bool
    activated_at: datetime | None
    # Some of its data is gone: it cannot be rolled back to.
    purged: bool


class DagVersionList(Strict):
    versions: list[DagVersion]


class DagVersionDetail(DagVersion):
    yaml: str


DagState = Literal["Active", "Building", "Removed", "NotBuilt"]


class DagSummary(Strict):
    dag_name: str
    # Active: of what is active. Building: a version is being built, beside that or as the first.
    # Removed, NotBuilt: none is active; what was last deployed.
    state: DagState
    dag_version: UUID
    jobs: int
    sources: int
    job_names: list[str]
    # The names under which it publishes now.
    datasets: list[str]
    # Jobs that a user paused.
    paused: int
    activated_at: datetime | None
    # The newest deploy, rollback or removal.
    last_deploy: DeployStatus | None


class DagList(Strict):
    dags: list[DagSummary]
