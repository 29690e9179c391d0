"""Which columns come from which, over all active versions: as files declare it, and else as it
follows from their statements and operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from trace_platform.dispatcher.datasets.survey_datasets import Survey, dataset_label
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import derived_lineage, registry
from trace_platform.state.derived_lineage import DerivedOutput
from trace_platform.state.registry import DeclaredOrigin

# A dataset, or the name of one that nobody publishes, and a column of it in lower case: no reader
# tells `amountIn` from `amountin`.
Column = tuple[UUID | str, str]


@dataclass(frozen=True, slots=True)
class ColumnGraph:
    comes_from: dict[Column, list[Column]] = field(default_factory=lambda: defaultdict(list))
    goes_to: dict[Column, list[Column]] = field(default_factory=lambda: defaultdict(list))
    # Of datasets: the columns that decide which rows there are, as far as statements say.
    rows_from: dict[UUID, list[Column]] = field(default_factory=dict)
    # As who makes it spells it.
    spelled: dict[Column, str] = field(default_factory=dict)
    # Of datasets whose columns are known from their file, all of them.
    columns: dict[UUID, list[str]] = field(default_factory=dict)

    def add(self, column: Column, origin: Column) -> None:
        if origin not in self.comes_from[column]:
            self.comes_from[column].append(origin)
            self.goes_to[origin].append(column)

    def label(self, survey: Survey, column: Column) -> str:
        owner, name = column
        shown = dataset_label(survey.datasets[owner]) if isinstance(owner, UUID) else owner
        return f"{shown}.{self.spelled.get(column, name)}"


def column(owner: UUID | str, name: str) -> Column:
    return owner, name.lower()


async def column_graph(tx: Tx, org_id: UUID, survey: Survey) -> ColumnGraph:
    graph = ColumnGraph()
    declared = await registry.column_lineage(tx, org_id)
    for each in declared:
        _spell(graph, each.dataset_uuid, each.column_name)
    derived = await derived_lineage.of_active(tx, org_id)
    for output in derived:
        _know_columns(graph, output)
    _add_declared(graph, survey, declared)
    said = {column(each.dataset_uuid, each.column_name) for each in declared}
    for output in derived:
        _add_derived(graph, output, said)
    return graph


def _spell(graph: ColumnGraph, owner: UUID | str, name: str) -> None:
    graph.spelled.setdefault(column(owner, name), name)


def _know_columns(graph: ColumnGraph, output: DerivedOutput) -> None:
    names = [each.name for each in output.derivation.columns]
    graph.columns[output.dataset_uuid] = names
    for name in names:
        _spell(graph, output.dataset_uuid, name)


def _add_derived(graph: ColumnGraph, output: DerivedOutput, said: set[Column]) -> None:
    """What a file declares of a column is what its author wants people to see."""
    graph.rows_from[output.dataset_uuid] = [
        column(output.inputs[int(origin.source)], origin.column)
        for origin in output.derivation.rows_from
    ]
    for each in output.derivation.columns:
        made = column(output.dataset_uuid, each.name)
        if made not in said:
            for origin in each.origins:
                owner = output.inputs[int(origin.source)]
                _spell(graph, owner, origin.column)
                graph.add(made, column(owner, origin.column))


def _add_declared(graph: ColumnGraph, survey: Survey, declared: Sequence[DeclaredOrigin]) -> None:
    named = {row.name: uuid for uuid, row in survey.datasets.items() if row.name}
    for each in declared:
        owner = _meant(survey, named, each)
        _spell(graph, owner, each.input_column)
        made = column(each.dataset_uuid, each.column_name)
        graph.add(made, column(owner, each.input_column))


def _meant(survey: Survey, named: dict[str, UUID], said: DeclaredOrigin) -> UUID | str:
    """What a DAG file calls so: a dataset that the DAG publishes, else a job of it, else a dataset
    that another publishes. Of a job with several outputs, one that is read to make the column."""
    name = said.input_dataset
    dag_name, job_name = survey.producer(said.dataset_uuid)
    published = named.get(name)
    outputs = survey.writes.get((dag_name, name), [])
    if (published is None or survey.producer(published)[0] != dag_name) and outputs:
        read = [each for each in survey.reads.get((dag_name, job_name), []) if each in outputs]
        return (read or outputs)[0]
    return name if published is None else published
