"""What is told of attempts: events as the specification has them, in order, bounded."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest
from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)

from tests.support.http_server import Reply, http_server
from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
from trace_platform.domain.errors import InvalidConfig, Unavailable
from trace_platform.domain.event_target import check_target
from trace_platform.drivers.event_sink import FileSink, HttpSink
from trace_platform.wire import openlineage as wire

THEN = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
# The class of the specification's own client for each facet.
FACETS = {
    "schema": schema_dataset.SchemaDatasetFacet,
    "version": dataset_version_dataset.DatasetVersionDatasetFacet,
    "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet,
    "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    "errorMessage": error_message_run.ErrorMessageRunFacet,
    "processing_engine": processing_engine_run.ProcessingEngineRunFacet,
    "jobType": job_type_job.JobTypeJobFacet,
}


def event(kind: wire.EventType = "FAIL") -> wire.RunEvent:
    origin = wire.InputField(
        namespace="trace",
        name="logs",
        field="data",
        transformations=[wire.Transformation(type="DIRECT")],
    )
    schema = wire.schema_facet([wire.SchemaField(name="data", type="binary")])
    return wire.run_event(
        kind,
        THEN,
        wire.Run(
            run_id=uuid4(),
            facets=wire.RunFacets(
                processing_engine=wire.engine_facet(), error_message=wire.error_facet("no: why")
            ),
        ),
        wire.Job(
            namespace="trace",
            name="d.j",
            facets=wire.JobFacets(job_type=wire.job_type_facet("sql_transform")),
        ),
        [
            wire.Dataset(
                namespace="trace",
                name="logs",
                facets=wire.DatasetFacets(schema=schema, version=wire.version_facet("1")),
            )
        ],
        [
            wire.OutputDataset(
                namespace="trace",
                name="texts",
                facets=wire.DatasetFacets(
                    schema=schema,
                    version=wire.version_facet("2"),
                    column_lineage=wire.column_lineage_facet(
                        {"text": wire.LineageField(input_fields=[origin])}, [origin]
                    ),
                ),
                output_facets=wire.OutputFacets(output_statistics=wire.statistics_facet(1, 2, 3)),
            )
        ],
    )


def facets_of(said: dict[str, dict[str, object]]) -> list[str]:
    """The names of the facets; each is what the client makes of the same."""
    for name, facet in said.items():
        given = {key: value for key, value in facet.items() if not key.startswith("_")}
        made = FACETS[name](**given)
        assert facet["_schemaURL"] == made._get_schema(), name
        assert facet["_producer"] == wire.PRODUCER, name
    return sorted(said)


def test_an_event_is_one_of_the_specification() -> None:
    said = json.loads(msgspec.json.encode(event()))
    assert said["schemaURL"] == RunEvent._get_schema()
    run = RunEvent(
        eventTime=said["eventTime"],
        producer=said["producer"],
        run=said["run"],
        job=said["job"],
        eventType=RunState(said["eventType"]),
        inputs=[InputDataset(**each) for each in said["inputs"]],
        outputs=[OutputDataset(**each) for each in said["outputs"]],
    )
    assert run.eventType is RunState.FAIL
    assert said.keys() == {
        "eventType", "eventTime", "run", "job", "inputs", "outputs", "producer", "schemaURL",
    }  # fmt: skip
    assert UUID(said["run"]["runId"])
    assert facets_of(said["run"]["facets"]) == ["errorMessage", "processing_engine"]
    assert facets_of(said["job"]["facets"]) == ["jobType"]
    assert facets_of(said["inputs"][0]["facets"]) == ["schema", "version"]
    (output,) = said["outputs"]
    assert facets_of(output["facets"]) == ["columnLineage", "schema", "version"]
    assert facets_of(output["outputFacets"]) == ["outputStatistics"]
    lineage = output["facets"]["columnLineage"]
    assert lineage["fields"]["text"]["inputFields"] == lineage["dataset"]


class Sink:
    refused = 0

    async def send(self, events: Sequence[bytes]) -> int:
        return len(events)

    async def close(self) -> None: ...


def test_more_than_may_wait_is_dropped_oldest_first_and_counted() -> None:
    pending = PendingRuns(Sink(), "trace", most=3)
    tasks = [uuid4() for _ in range(5)]
    pending.began((task, 1) for task in tasks)
    assert (pending.dropped, pending.waiting) == (2, 3)
    assert [note.task_id for note in pending.first(10)] == tasks[2:]
    assert pending.dropped_within(60)
    pending.told(3)
    pending.ended([(tasks[0], 1)])
    assert [(note.what, note.attempt) for note in pending.first(10)] == [("ended", 1)]
    assert (pending.dropped, pending.waiting) == (2, 1)


def test_a_file_has_a_line_for_each_event(tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path / "events.jsonl"))
    assert asyncio.run(sink.send([b"{}", b"[]"])) == 2
    assert asyncio.run(sink.send([b"1"])) == 1
    assert (tmp_path / "events.jsonl").read_bytes() == b"{}\n[]\n1\n"
    with pytest.raises(Unavailable, match="cannot be written"):
        asyncio.run(FileSink(str(tmp_path / "no" / "where")).send([b"1"]))


def test_nobody_at_a_url_takes_nothing() -> None:
    async def send() -> None:
        sink = HttpSink("http://127.0.0.1:9/lineage")
        try:
            with pytest.raises(Unavailable, match="cannot be reached"):
                await sink.send([b"{}"])
        finally:
            await sink.close()

    asyncio.run(send())


def test_a_url_gets_each_event_with_the_token_until_it_fails() -> None:
    asked: list[tuple[bytes, str | None]] = []
    answers = iter([201, 400, 503])

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.content, request.headers.get("Authorization")))
        return httpx.Response(next(answers))

    async def send() -> tuple[int, int]:
        sink = HttpSink("http://collector/lineage", lambda: "key")
        await sink.close()
        sink._http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        taken = await sink.send([b"1", b"2", b"3", b"4"])
        await sink.close()
        return taken, sink.refused

    assert asyncio.run(send()) == (2, 1)
    assert asked == [(body, "Bearer key") for body in (b"1", b"2", b"3")]


def test_nothing_of_what_a_collector_answers_is_read() -> None:
    """A few bytes that stand for half a gigabyte."""
    bomb = gzip.compress(gzip.compress(bytes(512 * 2**20), 1))
    reply = Reply(bomb, headers={"Content-Encoding": "gzip, gzip"})

    async def send() -> int:
        sink = HttpSink(f"{collector.url}/lineage")
        tracemalloc.start()
        taken = await sink.send([b"{}"])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        await sink.close()
        assert most < 16 * 2**20
        return taken

    with http_server(lambda _: reply) as collector:
        assert asyncio.run(send()) == 1


def test_a_target_is_a_file_or_a_url() -> None:
    for right in ("file:/var/lib/trace/events.jsonl", "https://lineage.example/api/v1/lineage"):
        assert check_target(right) == right
    for wrong in ("events.jsonl", "file:events.jsonl", "file://host/path", "ftp://x", "https://"):
        with pytest.raises(InvalidConfig, match="cannot be sent"):
            check_target(wrong)
