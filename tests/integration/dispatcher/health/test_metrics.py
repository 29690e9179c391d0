"""What Prometheus reads: counted where it happens, measured where it waits."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import DataDsns
from tests.support.control_plane import DAG, SECRETS, WORKER_TOKEN, ControlPlane, fence_fields
from trace_platform.data.alerts import Alert, record
from trace_platform.data.database import DataDatabase
from trace_platform.dispatcher.health.measure import measure
from trace_platform.dispatcher.health.measure_alerts import measure_alerts
from trace_platform.dispatcher.health.metrics import Metrics
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.drivers.postgres.database import Database
from trace_platform.query.service.admission import Admission
from trace_platform.query.service.metrics import Metrics as QueryMetrics
from trace_platform.wire.control import PauseRequest
from trace_platform.wire.task import EventsRequest, Invalidation

pytestmark = pytest.mark.anyio

Figures = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def figures(text: bytes) -> Figures:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def figure(metrics: Metrics, name: str, **labels: str) -> float | None:
    return figures(metrics.exposition()).get((name, tuple(sorted(labels.items()))))


async def measured(plane: ControlPlane) -> Metrics:
    metrics = Metrics()
    assert await measure(plane.dispatcher.state, plane.dispatcher.org_id, metrics) == 0
    return metrics


async def test_metrics_are_for_whoever_holds_the_user_token(plane: ControlPlane) -> None:
    await plane.deploy()
    await measure(plane.dispatcher.state, plane.dispatcher.org_id, plane.dispatcher.metrics)
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="https://dispatcher") as http:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"X-Trace-Worker-Token": WORKER_TOKEN},
        ):
            assert (await http.get("/metrics", headers=headers)).status_code == 401
        token = {"Authorization": f"Bearer {SECRETS.user_token}"}
        answer = await http.get("/metrics", headers=token)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert figures(answer.content)["trace_outbox_rows", ()] == 0


async def test_queues_are_measured_by_runtime_and_job(plane: ControlPlane) -> None:
    task = await plane.queued_ingest()
    plane.sql("UPDATE tasks SET queued_at = queued_at - interval '1 min' WHERE id = %s", task)
    metrics = await measured(plane)
    ingest = {"runtime": "ecs_platform", "dag": "chain", "job": "ingest"}
    assert figure(metrics, "trace_queue_depth", **ingest) == 1
    assert (figure(metrics, "trace_queue_oldest_age_seconds", **ingest) or 0) >= 60
    assert figure(metrics, "trace_queue_deferred", **ingest) == 0
    assert figure(metrics, "trace_queue_depth", **(ingest | {"job": "split"})) == 0

    await plane.claimed(task)
    metrics = await measured(plane)
    assert figure(metrics, "trace_queue_depth", **ingest) == 0
    assert figure(metrics, "trace_tasks_running", dag="chain", job="ingest") == 1
    plane.sql("UPDATE tasks SET status = 'Queued', lease_expires_at = NULL,"
              " pending_backpressure = true WHERE id = %s", task)  # fmt: skip
    assert figure(await measured(plane), "trace_queue_deferred", **ingest) == 1


async def test_a_job_that_vanished_takes_its_figures_along(plane: ControlPlane) -> None:
    await plane.deploy()
    metrics = await measured(plane)
    assert figure(metrics, "trace_tasks_running", dag="chain", job="ingest") == 0
    renamed = DAG.replace("name: ingest", "name: fetch").replace("job: ingest", "job: fetch")
    await plane.deploy(renamed)
    await measure(plane.dispatcher.state, plane.dispatcher.org_id, metrics)
    assert figure(metrics, "trace_tasks_running", dag="chain", job="ingest") is None
    assert figure(metrics, "trace_tasks_running", dag="chain", job="fetch") == 0


async def test_definitions_of_one_job_count_together(plane: ControlPlane) -> None:
    await plane.queued_split()
    await plane.deploy(DAG.replace("chunk_blocks: 10", "chunk_blocks: 20"))
    await plane.trigger(100, 109)
    await plane.settle()
    split = {"runtime": "ecs_platform", "dag": "chain", "job": "split"}
    assert figure(await measured(plane), "trace_queue_depth", **split) == 2


async def test_pressure_and_holds_are_levels(plane: ControlPlane) -> None:
    await plane.deploy(
        DAG.replace("config: { chunk_blocks: 10 }",
                    "config: { chunk_blocks: 10 }\n    backpressure: { max_queue_depth: 10 }")
    )  # fmt: skip
    job = {"dag": "chain", "job": "split"}
    metrics = await measured(plane)
    assert figure(metrics, "trace_backpressure_level", **job) == 0
    assert figure(metrics, "trace_job_holds", cause="user", **job) == 0
    for rank, level in ((2, 1), (0, 3)):
        plane.sql(
            "INSERT INTO job_pressure (job_id, from_rank, depth, age_s) SELECT id, %s, 12, 3"
            " FROM jobs WHERE name = 'split'"
            " ON CONFLICT (job_id) DO UPDATE SET from_rank = excluded.from_rank",
            rank,
        )
        assert figure(await measured(plane), "trace_backpressure_level", **job) == level
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "chain", "split", PauseRequest()
    )
    plane.sql(
        "INSERT INTO job_holds (org_id, dag_name, job_name, cause, from_rank, reason)"
        " SELECT org_id, dag_name, 'split', id::text, 0, 'behind' FROM jobs WHERE name = 'ingest'"
    )
    metrics = await measured(plane)
    assert figure(metrics, "trace_job_holds", cause="user", **job) == 1
    assert figure(metrics, "trace_job_holds", cause="pressure", **job) == 1


async def test_sources_and_the_outbox_lag(plane: ControlPlane) -> None:
    await plane.deploy()
    source = {"dag": "chain", "job": "request"}
    metrics = await measured(plane)
    assert figure(metrics, "trace_source_lag_seconds", **source) is None
    await plane.trigger(0, 9)
    plane.sql("UPDATE events SET recorded_at = recorded_at - interval '2 min'")
    plane.sql("UPDATE outbox SET created_at = created_at - interval '1 min'")
    metrics = await measured(plane)
    assert (figure(metrics, "trace_source_lag_seconds", **source) or 0) >= 120
    assert (figure(metrics, "trace_outbox_lag_seconds") or 0) >= 60
    assert figure(metrics, "trace_outbox_rows") == 1
    # What was put off is not late.
    plane.sql("UPDATE outbox SET available_at = clock_timestamp() + interval '1 min'")
    assert figure(await measured(plane), "trace_outbox_lag_seconds") == 0


async def test_workers_and_their_slots(plane: ControlPlane) -> None:
    task = await plane.queued_split()
    await plane.claimed(task, "w1")
    plane.sql(
        "INSERT INTO workers (worker_id, runtime, slots, seen_at) VALUES"
        " ('w1', 'ecs_platform', 2, clock_timestamp()),"
        " ('w2', 'ecs_platform', 4, clock_timestamp()),"
        " ('dead', 'ecs_platform', 8, clock_timestamp() - interval '1 min')"
    )
    metrics = await measured(plane)
    assert figure(metrics, "trace_workers", runtime="ecs_platform") == 2
    assert figure(metrics, "trace_worker_slots", runtime="ecs_platform", state="busy") == 1
    assert figure(metrics, "trace_worker_slots", runtime="ecs_platform", state="free") == 5


def test_what_happens_is_counted() -> None:
    metrics = Metrics()
    for status in ("Completed", "Failed", "Canceled"):
        assert figure(metrics, "trace_tasks_ended_total", status=status) == 0
    metrics.tasks_started([0.02, 0.02, 7.0, -0.001])
    metrics.leases_expired(2)
    metrics.tasks_retried(3)
    metrics.tasks_ended(["Completed", "Failed", "Completed"])
    assert figure(metrics, "trace_task_queued_to_start_seconds_count") == 4
    assert figure(metrics, "trace_task_queued_to_start_seconds_bucket", le="0.025") == 3
    assert figure(metrics, "trace_task_queued_to_start_seconds_bucket", le="10.0") == 4
    assert figure(metrics, "trace_lease_expiries_total") == 2
    assert figure(metrics, "trace_task_retries_total") == 3
    assert figure(metrics, "trace_tasks_ended_total", status="Completed") == 2


async def test_reorgs_are_counted_by_job_and_depth(plane: ControlPlane) -> None:
    source = await plane.claimed(await plane.queued_ingest())
    follow = {"dag": "chain", "job": "ingest"}
    output = source.task.outputs[0]
    rewritten = [
        Invalidation(
            dataset_uuid=output.dataset_uuid,
            dataset_version=output.dataset_version,
            scope="row_range",
            start=start,
            end=7,
            reason="reorg",
            request_id=uuid4(),
        )
        for start in (5, 5, 7)
    ]
    request = EventsRequest(**fence_fields(source), invalidations=rewritten)
    transport = httpx.ASGITransport(app=plane.app)
    token = {"X-Trace-Task-Capability": source.capability_token}
    async with httpx.AsyncClient(transport=transport, base_url="https://dispatcher") as http:
        answer = await http.post(
            "/v1/task/events", json=request.model_dump(mode="json"), headers=token
        )
    assert answer.status_code == 200, answer.text
    metrics = plane.dispatcher.metrics
    assert figure(metrics, "trace_range_rewrites_total", **follow) == 3
    assert figure(metrics, "trace_range_rewrite_blocks_count", **follow) == 2
    assert figure(metrics, "trace_range_rewrite_blocks_bucket", le="1.0", **follow) == 1
    assert figure(metrics, "trace_range_rewrite_blocks_bucket", le="3.0", **follow) == 2


async def test_alerts_are_measured_apart_from_the_others(
    plane: ControlPlane, data_dsns: DataDsns
) -> None:
    written = DataDatabase(data_dsns.writer, dag="chain", job="follow")
    record(written, Alert("critical", "deep_reorg", "a reorg", "deep_reorg:1"))
    data, metrics = Database(data_dsns.janitor), Metrics()
    await data.open()
    try:
        deep = {"dag": "chain", "job": "follow", "severity": "critical", "code": "deep_reorg"}
        await measure_alerts(plane.dispatcher.state, data, plane.dispatcher.org_id, metrics)
        assert figure(metrics, "trace_alerts", **deep) == 1
        metrics.measured([])
        assert figure(metrics, "trace_alerts", **deep) == 1
    finally:
        await data.close()


def test_two_dispatchers_in_one_process_count_for_themselves() -> None:
    one, two = Metrics(), Metrics()
    one.leases_expired(1)
    assert figure(two, "trace_lease_expiries_total") == 0


async def test_what_waits_for_a_worker_is_neither_held_nor_at_its_limit(
    plane: ControlPlane,
) -> None:
    await plane.queued_split()
    split = {"runtime": "ecs_platform", "dag": "chain", "job": "split"}
    assert figure(await measured(plane), "trace_queue_waiting_for_worker", **split) == 1
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "chain", "split", PauseRequest()
    )
    metrics = await measured(plane)
    assert figure(metrics, "trace_queue_waiting_for_worker", **split) == 0
    assert figure(metrics, "trace_queue_depth", **split) == 1


async def test_sources_that_run_are_heard(plane: ControlPlane) -> None:
    await plane.claimed(await plane.queued_split())
    plane.sql("UPDATE jobs SET activation = 'source' WHERE name = 'split'")
    job = {"dag": "chain", "job": "split"}
    heard = figure(await measured(plane), "trace_source_heartbeat_age_seconds", **job)
    assert heard is not None
    assert heard < 30
    # A lease of 30 s that ended 100 s ago: 130 s of silence.
    plane.sql("UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '100 s'")
    heard = figure(await measured(plane), "trace_source_heartbeat_age_seconds", **job)
    assert heard is not None
    assert heard >= 130


def test_the_documented_alerts_ask_for_figures_that_there_are() -> None:
    page = (Path(__file__).parents[4] / "docs" / "monitoring.md").read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    groups = [group for block in blocks for group in block.get("groups", ())]
    known = (Metrics().exposition() + QueryMetrics(Admission(1)).exposition()).decode()
    for rule in [rule for group in groups for rule in group["rules"]]:
        for name in re.findall(r"trace_\w+", rule["expr"]):
            assert f"# TYPE {name} " in known, (rule["alert"], name)
    for name in re.findall(r"`(trace_\w+)`", page):
        assert f"# TYPE {name} " in known, name


def test_names_that_nobody_measures_are_there_all_the_same() -> None:
    """An alert on an absent name would never fire."""
    text = Metrics().exposition().decode()
    for name in ("trace_queue_depth", "trace_workers", "trace_outbox_lag_seconds"):
        assert f"# TYPE {name} gauge" in text
