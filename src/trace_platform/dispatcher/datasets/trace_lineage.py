"""What something comes from and what comes of it, across DAGs, as the active versions have it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from trace_platform.dispatcher.datasets.column_graph import (
    Column,
    ColumnGraph,
    column,
    column_graph,
)
from trace_platform.dispatcher.datasets.find_dataset import find_dataset
from trace_platform.dispatcher.datasets.survey_datasets import (
    JobKey,
    Survey,
    dataset_label,
    job_label,
    survey_datasets,
)
from trace_platform.dispatcher.versions.find_job import find_job
from trace_platform.domain.alike import instead
from trace_platform.domain.errors import BadInput
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, datasets, overview
from trace_platform.state.registry import DatasetNow
from trace_platform.wire.dataset import Direction, Lineage, LineageEdge, LineageNode

# A dataset by its uuid, or a job.
Node = UUID | JobKey
Thing = TypeVar("Thing", bound=Hashable)
Neighbours = Callable[[Thing], Iterable[Thing]]


async def trace_lineage(
    state: Database,
    org_id: UUID,
    subject: str,
    column: str | None,
    direction: Direction,
    depth: int,
) -> Lineage:
    """Of a dataset, of a job as DAG.JOB, or of a column, as `column` of a dataset or as
    DATASET.COLUMN. One step of `depth` is from a dataset over a job to the next."""
    async with overview.snapshot(state) as tx:
        survey = await survey_datasets(tx, org_id)
        if column is None and "." in subject:
            subject, column = await _meant_column(tx, org_id, subject)
        if column is not None:
            return await _of_column(tx, org_id, survey, subject, column, direction, depth)
        start = await _start(tx, org_id, subject)
    up, down = _neighbours(survey)
    edges, truncated = _walk(start, up, down, direction, 2 * depth)
    label = _labels(survey)
    return Lineage(
        subject=label(start),
        direction=direction,
        nodes=[_node(survey, each) for each in _in_order(start, edges)],
        edges=[LineageEdge(source=label(a), target=label(b)) for a, b in edges],
        truncated=truncated,
    )


async def _start(tx: Tx, org_id: UUID, subject: str) -> Node:
    dag_name, dot, job_name = subject.partition(".")
    if dot and "." not in job_name:
        await find_job(tx, org_id, dag_name, job_name)
        return dag_name, job_name
    found: UUID = (await find_dataset(tx, org_id, subject)).uuid
    return found


def _neighbours(survey: Survey) -> tuple[Neighbours[Node], Neighbours[Node]]:
    def up(node: Node) -> Iterable[Node]:
        if isinstance(node, UUID):
            return [survey.producer(node)]
        return survey.reads.get(node, [])

    def down(node: Node) -> Iterable[Node]:
        if isinstance(node, UUID):
            return survey.readers.get(node, [])
        return survey.writes.get(node, [])

    return up, down


def _walk(
    start: Thing,
    up: Neighbours[Thing],
    down: Neighbours[Thing],
    direction: Direction,
    hops: int,
) -> tuple[list[tuple[Thing, Thing]], bool]:
    """The edges in the direction of the data, nearest first, and whether there are more."""
    edges: dict[tuple[Thing, Thing], None] = {}
    truncated = False
    if direction in ("up", "both"):
        found, more = _spread(start, up, hops)
        edges |= {(other, node): None for node, other in found}
        truncated |= more
    if direction in ("down", "both"):
        found, more = _spread(start, down, hops)
        edges |= dict.fromkeys(found)
        truncated |= more
    return list(edges), truncated


def _spread(
    start: Thing, neighbours: Neighbours[Thing], hops: int
) -> tuple[list[tuple[Thing, Thing]], bool]:
    seen, ahead, edges = {start}, [start], []
    for _ in range(hops):
        found = [(node, other) for node in ahead for other in neighbours(node)]
        edges += found
        ahead = list(dict.fromkeys(other for _, other in found if other not in seen))
        seen |= set(ahead)
    return edges, any(other not in seen for node in ahead for other in neighbours(node))


def _in_order(start: Thing, edges: Sequence[tuple[Thing, Thing]]) -> list[Thing]:
    return list(dict.fromkeys([start, *(node for edge in edges for node in edge)]))


def _labels(survey: Survey) -> Callable[[Node], str]:
    def label(node: Node) -> str:
        return dataset_label(survey.datasets[node]) if isinstance(node, UUID) else job_label(node)

    return label


def _node(survey: Survey, node: Node) -> LineageNode:
    if isinstance(node, UUID):
        producer = survey.producer(node)
        return LineageNode(
            id=dataset_label(survey.datasets[node]),
            kind="dataset",
            producer=job_label(producer),
            active=producer in survey.jobs,
        )
    name = job_label(node)
    return LineageNode(id=name, kind="job", producer=name, active=node in survey.jobs)


async def _meant_column(tx: Tx, org_id: UUID, subject: str) -> tuple[str, str | None]:
    """DATASET.COLUMN, where no dataset and no job is called so."""
    dataset, _, column = subject.rpartition(".")
    dag_name, _, job_name = subject.partition(".")
    if await datasets.find(tx, org_id, subject) is not None:
        return subject, None
    if await dags.active_job(tx, org_id, dag_name, job_name) is not None:
        return subject, None
    if await datasets.find(tx, org_id, dataset) is None:
        return subject, None
    return dataset, column


async def _of_column(
    tx: Tx,
    org_id: UUID,
    survey: Survey,
    subject: str,
    name: str,
    direction: Direction,
    depth: int,
) -> Lineage:
    dataset: UUID = (await find_dataset(tx, org_id, subject)).uuid
    graph = await column_graph(tx, org_id, survey)
    _refuse_unknown_column(survey.datasets[dataset], graph.columns.get(dataset, []), name)
    start = column(dataset, name)
    graph.spelled.setdefault(start, name)
    edges, truncated = _walk(
        start,
        lambda node: graph.comes_from.get(node, []),
        lambda node: graph.goes_to.get(node, []),
        direction,
        depth,
    )
    return Lineage(
        subject=graph.label(survey, start),
        direction=direction,
        nodes=[_column_node(survey, graph, each) for each in _in_order(start, edges)],
        edges=[
            LineageEdge(source=graph.label(survey, a), target=graph.label(survey, b))
            for a, b in edges
        ],
        truncated=truncated,
    )


def _column_node(survey: Survey, graph: ColumnGraph, column: Column) -> LineageNode:
    owner = column[0]
    producer = survey.producer(owner) if isinstance(owner, UUID) else None
    return LineageNode(
        id=graph.label(survey, column),
        kind="column",
        producer=job_label(producer) if producer else None,
        active=producer is not None and producer in survey.jobs,
    )


def _refuse_unknown_column(row: DatasetNow, derived: Sequence[str], column: str) -> None:
    """Of a dataset whose columns no file tells any may be meant."""
    known = list(dict.fromkeys([*(row.metadata.get("schema") or {}), *derived]))
    if not known or column.lower() in {each.lower() for each in known}:
        return
    raise BadInput(
        f"the schema of '{dataset_label(row)}' has no column '{column}'",
        hint=instead(column, known, most=20),
    )
