"""Which datasets there are, who makes and who reads them: the active versions as one graph."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import registry
from trace_platform.state.registry import DatasetNow, DeployedJob

# DAG and job.
JobKey = tuple[str, str]


class Labelled(Protocol):
    """What a dataset is known by."""

    @property
    def name(self) -> str | None: ...
    @property
    def dag_name(self) -> str: ...
    @property
    def job_name(self) -> str: ...
    @property
    def output_index(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Survey:
    """Of one moment. Rows as `state.registry` gives them."""

    jobs: dict[JobKey, DeployedJob]
    datasets: dict[UUID, DatasetNow]
    # What each job reads, and who reads each dataset, in the order of the inputs.
    reads: dict[JobKey, list[UUID]]
    readers: dict[UUID, list[JobKey]]
    writes: dict[JobKey, list[UUID]]

    def producer(self, dataset_uuid: UUID) -> JobKey:
        row = self.datasets[dataset_uuid]
        return row.dag_name, row.job_name

    def jobs_above(self, job: JobKey) -> list[JobKey]:
        return list(dict.fromkeys(self.producer(each) for each in self.reads.get(job, ())))

    def upstream(self, job: JobKey) -> dict[JobKey, int]:
        """The job itself and all that lead to it, with how many steps away each is."""
        steps = {job: 0}
        ahead = [job]
        while ahead:
            distance = steps[ahead[0]] + 1
            above = (each for one in ahead for each in self.jobs_above(one))
            ahead = list(dict.fromkeys(each for each in above if each not in steps))
            steps |= dict.fromkeys(ahead, distance)
        return steps


async def survey_datasets(tx: Tx, org_id: UUID) -> Survey:
    jobs = {(row.dag_name, row.job_name): row for row in await registry.jobs(tx, org_id)}
    datasets = {row.dataset_uuid: row for row in await registry.datasets(tx, org_id)}
    reads: dict[JobKey, list[UUID]] = defaultdict(list)
    readers: dict[UUID, list[JobKey]] = defaultdict(list)
    for edge in await registry.edges(tx, org_id):
        job = edge.dag_name, edge.job_name
        if edge.dataset_uuid not in reads[job]:
            reads[job].append(edge.dataset_uuid)
            readers[edge.dataset_uuid].append(job)
    writes: dict[JobKey, list[UUID]] = defaultdict(list)
    for row in sorted(datasets.values(), key=lambda row: row.output_index):
        writes[row.dag_name, row.job_name].append(row.dataset_uuid)
    return Survey(jobs, datasets, dict(reads), dict(readers), dict(writes))


def dataset_label(row: Labelled) -> str:
    """The name that it is published under, or DAG.JOB.OUTPUT."""
    return row.name or f"{row.dag_name}.{row.job_name}.{row.output_index}"


def job_label(job: JobKey) -> str:
    return f"{job[0]}.{job[1]}"
