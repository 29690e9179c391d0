"""Attempts as OpenLineage events: what each read and wrote, and which columns come from which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from trace_platform.dispatcher.datasets.column_graph import (
    Column,
    ColumnGraph,
    column,
    column_graph,
)
from trace_platform.dispatcher.datasets.survey_datasets import (
    Survey,
    dataset_label,
    survey_datasets,
)
from trace_platform.dispatcher.openlineage.pending_runs import Note
from trace_platform.domain.prefix import attempt_prefix
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import runs
from trace_platform.state.runs import AttemptRow, Committed, ReadDataset, WrittenDataset
from trace_platform.wire import openlineage as wire
from trace_platform.wire.manifest import ManifestColumn

_ENDS: dict[str, wire.EventType] = {
    "Completed": "COMPLETE",
    "Failed": "FAIL",
    "LeaseExpired": "FAIL",
    "Canceled": "ABORT",
}
_MOST_MESSAGE = 2_000


@dataclass(slots=True)
class KnownLineage:
    """Of the versions that were active when it was last asked for: most batches find the same."""

    versions: tuple[UUID, ...] | None = None
    graph: ColumnGraph = field(default_factory=ColumnGraph)
    survey: Survey | None = None

    async def refresh(self, tx: Tx, org_id: UUID) -> None:
        now = await runs.active_versions(tx, org_id)
        if now != self.versions:
            self.survey = await survey_datasets(tx, org_id)
            self.graph = await column_graph(tx, org_id, self.survey)
            self.versions = now


@dataclass(frozen=True, slots=True)
class Place:
    """Who tells, and where attempts of the organisation stage what they write."""

    org_id: UUID
    bucket: str
    namespace: str


async def describe_runs(
    tx: Tx, place: Place, notes: Sequence[Note], known: KnownLineage
) -> list[wire.RunEvent]:
    """In the order of the notes. Of what is not on record any more nothing is told."""
    await known.refresh(tx, place.org_id)
    rows = await runs.attempts(tx, [(note.task_id, note.attempt) for note in notes])
    found = _Found(place, known, {(row.task_id, row.attempt): row for row in rows})
    for read in await runs.inputs(tx, list({row.job_id for row in rows})):
        found.inputs[read.job_id].append(read)
    for written in await runs.outputs(tx, list({row.generation_id for row in rows})):
        found.outputs[written.generation_id].append(written)
    locations = [
        found.location(row, each) for row in rows for each in found.outputs[row.generation_id]
    ]
    found.commits.update(await runs.commits(tx, locations))
    return [event for note in notes for event in found.events(note)]


@dataclass(frozen=True, slots=True)
class _Found:
    place: Place
    known: KnownLineage
    attempts: dict[tuple[UUID, int], AttemptRow]
    inputs: dict[UUID, list[ReadDataset]] = field(default_factory=lambda: defaultdict(list))
    outputs: dict[UUID, list[WrittenDataset]] = field(default_factory=lambda: defaultdict(list))
    commits: dict[str, Committed] = field(default_factory=dict)

    def location(self, row: AttemptRow, written: WrittenDataset) -> str:
        return attempt_prefix(
            self.place.bucket,
            self.place.org_id,
            written.dataset_uuid,
            written.dataset_version,
            row.task_id,
            row.attempt,
        )

    def events(self, note: Note) -> Iterator[wire.RunEvent]:
        row = self.attempts.get((note.task_id, note.attempt))
        if row is None:
            return
        if note.what == "ended":
            yield from self._end(row)
            return
        before = self.attempts.get((note.task_id, note.attempt - 1))
        if before is not None and before.outcome == "LeaseExpired":
            yield from self._end(before)
        yield self._event("START", row)

    def _end(self, row: AttemptRow) -> Iterator[wire.RunEvent]:
        if row.outcome is not None:
            yield self._event(_ENDS[row.outcome], row)

    def _event(self, kind: wire.EventType, row: AttemptRow) -> wire.RunEvent:
        at = row.started_at if kind == "START" else row.ended_at
        error = None
        if kind == "FAIL":
            said = f"{row.error_code or 'failed'}: {row.error_message or 'its worker went silent'}"
            error = wire.error_facet(said[:_MOST_MESSAGE])
        facets = wire.RunFacets(processing_engine=wire.engine_facet(), error_message=error)
        job = wire.Job(
            namespace=self.place.namespace,
            name=f"{row.dag_name}.{row.job_name}",
            facets=wire.JobFacets(job_type=wire.job_type_facet(row.operator)),
        )
        return wire.run_event(
            kind,
            at or row.started_at,
            # An attempt is a run of its own: one that failed and the next one are two.
            wire.Run(run_id=uuid5(row.task_id, str(row.attempt)), facets=facets),
            job,
            [self._input(each) for each in self.inputs[row.job_id]],
            [self._output(row, each) for each in self.outputs[row.generation_id]],
        )

    def _input(self, read: ReadDataset) -> wire.Dataset:
        version = read.dataset_version
        return wire.Dataset(
            namespace=self.place.namespace,
            name=read.dataset,
            facets=wire.DatasetFacets(
                schema=_schema(_columns(read)),
                version=wire.version_facet(str(version)) if version else None,
            ),
        )

    def _output(self, row: AttemptRow, written: WrittenDataset) -> wire.OutputDataset:
        done = self.commits.get(self.location(row, written))
        statistics = (
            wire.statistics_facet(done.row_count, done.byte_count, done.files) if done else None
        )
        return wire.OutputDataset(
            namespace=self.place.namespace,
            name=written.dataset,
            facets=wire.DatasetFacets(
                schema=_schema(_columns(written)),
                version=wire.version_facet(str(written.dataset_version)),
                column_lineage=self._column_lineage(written),
            ),
            output_facets=wire.OutputFacets(output_statistics=statistics),
        )

    def _column_lineage(self, written: WrittenDataset) -> wire.ColumnLineageFacet | None:
        graph, owner = self.known.graph, written.dataset_uuid
        names = graph.columns.get(owner) or [each.name for each in _columns(written)]
        fields = {
            name: wire.LineageField(input_fields=[self._field(o, "DIRECT") for o in origins])
            for name in names
            if (origins := graph.comes_from.get(column(owner, name)))
        }
        rows = [self._field(origin, "INDIRECT") for origin in graph.rows_from.get(owner, [])]
        return wire.column_lineage_facet(fields, rows) if fields or rows else None

    def _field(self, origin: Column, kind: wire.Directness) -> wire.InputField:
        owner, name = origin
        survey = self.known.survey
        shown = str(owner)
        if isinstance(owner, UUID) and survey is not None:
            shown = dataset_label(survey.datasets[owner])
        return wire.InputField(
            namespace=self.place.namespace,
            name=shown,
            field=self.known.graph.spelled.get(origin, name),
            transformations=[wire.Transformation(type=kind)],
        )


def _columns(dataset: ReadDataset | WrittenDataset) -> list[ManifestColumn]:
    return [ManifestColumn.model_validate(each) for each in dataset.columns]


def _schema(columns: Sequence[ManifestColumn]) -> wire.SchemaFacet | None:
    """Of what was committed; none before anything was."""
    if not columns:
        return None
    return wire.schema_facet([wire.SchemaField(name=each.name, type=each.type) for each in columns])
