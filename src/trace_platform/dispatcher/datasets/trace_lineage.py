"""What something comes from and what comes of it, across DAGs, as the active versions have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

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
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import datasets, overview, registry
from trace_platform.wire.dataset import Direction, Lineage, LineageEdge, LineageNode

# A dataset by its uuid, or a job.
Node = UUID | JobKey
# A dataset, or the name of one that nobody publishes, and a column of it.
Column = tuple[UUID | str, str]
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
    """Of a dataset, of a job as DAG.JOB, or of a column of a dataset. One step of `depth` is from
    a dataset over a job to the next."""
    async with overview.snapshot(state) as tx:
        survey = await survey_datasets(tx, org_id)
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
    found: UUID = (await find_dataset(tx, org_id, subject))["uuid"]
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


async def _of_column(
    tx: Tx,
    org_id: UUID,
    survey: Survey,
    subject: str,
    column: str,
    direction: Direction,
    depth: int,
) -> Lineage:
    found = await datasets.find(tx, org_id, subject)
    dataset = found or await find_dataset(tx, org_id, subject)
    origins = _origins(survey, await registry.column_lineage(tx, org_id))
    _refuse_unknown_column(survey.datasets[dataset["uuid"]], column)
    start: Column = (dataset["uuid"], column)
    made_of: dict[Column, list[Column]] = defaultdict(list)
    for target, source in origins:
        made_of[source].append(target)
    comes_from: dict[Column, list[Column]] = defaultdict(list)
    for target, source in origins:
        comes_from[target].append(source)
    edges, truncated = _walk(
        start,
        lambda node: comes_from.get(node, []),
        lambda node: made_of.get(node, []),
        direction,
        depth,
    )
    return Lineage(
        subject=_column_label(survey, start),
        direction=direction,
        nodes=[_column_node(survey, each) for each in _in_order(start, edges)],
        edges=[
            LineageEdge(source=_column_label(survey, a), target=_column_label(survey, b))
            for a, b in edges
        ],
        truncated=truncated,
    )


def _origins(survey: Survey, rows: Sequence[Row]) -> list[tuple[Column, Column]]:
    """Each column that says so, and one that it comes from."""
    named = {row["name"]: row for row in survey.datasets.values() if row["name"] is not None}
    return [
        (
            (row["dataset_uuid"], row["column_name"]),
            (_meant(survey, named, row), row["input_column"]),
        )
        for row in rows
    ]


def _meant(survey: Survey, named: dict[str, Row], line: Row) -> UUID | str:
    """What a DAG file calls so: a dataset that the DAG publishes, else a job of it, else a dataset
    that another publishes. Of a job with several outputs, one that is read to make the column."""
    name: str = line["input_dataset"]
    dag_name, job_name = survey.producer(line["dataset_uuid"])
    published = named.get(name)
    outputs = survey.writes.get((dag_name, name), [])
    if (published is None or published["dag_name"] != dag_name) and outputs:
        read = [each for each in survey.reads.get((dag_name, job_name), []) if each in outputs]
        return (read or outputs)[0]
    if published is None:
        return name
    found: UUID = published["dataset_uuid"]
    return found


def _column_label(survey: Survey, column: Column) -> str:
    owner, name = column
    shown = dataset_label(survey.datasets[owner]) if isinstance(owner, UUID) else owner
    return f"{shown}.{name}"


def _column_node(survey: Survey, column: Column) -> LineageNode:
    owner = column[0]
    known = isinstance(owner, UUID)
    producer = survey.producer(owner) if isinstance(owner, UUID) else None
    return LineageNode(
        id=_column_label(survey, column),
        kind="column",
        producer=job_label(producer) if producer else None,
        active=known and producer in survey.jobs,
    )


def _refuse_unknown_column(row: Row, column: str) -> None:
    """Of a dataset without a schema any column may be meant."""
    schema = row["metadata"].get("schema")
    if schema is None or column in schema:
        return
    raise BadInput(
        f"the schema of '{dataset_label(row)}' has no column '{column}'",
        hint=instead(column, list(schema), most=20),
    )
