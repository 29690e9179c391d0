"""Every dataset and job of the active versions, and what flows from which to which."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.datasets.survey_datasets import (
    Survey,
    dataset_label,
    job_label,
    survey_datasets,
)
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview
from trace_platform.wire.dataset import Graph, LineageEdge, LineageNode


async def whole_graph(state: Database, org_id: UUID) -> Graph:
    async with overview.snapshot(state) as tx:
        survey = await survey_datasets(tx, org_id)
    labels = _active_datasets(survey)
    return Graph(nodes=_nodes(survey, labels), edges=_edges(survey, labels))


def _active_datasets(survey: Survey) -> dict[UUID, str]:
    return {
        each: dataset_label(row)
        for each, row in survey.datasets.items()
        if survey.producer(each) in survey.jobs
    }


def _nodes(survey: Survey, labels: dict[UUID, str]) -> list[LineageNode]:
    jobs = [
        LineageNode(id=job_label(job), kind="job", producer=job_label(job)) for job in survey.jobs
    ]
    datasets = [
        LineageNode(id=label, kind="dataset", producer=job_label(survey.producer(each)))
        for each, label in labels.items()
    ]
    return jobs + datasets


def _edges(survey: Survey, labels: dict[UUID, str]) -> list[LineageEdge]:
    edges = []
    for job in survey.jobs:
        name = job_label(job)
        for each in survey.reads.get(job, ()):
            if each in labels:
                edges.append(LineageEdge(source=labels[each], target=name))
        for each in survey.writes.get(job, ()):
            edges.append(LineageEdge(source=name, target=labels[each]))
    return edges
