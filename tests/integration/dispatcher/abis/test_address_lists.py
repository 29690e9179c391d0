"""Contracts that a factory makes are decoded from a dataset of them, whatever comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.dispatcher.redo.test_invalidations import take
from tests.support.control_plane import ControlPlane
from tests.support.encoded_logs import ALICE, BOB, log, logs
from tests.support.transform_chain import TransformChain
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.domain.errors import InvalidConfig, InvalidDag, RangeNotReady
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.task import Claimed

pytestmark = [pytest.mark.anyio, pytest.mark.spark]

CREATED = (
    "PoolCreated(address indexed token0, address indexed token1, uint24 indexed fee,"
    " int24 tickSpacing, address pool)"
)
PING = "Ping(uint256 n)"
FACTORY, STRANGER = b"\xfa" * 20, b"\xee" * 20
P1, P2, P3 = (bytes([n]) * 20 for n in (0x11, 0x22, 0x33))
DAG = """
name: flow
jobs:
  - { name: request, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: chain
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [logs]
  - name: factory
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: chain } }]
    outputs: [pool_created, undecoded]
    config: { abis: [uniswap_v3_factory.PoolCreated] }
  - name: pings
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: chain } }, { from: { job: factory, output: pool_created } }]
    outputs: [ping, undecoded]
    config:
      events: ["Ping(uint256 n)"]
      addresses: { from: { job: factory, output: pool_created }, column: pool }
"""


def chain(second: bytes) -> Callable[[int, int], pa.Table]:
    """A pool at block 5 and one at block 15; all contracts ping in each block."""

    def rows(start: int, end: int) -> pa.Table:
        made = [
            each
            for block in range(end + 1)
            for each in (
                _created(P1 if block == 5 else second, block in (5, 15)),
                log(PING, block, address=P1),
                log(PING, block, address=P2),
                log(PING, block, address=P3),
                log(PING, block, address=STRANGER),
            )
        ]
        return logs(*made, per_block=5).slice(5 * start)

    return rows


def _created(pool: bytes, really: bool) -> dict[str, Any]:
    values = (ALICE, BOB, 500, 10, "0x" + pool.hex())
    return log(CREATED, *values, address=FACTORY) if really else log(PING, 0, address=STRANGER)


class Patient(TransformChain):
    """What is not ready is tried again, as the worker does."""

    async def run(self, claimed: Claimed) -> None:
        try:
            await super().run(claimed)
        except RangeNotReady as error:
            failed = {"status": "Failed", "error_code": error.code, "retryable": True}
            await self.plane.complete(claimed, **failed)

    async def finish(self) -> None:
        """Also what waits for its retry."""
        await self.run_all()
        waiting = "SELECT count(*) AS n FROM tasks WHERE status = 'Failed'"
        while self.plane.sql(waiting)[0]["n"]:
            self.plane.sql("UPDATE tasks SET next_retry_at = now() WHERE status = 'Failed'")
            await requeue_failed(self.plane.dispatcher.state)
            await self.run_all()

    def pings(self) -> set[tuple[str, int]]:
        found = [(row["address"].hex()[:2], row["block_number"]) for row in self.rows("pings")]
        assert len(found) == len(set(found))
        return set(found)


async def started(plane: ControlPlane, runtime: SparkRuntime, yaml: str = DAG) -> Patient:
    await plane.deploy(yaml)
    return Patient(plane, runtime, {"chain": chain(P2)})


async def test_children_of_a_factory_are_decoded_when_their_blocks_come_from_the_end(
    plane: ControlPlane, spark_runtime: SparkRuntime
) -> None:
    flow = await started(plane, spark_runtime)
    for start in (20, 10, 0):
        await plane.trigger(start, start + 9, "flow", "request")
        await flow.finish()
    # A pool is looked for in all blocks of a task that reads where it was made.
    assert flow.pings() == {("11", n) for n in range(30)} | {("22", n) for n in range(10, 30)}


async def test_blocks_in_order_are_decoded_and_a_reorg_that_takes_a_child_back_takes_its_rows(
    plane: ControlPlane, spark_runtime: SparkRuntime
) -> None:
    flow = await started(plane, spark_runtime)
    for start in (0, 10, 20):
        await plane.trigger(start, start + 9, "flow", "request")
    await flow.finish()
    assert flow.pings() == {("11", n) for n in range(30)} | {("22", n) for n in range(10, 30)}
    flow.staged["chain"] = chain(P3)
    before = len(flow.ran)
    await flow.rewritten("request", 10, 19)
    await flow.finish()
    assert flow.pings() == {("11", n) for n in range(30)} | {("33", n) for n in range(10, 30)}
    # Nothing of the blocks below was touched.
    assert ("pings", "0-9") not in flow.ran[before:]


async def test_an_attempt_waits_until_the_list_has_got_to_its_blocks(
    plane: ControlPlane, spark_runtime: SparkRuntime
) -> None:
    flow = await started(plane, spark_runtime)
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    await flow.run((await take(plane))[0])
    await plane.settle()
    claims = {claimed.task.job.name: claimed for claimed in await take(plane)}
    with pytest.raises(RangeNotReady, match="list of addresses"):
        flow.result(claims["pings"])
    await flow.run(claims["factory"])
    await flow.run(claims["pings"])
    await flow.finish()
    assert flow.pings() == {("11", n) for n in range(10)}


async def test_a_list_by_blocks_that_does_not_wake_the_job_is_refused(
    plane: ControlPlane, spark_runtime: SparkRuntime
) -> None:
    both = "[{ from: { job: chain } }, { from: { job: factory, output: pool_created } }]"
    flow = await started(plane, spark_runtime, DAG.replace(both, "[{ from: { job: chain } }]"))
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    await flow.run((await take(plane))[0])
    await plane.settle()
    claims = {claimed.task.job.name: claimed for claimed in await take(plane)}
    await flow.run(claims["factory"])
    await plane.complete(claims["pings"], status="Failed", interrupted=True)
    await requeue_failed(plane.dispatcher.state)
    (pings,) = await take(plane)
    with pytest.raises(InvalidConfig, match="does not wake the job"):
        flow.result(pings)


async def test_what_addresses_read_has_to_be_there(plane: ControlPlane) -> None:
    unknown = DAG.replace("from: { job: factory, output: pool_created }, column", "from: { job: "
        "fctory }, column")  # fmt: skip
    with pytest.raises(InvalidDag, match="fctory"):
        await plane.deploy(unknown)
    twice = DAG.replace("column: pool }", "input: 1, column: pool }")
    with pytest.raises(InvalidDag, match="give one of `input` and `from`"):
        await plane.deploy(twice)
