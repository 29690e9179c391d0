"""Deliveries of webhooks: one file, one partition and one event each, whatever is repeated."""

from __future__ import annotations

import asyncio
import hashlib
import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.control_plane import HOOK_SECRET, ControlPlane
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.sources.receive_hook import Delivery, Receiving, receive_hook
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.errors import BadInput, JobOnHold
from trace_platform.domain.prefix import delivery_key
from trace_platform.domain.webhook_signature import sign, signing_key
from trace_platform.wire.control import PauseRequest

pytestmark = pytest.mark.anyio

DAG = """
name: hooked
jobs:
  - name: calls
    activation: source
    source: { kind: webhook, secret: hook_key }
  - name: react
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: calls } }]
"""
KEY = signing_key(HOOK_SECRET)
FIRST = delivery_key("msg_1")


def receiving(plane: ControlPlane, store: Any = None) -> Receiving:
    dispatcher = plane.dispatcher
    return Receiving(
        dispatcher.state,
        store or dispatcher.store,
        dispatcher.grants.bucket,
        dispatcher.org_id,
        dispatcher.secrets.named,
    )


def delivery(plane: ControlPlane, webhook_id: str, body: bytes) -> Delivery:
    """Signed now, by the database's clock."""
    (row,) = plane.sql("SELECT extract(epoch FROM clock_timestamp())::bigint AS now")
    return Delivery(
        "hooked",
        "calls",
        webhook_id,
        str(row["now"]),
        sign(KEY, webhook_id, row["now"], body),
        body,
    )


async def deliver(plane: ControlPlane, webhook_id: str, body: bytes = b'{"n": 1}') -> bool:
    return await receive_hook(receiving(plane), delivery(plane, webhook_id, body))


def rows(parquet: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(io.BytesIO(parquet)).to_pylist()
    return found


def partitions(plane: ControlPlane) -> list[dict[str, Any]]:
    return plane.sql("SELECT * FROM partition_versions ORDER BY partition_key")


async def test_a_delivery_is_a_file_a_partition_and_a_task_that_is_given_the_file(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    amount = str(2**256 - 1).encode()
    body = b'{\n  "amount": ' + amount + b',\r\n  "rate": 1.10\n}'
    assert await deliver(plane, "msg_1", body)
    assert await deliver(plane, "msg_2")
    await plane.settle()
    claims = [await plane.claimed(task_id) for task_id in plane.wake_ups()]
    inputs = {c.task.inputs[0].partition_key: c.task.inputs[0] for c in claims}
    assert set(inputs) == {FIRST, delivery_key("msg_2")}
    (uri,) = inputs[FIRST].files
    written = plane.dispatcher.store.get(uri)
    (delivered,) = rows(written)
    assert (delivered["webhook_id"], delivered["body"]) == ("msg_1", body.decode())
    assert delivered["received_at"].tzinfo is not None
    (row,) = (each for each in partitions(plane) if each["partition_key"] == FIRST)
    assert (row["row_count"], row["task_id"]) == (1, None)
    assert (row["range_start"], row["byte_count"]) == (None, len(written))
    assert row["files"][0]["sha256"] == hashlib.sha256(written).hexdigest()
    assert uri.startswith(row["location"])
    others = inputs[delivery_key("msg_2")].files[0].rpartition("/")[0]
    assert not others.startswith(row["location"]), "whoever reads one may not read the other"


async def test_the_same_id_again_changes_nothing(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    assert await deliver(plane, "msg_1", b'{"n": 1}')
    (before,) = partitions(plane)
    assert not await deliver(plane, "msg_1", b'{"n": 1}')
    assert not await deliver(plane, "msg_1", b'{"n": 2}')
    assert partitions(plane) == [before]
    assert plane.sql("SELECT count(*) AS n FROM events") == [{"n": 1}]
    uri = before["location"] + before["files"][0]["name"]
    assert rows(plane.dispatcher.store.get(uri))[0]["body"] == '{"n": 1}'


async def test_an_id_that_was_a_key_itself_once_is_still_known(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    assert await deliver(plane, "msg_1")
    plane.sql("UPDATE partition_versions SET partition_key = 'msg_1'")
    assert not await deliver(plane, "msg_1")
    assert await deliver(plane, FIRST), "another id, whatever it looks like"
    assert len(partitions(plane)) == 2


async def test_the_columns_of_deliveries_are_known_before_there_is_one(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    said = "SELECT columns, schema_hash FROM dataset_versions WHERE columns IS NOT NULL"
    (before,) = plane.sql(said)
    await deliver(plane, "msg_1")
    (row,) = partitions(plane)
    file = pq.read_schema(
        io.BytesIO(plane.dispatcher.store.get(row["location"] + row["files"][0]["name"]))
    )
    assert before["columns"] == [
        {"name": each.name, "type": str(each.type), "nullable": each.nullable} for each in file
    ]
    assert plane.sql(said) == [before]
    assert row["schema_hash"] == before["schema_hash"]


async def test_of_many_at_once_with_one_id_one_is_kept_whole(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    bodies = [b'{"n": %d}' % n for n in range(6)]
    accepted = await asyncio.gather(*(deliver(plane, "msg_1", body) for body in bodies))
    assert sorted(accepted) == [False] * 5 + [True]
    (row,) = partitions(plane)
    written = plane.dispatcher.store.get(row["location"] + row["files"][0]["name"])
    assert rows(written)[0]["body"].encode() == bodies[accepted.index(True)]
    assert hashlib.sha256(written).hexdigest() == row["files"][0]["sha256"]


async def test_a_store_that_refuses_the_file_leaves_nothing_and_the_next_try_works(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)

    class Full:
        def put(self, uri: str, body: bytes) -> None:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        await receive_hook(receiving(plane, Full()), delivery(plane, "msg_1", b"{}"))
    assert partitions(plane) == []
    assert plane.sql("SELECT 1 FROM events") == []
    assert await deliver(plane, "msg_1", b"{}")


async def test_a_delivery_during_a_deploy_goes_to_the_version_that_becomes_active(
    plane: ControlPlane,
) -> None:
    reset = DAG.replace(
        "secret: hook_key }", "secret: hook_key }\n    bootstrap: { reset_outputs: true }"
    )
    await plane.deploy(DAG)
    old = plane.sql("SELECT current_version AS v FROM datasets WHERE job_name = 'calls'")
    loop = asyncio.get_running_loop()

    class DeploysMeanwhile:
        """Another version becomes active between the file and its commit."""

        done = False

        def put(self, uri: str, body: bytes) -> None:
            plane.dispatcher.store.put(uri, body)
            if not self.done:
                self.done = True
                deploying = deploy_dag(
                    plane.dispatcher.state, plane.dispatcher.org_id, reset, "dag.yaml"
                )
                asyncio.run_coroutine_threadsafe(deploying, loop).result(20)

    given = delivery(plane, "msg_1", b"{}")
    assert await receive_hook(receiving(plane, DeploysMeanwhile()), given)
    new = plane.sql("SELECT current_version AS v FROM datasets WHERE job_name = 'calls'")
    assert new != old
    assert [row["dataset_version"] for row in partitions(plane)] == [new[0]["v"]]
    await plane.settle()
    (task_id,) = plane.wake_ups()
    assert len((await plane.claimed(task_id)).task.inputs[0].files) == 1


async def test_a_paused_source_refuses_deliveries_and_keeps_none(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "hooked", "calls", PauseRequest()
    )
    with pytest.raises(JobOnHold):
        await deliver(plane, "msg_1")
    assert partitions(plane) == []
    assert not list(plane.dispatcher.store.list("s3://trace-data/org/"))


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"1", b"{", b'{"a": NaN}', b'{"a": "\xff"}', b'{"a":' * 100_000, b"{} {}"],
    ids=["empty", "list", "number", "open", "nan", "no text", "deep", "two"],
)
async def test_what_is_signed_but_no_json_object_is_refused(
    plane: ControlPlane, body: bytes
) -> None:
    await plane.deploy(DAG)
    with pytest.raises(BadInput):
        await deliver(plane, "msg_1", body)
    assert partitions(plane) == []


async def test_an_id_that_is_too_long_is_refused(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    with pytest.raises(BadInput):
        await deliver(plane, "x" * 257)
    assert await deliver(plane, "x" * 256)
    await plane.settle()
    (task_id,) = plane.wake_ups()
    assert len((await plane.claimed(task_id)).task.inputs[0].files) == 1


async def test_an_event_that_got_lost_is_found_by_its_partition(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await deliver(plane, "msg_1")
    plane.sql("DELETE FROM events")
    plane.sql("DELETE FROM outbox")
    assert await reconcile_partitions(plane.dispatcher.state) == 1
    await plane.settle()
    (task_id,) = plane.wake_ups()
    assert (await plane.claimed(task_id)).task.inputs[0].partition_key == FIRST


async def test_a_version_that_is_built_later_is_given_the_deliveries_before_it(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    await deliver(plane, "msg_1")
    await plane.settle()
    (task_id,) = plane.wake_ups()
    await plane.complete(await plane.claimed(task_id))
    await plane.deploy(
        DAG.replace("operator: no_op", "operator: no_op\n    config: { emit: true }")
    )
    await plane.settle()
    (task_id,) = plane.wake_ups()
    again = await plane.claimed(task_id)
    assert again.task.inputs[0].partition_key == FIRST
    assert len(again.task.inputs[0].files) == 1
