"""OpenLineage 2-0-2, as far as Trace says it: a run event and its facets, in the words and the
spelling of that specification."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from trace_platform import __version__

PRODUCER = f"urn:trace-platform:{__version__}"
_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"

# INDIRECT: what decides which rows there are.
Directness = Literal["DIRECT", "INDIRECT"]
EventType = Literal["START", "COMPLETE", "FAIL", "ABORT"]


def _facet(version: str, name: str) -> str:
    return f"{_SPEC}/facets/{version}/{name}.json#/$defs/{name}"


class _Said(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    pass


class Facet(_Said):
    producer: str = msgspec.field(name="_producer")
    schema_url: str = msgspec.field(name="_schemaURL")


class SchemaField(_Said):
    name: str
    type: str | None = None


class SchemaFacet(Facet):
    fields: list[SchemaField]


class VersionFacet(Facet):
    dataset_version: str


class Transformation(_Said):
    type: Directness


class InputField(_Said):
    namespace: str
    name: str
    field: str
    transformations: list[Transformation]


class LineageField(_Said):
    input_fields: list[InputField]


class ColumnLineageFacet(Facet):
    fields: dict[str, LineageField]
    # What decides which rows there are.
    dataset: list[InputField] = []


class StatisticsFacet(Facet):
    row_count: int
    size: int
    file_count: int


class ErrorFacet(Facet):
    message: str
    programming_language: str


class EngineFacet(Facet):
    version: str
    name: str


class JobTypeFacet(Facet):
    processing_type: str
    integration: str
    job_type: str


class RunFacets(_Said):
    processing_engine: EngineFacet = msgspec.field(name="processing_engine")
    error_message: ErrorFacet | None = None


class JobFacets(_Said):
    job_type: JobTypeFacet


class DatasetFacets(_Said):
    schema: SchemaFacet | None = None
    version: VersionFacet | None = None
    column_lineage: ColumnLineageFacet | None = None


class OutputFacets(_Said):
    output_statistics: StatisticsFacet | None = None


class Dataset(_Said):
    namespace: str
    name: str
    facets: DatasetFacets


class OutputDataset(Dataset):
    output_facets: OutputFacets


class Run(_Said):
    run_id: UUID
    facets: RunFacets


class Job(_Said):
    namespace: str
    name: str
    facets: JobFacets


class RunEvent(_Said):
    event_type: EventType
    event_time: datetime
    run: Run
    job: Job
    inputs: list[Dataset]
    outputs: list[OutputDataset]
    producer: str
    schema_url: str = msgspec.field(name="schemaURL")


def run_event(
    kind: EventType,
    at: datetime,
    run: Run,
    job: Job,
    inputs: list[Dataset],
    outputs: list[OutputDataset],
) -> RunEvent:
    return RunEvent(
        event_type=kind,
        event_time=at,
        run=run,
        job=job,
        inputs=inputs,
        outputs=outputs,
        producer=PRODUCER,
        schema_url=_EVENT,
    )


def schema_facet(columns: list[SchemaField]) -> SchemaFacet:
    return SchemaFacet(
        producer=PRODUCER, schema_url=_facet("1-2-0", "SchemaDatasetFacet"), fields=columns
    )


def version_facet(version: str) -> VersionFacet:
    url = _facet("1-0-1", "DatasetVersionDatasetFacet")
    return VersionFacet(producer=PRODUCER, schema_url=url, dataset_version=version)


def column_lineage_facet(
    fields: dict[str, LineageField], rows: list[InputField]
) -> ColumnLineageFacet:
    url = _facet("1-2-0", "ColumnLineageDatasetFacet")
    return ColumnLineageFacet(producer=PRODUCER, schema_url=url, fields=fields, dataset=rows)


def statistics_facet(rows: int, size: int, files: int) -> StatisticsFacet:
    url = _facet("1-0-2", "OutputStatisticsOutputDatasetFacet")
    return StatisticsFacet(
        producer=PRODUCER, schema_url=url, row_count=rows, size=size, file_count=files
    )


def error_facet(message: str) -> ErrorFacet:
    url = _facet("1-0-1", "ErrorMessageRunFacet")
    return ErrorFacet(
        producer=PRODUCER, schema_url=url, message=message, programming_language="PYTHON"
    )


def engine_facet() -> EngineFacet:
    url = _facet("1-1-1", "ProcessingEngineRunFacet")
    return EngineFacet(producer=PRODUCER, schema_url=url, version=__version__, name="Trace")


def job_type_facet(operator: str) -> JobTypeFacet:
    url = _facet("2-0-4", "JobTypeJobFacet")
    return JobTypeFacet(
        producer=PRODUCER,
        schema_url=url,
        processing_type="BATCH",
        integration="TRACE",
        job_type=operator,
    )
