"""What a failed check blocks is never read, and nobody else waits: from attempt to `trace why`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import DataDsns
from tests.support.control_plane import ControlPlane
from trace_platform.data.database import DataDatabase
from trace_platform.dispatcher.checks.list_checks import list_checks, show_checks
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.health.list_alerts import list_alerts
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.storage.prune_history import prune_history
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.complete_task import complete_task
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators import frames, registry
from trace_platform.operators.accepts import ONE_RANGE, RANGE
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.invalidation import InvalidateRequest
from trace_platform.wire.query import DatasetRef, ResolveRequest
from trace_platform.wire.task import Claimed
from trace_platform.worker.attempt import Attempt
from trace_platform.worker.resources import Resources

pytestmark = [pytest.mark.anyio, pytest.mark.spark]

DAG = """
name: p
defaults: {{ max_attempts: 1 }}
jobs:
  - {{ name: request, activation: source, source: {{ kind: manual }}, outputs: [ranges] }}
  - name: make
    activation: reactive
    runtime: ecs_platform
    operator: made_rows
    inputs: [{{ from: {{ job: request }} }}]
    outputs: [rows]
    checks:
      - {{ kind: not_null, columns: [owner], on_failure: {on_failure} }}
      - {{ kind: range, column: amount, max: 100 }}
  - name: report
    activation: reactive
    runtime: ecs_platform
    operator: copied_rows
    inputs: [{{ from: {{ job: make }} }}]
  - name: other
    activation: reactive
    runtime: ecs_platform
    operator: copied_rows
    inputs: [{{ from: {{ job: make }} }}]
publish:
  rows: {{ from: {{ job: make }}, pii: [email] }}
  report: {{ from: {{ job: report }} }}
  other: {{ from: {{ job: other }} }}
"""


class World:
    """What the chain is taken to say of each block."""

    owner: ClassVar[str | None] = "alice"
    amount: ClassVar[int] = 1


class MadeRows:
    Config = OperatorConfig
    output_names = ("rows",)
    accepts = ONE_RANGE
    emits = RANGE
    writes = "files"

    def run(self, task: TaskContext) -> Result:
        start, end = task.inputs[0].start or 0, task.inputs[0].end or 0
        numbers = list(range(start, end + 1))
        rows = pa.table(
            {
                "block_number": pa.array(numbers, pa.int64()),
                "owner": pa.array([World.owner] * len(numbers), pa.string()),
                "amount": pa.array([World.amount] * len(numbers), pa.int64()),
                "email": ["a@example.org"] * len(numbers),
            }
        )
        with frames.opened(task) as data:
            return Result(outputs=[data.write(0, task.spark().createDataFrame(rows))])


class CopiedRows:
    Config = OperatorConfig
    output_names = ("copies",)
    accepts = ONE_RANGE
    emits = RANGE
    writes = "files"

    def run(self, task: TaskContext) -> Result:
        with frames.opened(task) as data:
            return Result(outputs=[data.write(0, data.read(0))])


@pytest.fixture
async def rig(
    state_dsns: Any,
    data_dsns: DataDsns,
    spark_runtime: SparkRuntime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Rig]:
    here = "tests.integration.dispatcher.commits.test_checks"
    monkeypatch.setitem(registry.OPERATORS, "made_rows", f"{here}.MadeRows")
    monkeypatch.setitem(registry.OPERATORS, "copied_rows", f"{here}.CopiedRows")
    monkeypatch.setattr(World, "owner", "alice")
    monkeypatch.setattr(World, "amount", 1)
    plane = await ControlPlane.open(state_dsns, tmp_path, data_dsns.janitor)
    resources = Resources(
        LocalStore(str(tmp_path)), RpcEndpoint, spark_runtime, DataDatabase(data_dsns.writer)
    )
    yield Rig(plane, resources)
    await plane.close()


class Rig:
    """A dispatcher, and a worker's attempts on Spark, one after the other."""

    def __init__(self, plane: ControlPlane, resources: Resources) -> None:
        self.plane = plane
        self._resources = resources

    async def deploy(self, on_failure: str) -> None:
        await self.plane.deploy(DAG.format(on_failure=on_failure))

    async def make(self, start: int, end: int) -> list[str]:
        await self.plane.trigger(start, end, "p", "request")
        return await self.work()

    async def make_again(self, start: int, end: int, dataset: str = "rows") -> list[str]:
        dispatcher = self.plane.dispatcher
        request = InvalidateRequest(
            dataset=dataset, scope="row_range", start=start, end=end, reason="a test says so"
        )
        await invalidate(dispatcher.state, dispatcher.org_id, request)
        return await self.work()

    async def work(self) -> list[str]:
        """Until nothing is left to claim; the jobs whose attempts ran."""
        dispatcher, ran = self.plane.dispatcher, []
        while True:
            await route_invalidations(dispatcher.state)
            await requeue_failed(dispatcher.state)
            await self.plane.settle()
            found = await claim_tasks(
                dispatcher.state, dispatcher.grants, "ecs_platform", ["w"] * 10
            )
            if not found:
                return sorted(ran)
            for _, claimed in found:
                await self._attempt(claimed)
                ran.append(claimed.task.job.name)

    async def _attempt(self, claimed: Claimed) -> None:
        report = await asyncio.to_thread(Attempt(claimed, self._resources).run)
        await complete_task(self.plane.dispatcher.completing, report)

    async def read(self, name: str) -> dict[int, str | None]:
        """By block: the owner, as readers of the published dataset find it."""
        dispatcher = self.plane.dispatcher
        request = ResolveRequest(datasets=[DatasetRef(name=name)])
        (found,) = (await resolve_datasets(dispatcher.state, dispatcher.org_id, request)).datasets
        rows: dict[int, str | None] = {}
        for uri in found.files:
            table = pq.read_table(dispatcher.store.filesystem(uri)[1])
            rows |= dict(
                zip(table["block_number"].to_pylist(), table["owner"].to_pylist(), strict=True)
            )
        return rows

    async def why(self, subject: str) -> Any:
        dispatcher = self.plane.dispatcher
        return await explain(
            dispatcher.state, dispatcher.data, dispatcher.runtimes, dispatcher.org_id, subject
        )

    async def alerts(self) -> list[tuple[str, str]]:
        found = await list_alerts(self.plane.dispatcher.data, "info", 100)
        return [(each.code, each.severity) for each in reversed(found.alerts)]


async def test_a_check_that_blocks_everybody_commits_nothing(rig: Rig) -> None:
    dispatcher = rig.plane.dispatcher
    await rig.deploy("block")
    assert await rig.make(0, 2) == ["make", "other", "report"]
    good = await rig.read("rows")
    World.owner = None
    # The rows of before are to be made anew, and others for the first time.
    assert set(await rig.make_again(0, 2)) == {"make"}
    assert await rig.make(3, 5) == ["make"]
    assert await rig.read("rows") == good == {0: "alice", 1: "alice", 2: "alice"}
    assert await rig.read("report") == good
    for task in rig.plane.sql("SELECT * FROM tasks WHERE status = 'Failed'"):
        assert task["error_code"] == "check_failed"
        assert task["next_retry_at"] is None
        assert "not_null_owner: 3 of 3 rows have null in owner" in task["error_message"]
    for name in ("rows", "report"):
        why = await rig.why(name)
        assert why.state == "blocked"
        assert why.reasons[0].code == "check_failed"
        assert "a blocking check keeps back what task" in why.answer
    found = (
        await show_checks(dispatcher.state, dispatcher.org_id, "rows", 100, failed=True)
    ).results
    assert [(each.name, each.committed, each.blocks_now) for each in found] == [
        ("not_null_owner", False, True)
    ] * 2
    assert ("check_failed", "critical") in await rig.alerts()


async def test_a_check_that_names_a_reader_keeps_the_rows_from_it_and_from_nobody_else(
    rig: Rig,
) -> None:
    await rig.deploy("{ block: [report] }")
    await rig.make(0, 2)
    World.owner = None
    assert set(await rig.make_again(0, 2)) == {"make", "other"}
    assert await rig.make(3, 5) == ["make", "other"]
    none: dict[int, str | None] = dict.fromkeys(range(6))
    assert await rig.read("rows") == await rig.read("other") == none
    assert await rig.read("report") == {0: "alice", 1: "alice", 2: "alice"}
    why = await rig.why("report")
    assert why.state == "blocked"
    assert why.reasons[0].code == "held_by_check"
    assert "p.report is kept from 2 partitions of rows (0-2, 3-5)" in why.answer
    assert "not_null_owner failed" in why.answer
    assert (await rig.why("p.report")).reasons[0].code == "held_by_check"
    assert (await rig.why("other")).state == "fresh"
    assert (await rig.why("rows")).state == "fresh"
    # One range is good again: what was held of it goes on, and nothing of the other.
    World.owner = "bob"
    await rig.make_again(3, 5)
    assert await rig.read("report") == dict.fromkeys(range(3), "alice") | dict.fromkeys(
        range(3, 6), "bob"
    )
    await rig.make_again(0, 2)
    assert await rig.read("report") == await rig.read("rows") == dict.fromkeys(range(6), "bob")
    assert (await rig.why("report")).state == "fresh"
    # Being put back cost no attempt: of one there is only one.
    assert not rig.plane.sql("SELECT FROM tasks WHERE status <> 'Completed'")


async def test_a_warning_stops_nobody_and_is_told_when_it_begins_and_when_it_ends(
    rig: Rig,
) -> None:
    dispatcher = rig.plane.dispatcher
    await rig.deploy("warn")
    World.owner, World.amount = None, 1000
    assert await rig.make(0, 2) == ["make", "other", "report"]
    assert await rig.alerts() == [("check_failed", "warning")] * 2
    await rig.make_again(0, 2)
    assert len(await rig.alerts()) == 2
    World.owner, World.amount = "alice", 1
    await rig.make_again(0, 2)
    assert (
        await rig.alerts()
        == [("check_failed", "warning")] * 2 + [("check_failed_ended", "info")] * 2
    )
    assert (await rig.why("rows")).state == "fresh"
    found = (await list_checks(dispatcher.state, dispatcher.org_id, None)).checks
    assert [(c.dataset, c.name, c.outcome, c.on_failure, c.passed, c.failed) for c in found] == [
        ("rows", "not_null_owner", "passed", "warn", 1, 2),
        ("rows", "range_amount", "passed", "warn", 1, 2),
    ]
    # What is personal is in no sample, also not in the database.
    failed = (
        await show_checks(dispatcher.state, dispatcher.org_id, "rows", 100, failed=True)
    ).results
    assert failed[0].masked == ["email"]
    assert failed[0].sample[0] == {
        "block_number": "0",
        "owner": None,
        "amount": "1000",
        "email": "***",
    }
    assert not rig.plane.sql("SELECT FROM check_results WHERE sample::text LIKE %s", "%example%")


async def test_what_was_told_of_a_range_is_over_when_a_wider_one_takes_its_place(rig: Rig) -> None:
    await rig.deploy("warn")
    World.owner = None
    await rig.make(0, 2)
    await rig.make(7, 8)
    assert await rig.alerts() == [("check_failed", "warning")] * 2
    World.amount = 1000
    # One partition from here on: 0-2 is within it, and 7-8 is not.
    await rig.make_again(0, 5, "p.request.0")
    found = (await list_alerts(rig.plane.dispatcher.data, "info", 100)).alerts
    told = sorted((a.facts["check"], a.code, a.message.split(":")[0], a.stands) for a in found)
    assert told == [
        ("not_null_owner", "check_failed", "p.make.rows 0-2", False),
        ("not_null_owner", "check_failed", "p.make.rows 0-5", True),
        ("not_null_owner", "check_failed", "p.make.rows 7-8", True),
        ("not_null_owner", "check_failed_ended", "p.make.rows 0-2", False),
        ("range_amount", "check_failed", "p.make.rows 0-5", True),
    ]
    await rig.make_again(0, 5, "p.request.0")
    assert len(await rig.alerts()) == len(found)


async def test_history_is_forgotten_but_for_the_newest_result_of_each_check(rig: Rig) -> None:
    await rig.deploy("warn")
    await rig.make(0, 2)
    await rig.make(3, 5)
    rig.plane.sql("UPDATE check_results SET checked_at = checked_at - interval '91 days'")
    await prune_history(rig.plane.dispatcher.state, 90)
    kept = rig.plane.sql("SELECT name, partition_key FROM check_results ORDER BY name")
    assert [tuple(row.values()) for row in kept] == [
        ("not_null_owner", "3-5"),
        ("range_amount", "3-5"),
    ]
