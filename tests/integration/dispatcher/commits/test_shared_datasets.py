"""Datasets that several jobs write through a buffer."""

from __future__ import annotations

import pytest

from tests.integration.dispatcher.tasks.test_claims import emit, take
from tests.support.control_plane import ControlPlane, fence_fields, stage
from trace_platform.dispatcher.events.publish_buffer import publish_buffer
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import Forbidden
from trace_platform.domain.prefix import scratch_prefix
from trace_platform.wire.task import BufferPublishRequest, Claimed, EventsRequest, OutputCommit

pytestmark = pytest.mark.anyio

JOB = """  - name: {name}
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{{ from: {source} }}]
    outputs: [rows, alerts]
"""
DAG = (
    "name: d\njobs:\n  - { name: source, activation: source, source: { kind: manual } }\n"
    + JOB.format(name="one", source="{ job: source }")
    + JOB.format(name="two", source="{ job: source }")
    + JOB.format(name="reader", source="{ dataset: alerts }")
    + """publish:
  alerts:
    from: [{ job: one, output: alerts }, { job: two, output: alerts }]
    storage: buffered
"""
)


async def test_several_jobs_write_one_dataset_and_each_its_own_besides(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    await emit(plane, "d.source", 1)
    one, two = await take(plane, 10)
    (alerts,) = plane.sql("SELECT uuid, current_version FROM datasets WHERE name = 'alerts'")
    for claimed in (one, two):
        output = claimed.task.outputs[1]
        assert (output.name, output.dataset_uuid) == ("alerts", alerts["uuid"])
        assert output.dataset_version == alerts["current_version"]
    assert one.task.outputs[0].dataset_uuid != two.task.outputs[0].dataset_uuid


async def test_its_readers_hear_of_it_by_its_name(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await emit(plane, "alerts", 1)
    (claimed,) = await take(plane, 10)
    assert claimed.task.job.name == "reader"


async def test_a_producer_that_changes_does_not_begin_the_dataset_anew(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    await emit(plane, "alerts", 1)
    await plane.deploy(DAG.replace("name: one\n", "name: one\n    execution_strategy: Bulk\n"))
    await emit(plane, "alerts", 2)
    assert len(await take(plane, 10)) == 2
    assert (
        len(
            plane.sql(
                "SELECT 1 FROM dataset_versions v JOIN datasets d ON d.uuid ="
                " v.dataset_uuid WHERE d.name = 'alerts'"
            )
        )
        == 1
    )


async def test_who_writes_it_is_the_active_versions_to_say(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await plane.deploy(DAG.replace(", { job: two, output: alerts }", ""))
    await emit(plane, "d.source", 1)
    (alerts,) = plane.sql("SELECT uuid FROM datasets WHERE name = 'alerts'")
    one, two = sorted(await take(plane, 10), key=lambda c: c.task.job.name)
    assert one.task.outputs[1].dataset_uuid == alerts["uuid"] != two.task.outputs[1].dataset_uuid
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "d")
    await emit(plane, "d.source", 2)
    again = await take(plane, 10)
    assert {claimed.task.outputs[1].dataset_uuid for claimed in again} == {alerts["uuid"]}


def as_table(claimed: Claimed) -> OutputCommit:
    target = claimed.task.outputs[1]
    return OutputCommit(
        output_index=1,
        dataset_uuid=target.dataset_uuid,
        dataset_version=target.dataset_version,
        location=f"postgres_table:dataset_{target.dataset_uuid}",
        cursor=9,
        row_count=1,
    )


async def test_what_is_no_batch_is_not_committed_to_it(
    plane: ControlPlane,
) -> None:
    """Two producers of one range: neither files nor a table of one hide what the other wrote."""
    await plane.deploy(DAG)
    await plane.trigger(0, 9, "d", "source")
    await plane.settle()
    for claimed in await take(plane, 10):
        files, table = stage(plane.dispatcher.store, claimed, 1, 0, 9), as_table(claimed)
        for output in (files, table):
            with pytest.raises(Forbidden, match="several jobs write the dataset") as refused:
                await plane.complete(claimed, outputs=[output])
            assert "/v1/task/buffer-publish" in (refused.value.hint or "")
        said = EventsRequest(**fence_fields(claimed), tables=[table])
        with pytest.raises(Forbidden, match="several jobs write the dataset"):
            await record_events(plane.dispatcher.state, said, plane.dispatcher.grants.trusts)
        assert await publish_buffer(plane.dispatcher.state, "trace-scratch", batch(claimed))
        await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, 0, 9)])
    (alerts,) = plane.sql("SELECT uuid FROM datasets WHERE name = 'alerts'")
    assert (
        plane.sql("SELECT 1 FROM partition_versions WHERE dataset_uuid = %s", alerts["uuid"]) == []
    )
    assert len(plane.sql("SELECT 1 FROM buffer_publishes")) == 2


def batch(claimed: Claimed) -> BufferPublishRequest:
    target, task = claimed.task.outputs[1], claimed.task
    place = scratch_prefix("trace-scratch", target.dataset_uuid, task.task_id, task.attempt)
    return BufferPublishRequest(
        **fence_fields(claimed),
        dataset_uuid=target.dataset_uuid,
        dataset_version=target.dataset_version,
        batch_uri=f"{place}batch.jsonl",
        record_count=1,
    )
