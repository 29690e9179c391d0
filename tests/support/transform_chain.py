"""Rows that are rewritten while transforms read them, driven through the dispatcher's verbs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.dispatcher.redo.test_invalidations import route, say, take
from tests.support.control_plane import ControlPlane
from tests.support.staged_rows import stage_rows
from trace_platform.domain.errors import TraceError
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators import registry
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.operators.facts import config_model
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.task import Claimed, Span

CURRENT = """
SELECT p.partition_key, p.location, p.files
  FROM partition_versions p JOIN datasets d ON d.uuid = p.dataset_uuid
 WHERE d.job_name = %s AND d.output_index = %s AND p.superseded_at IS NULL
   AND p.dataset_version = d.current_version
 ORDER BY p.range_start
"""


@dataclass
class TransformChain:
    plane: ControlPlane
    runtime: SparkRuntime
    # By job: the rows that it stages of a range. Every other job runs its operator.
    staged: dict[str, Callable[[int, int], pa.Table]] = field(default_factory=dict)
    # What ran: the job, and the range that its commit stands for.
    ran: list[tuple[str, str]] = field(default_factory=list)

    async def trigger(self, source: str, *ranges: tuple[int, int]) -> None:
        for start, end in ranges:
            await self.plane.trigger(start, end, "flow", source)
        await self.run_all()

    async def rewritten(self, source: str, start: int, end: int) -> None:
        """What the source gave is to be read again."""
        await say(self.plane, f"flow.{source}", start, end)
        await route(self.plane)
        await self.run_all()

    async def run_all(self) -> list[tuple[str, str]]:
        """Until nothing is left to do; what ran."""
        before = len(self.ran)
        while True:
            await self.plane.settle()
            claims = await take(self.plane, 1)
            if not claims:
                return self.ran[before:]
            await self.run(claims[0])

    async def run(self, claimed: Claimed) -> None:
        job = claimed.task.job.name
        if job in self.staged:
            given = claimed.task.inputs[0]
            assert given.start is not None
            assert given.end is not None
            rows = self.staged[job](given.start, given.end)
            await self.plane.complete(
                claimed, outputs=[stage_rows(self.plane.dispatcher.store, claimed, rows)]
            )
            self.ran.append((job, given.partition_key or ""))
            return
        result = self.result(claimed)
        split = [Span(start=part.start, end=part.end) for part in result.split]
        await self.plane.complete(claimed, outputs=result.outputs, split=split)
        self.ran += [(job, each.partition_key or "") for each in result.outputs[:1]]

    def result(self, claimed: Claimed) -> Result:
        task = claimed.task
        kind = registry.load(task.operator)
        with self.runtime.task_thread(f"test-{uuid4()}") as spark:
            return kind().run(
                TaskContext(
                    task_id=task.task_id,
                    attempt=task.attempt,
                    config=config_model(kind).model_validate(task.config),
                    inputs=tuple(task.inputs),
                    outputs=tuple(task.outputs),
                    store=self.plane.dispatcher.store,
                    spark=spark,
                    rpc=lambda _: RpcEndpoint(""),
                    check=lambda: None,
                    abis=tuple(task.abis),
                )
            )

    def rows(self, job: str, output: int = 0) -> list[dict[str, Any]]:
        """Of all its current partitions, as readers find them."""
        found: list[dict[str, Any]] = []
        for part in self.plane.sql(CURRENT, job, output):
            for file in part["files"]:
                path = self.plane.dispatcher.store.filesystem(part["location"] + file["name"])[1]
                found += pq.read_table(path).to_pylist()
        return sorted(found, key=str)

    def partitions(self, job: str) -> list[str]:
        return [part["partition_key"] for part in self.plane.sql(CURRENT, job, 0)]


def failure(call: Callable[[], Any]) -> TraceError:
    try:
        call()
    except TraceError as error:
        return error
    raise AssertionError("nothing was wrong")
