"""`query_export` woken by ticks, and by several ranges at once: a real Dispatcher, a real query
service and the real operator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.dispatcher.redo.test_invalidations import say, take
from tests.support.control_plane import ControlPlane
from tests.support.query_instance import QueryInstance, query_instance, query_process
from tests.support.query_service import QueryProcess
from tests.support.staged_rows import stage_rows
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.drivers.query_endpoint import QueryEndpoint
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.task import Claimed, CompleteRequest, EventScope
from trace_platform.worker.attempt import Attempt
from trace_platform.worker.resources import Resources

DAG = """
name: flow
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - { name: clock, activation: source, source: { kind: cron, schedule: "0 3 * * *" } }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [blocks]
  - name: report
    activation: reactive
    runtime: ecs_platform
    operator: query_export
    inputs: [{ from: { job: clock } }, { from: { job: ingest }, trigger: false }]
    outputs: [report]
    config:
      sql: select count(*) as blocks, max(block_number) as last, $tick as tick from input_1
publish:
  blocks: { from: { job: ingest } }
  report: { from: { job: report } }
"""
BULK = """
name: flow
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [blocks]
  - name: report
    activation: reactive
    runtime: ecs_platform
    operator: query_export
    execution_strategy: Bulk
    inputs: [{ from: { job: ingest } }]
    outputs: [report]
    config:
      sql: select $start as first, $end as last, count(*) as blocks from input_0
publish:
  report: { from: { job: report } }
"""
CURRENT = """
SELECT p.partition_key, p.row_count, p.made_of FROM partition_versions p
  JOIN datasets d ON d.uuid = p.dataset_uuid
 WHERE d.job_name = 'report' AND p.superseded_at IS NULL ORDER BY p.range_start, p.partition_key
"""


@dataclass
class Flow:
    instance: QueryInstance
    spark: SparkRuntime
    token: str

    def run(self, call: Any) -> Any:
        return self.instance.dispatcher.run(call)

    def tick(self, *cursors: int) -> None:
        """Each a task of its own."""
        for cursor in cursors:
            self.run(lambda plane, cursor=cursor: _emit(plane, cursor))

    def blocks(self, *ranges: tuple[int, int]) -> None:
        """Committed, in place of a worker."""
        for start, end in ranges:
            self.run(lambda plane, a=start, b=end: plane.trigger(a, b, "flow", "request"))
        for claimed in self.claimed(len(ranges)):
            assert claimed.task.job.name == "ingest"
            given = claimed.task.inputs[0]
            assert given.start is not None
            assert given.end is not None
            rows = pa.table({"block_number": pa.array(range(given.start, given.end + 1))})
            output = stage_rows(self.store, claimed, rows)
            self.run(lambda plane, c=claimed, o=output: plane.complete(c, outputs=[o]))

    def claimed(self, n: int) -> list[Claimed]:
        """So many tasks, in the order in which they were made."""
        found: list[Claimed] = self.run(lambda plane: _claim(plane, n))
        return found

    def report(self, n: int = 1) -> list[tuple[str, str | None]]:
        """So many tasks of it, by the operator; how each attempt ended."""
        return [self.attempt(claimed) for claimed in self.claimed(n)]

    def attempt(self, claimed: Claimed) -> tuple[str, str | None]:
        return self.end(claimed, self.worked(claimed))

    def worked(self, claimed: Claimed) -> CompleteRequest:
        home = self.instance.query.home
        ca = (home.tls / "ca.pem").read_text()
        resources = Resources(
            self.store,
            lambda pool: None,
            self.spark,
            query=lambda token: QueryEndpoint(self.instance.query.url, token, ca),
        )
        return Attempt(claimed, resources).run()

    def end(self, claimed: Claimed, report: CompleteRequest) -> tuple[str, str | None]:
        fields = report.model_dump(exclude={"task_id", "attempt", "lease_token"})
        try:
            self.run(lambda plane: plane.complete(claimed, **fields))
        except Exception as error:
            return type(error).__name__, str(error)
        return report.status, report.error_message

    @property
    def store(self) -> Any:
        return self.instance.dispatcher.plane.dispatcher.store

    @property
    def current(self) -> list[dict[str, Any]]:
        return self.instance.sql(CURRENT)

    def answer(self) -> list[list[Any]]:
        """What readers of the dataset see."""
        found = self.instance.ask("select * from report order by 1", self.token)
        assert found.status_code == 200, found.text
        rows: list[list[Any]] = found.json()["rows"]
        return rows


async def _emit(plane: ControlPlane, cursor: int) -> None:
    emitted = EmitRequest(dataset="flow.clock", events=[EventScope(cursor=cursor)])
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, emitted)
    await plane.settle()


async def _claim(plane: ControlPlane, n: int) -> list[Claimed]:
    """The dispatcher's own loops are at it too: some may come a little later."""
    found: list[Claimed] = []
    async with asyncio.timeout(30):
        while len(found) < n:
            await plane.settle()
            found += await take(plane, n - len(found))
            await asyncio.sleep(0.01)
    return sorted(found, key=lambda each: each.task.task_id)


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryProcess]:
    with query_process(tmp_path_factory.mktemp("query") / "home") as running:
        yield running


@pytest.fixture
def flow(query: QueryProcess, state_dsns: Any, janitor_dsn: str, tmp_path: Path) -> Iterator[Flow]:
    with query_instance(query, state_dsns, janitor_dsn) as instance:
        yield Flow(instance, SparkRuntime(tmp_path / "spark"), instance.users.add("reader"))


def test_each_tick_is_answered_by_whole_datasets_in_the_place_of_the_last_answer(
    flow: Flow,
) -> None:
    flow.instance.deploy(DAG)
    flow.blocks((0, 9))
    flow.tick(100)
    assert flow.report() == [("Completed", None)]
    assert flow.answer() == [[10, 9, 100]]
    flow.blocks((10, 19), (20, 29))
    flow.tick(200)
    assert flow.report() == [("Completed", None)]
    assert flow.answer() == [[30, 29, 200]]
    (held,) = flow.current
    assert (held["partition_key"], held["row_count"]) == ("all", 1)
    # What it was made of: the tick, and all of what it read.
    assert [(r["input"], r.get("tick")) for r in held["made_of"]] == [(0, 200), (1, None)]


def test_ticks_that_waited_are_each_answered_and_the_newest_answer_stays(flow: Flow) -> None:
    flow.instance.deploy(DAG)
    flow.blocks((0, 9))
    flow.tick(100, 200, 300)
    first, second, third = flow.claimed(3)
    assert flow.attempt(first) == ("Completed", None)
    assert flow.answer() == [[10, 9, 100]]
    # Its answer is of a newer tick than the one that is there, though that had read all ticks.
    assert flow.attempt(third) == ("Completed", None)
    assert flow.attempt(second) == ("Completed", None)
    assert flow.answer() == [[10, 9, 300]]
    assert len(flow.current) == 1


def test_an_older_tick_that_comes_late_replaces_nothing(flow: Flow) -> None:
    flow.instance.deploy(DAG)
    flow.blocks((0, 9))
    flow.tick(200)
    flow.report()
    # Of a schedule that was missed: its position is newer, its time is not.
    flow.tick(100)
    assert flow.report() == [("Completed", None)]
    assert flow.answer() == [[10, 9, 200]]


def test_an_answer_that_had_read_less_gives_way_and_is_made_again(flow: Flow) -> None:
    flow.instance.deploy(DAG)
    flow.blocks((0, 9))
    flow.tick(100, 200)
    older, newer = flow.claimed(2)
    stale = flow.worked(newer)
    flow.blocks((10, 19))
    flow.tick(150)
    (between,) = flow.claimed(1)
    assert flow.attempt(between) == ("Completed", None)
    assert flow.answer() == [[20, 19, 150]]
    # Of a newer tick, but it had read fewer blocks than what is there.
    assert flow.end(newer, stale)[0] == "CommitOvertaken"
    assert flow.attempt(older) == ("Completed", None)
    assert flow.answer() == [[20, 19, 150]]


def test_a_scheduled_answer_that_is_said_to_be_wrong_is_made_once_more(flow: Flow) -> None:
    flow.instance.deploy(DAG)
    flow.blocks((0, 9))
    flow.tick(100)
    flow.report()
    (before,) = flow.current
    flow.blocks((10, 19))
    flow.run(lambda plane: say(plane, "report", "all"))
    flow.run(lambda plane: route_invalidations(plane.dispatcher.state))
    assert flow.report() == [("Completed", None)]
    assert flow.answer() == [[20, 19, 100]]
    assert flow.current != [before]


def test_ranges_of_one_bulk_task_are_answered_each_and_touching_ones_together(flow: Flow) -> None:
    flow.instance.deploy(BULK)
    flow.blocks((0, 9), (10, 19), (40, 49))
    (task,) = flow.claimed(1)
    assert [(i.start, i.end) for i in task.task.inputs] == [(0, 9), (10, 19), (40, 49)]
    assert flow.attempt(task) == ("Completed", None)
    assert flow.current == []
    assert flow.report(2) == [("Completed", None)] * 2
    assert flow.answer() == [[0, 19, 20], [40, 49, 10]]
    assert [each["partition_key"] for each in flow.current] == ["0-19", "40-49"]


def test_files_that_ranges_of_a_task_have_in_common_are_read_once(flow: Flow) -> None:
    flow.instance.deploy(BULK)
    flow.blocks((0, 9))
    flow.run(lambda plane: _announce_again(plane, (0, 4), (3, 9)))
    (task,) = flow.claimed(1)
    assert flow.attempt(task) == ("Completed", None)
    assert flow.answer() == [[0, 9, 10]]


async def _announce_again(plane: ControlPlane, *ranges: tuple[int, int]) -> None:
    events = [EventScope(partition_key=f"{a}-{b}", start=a, end=b) for a, b in ranges]
    await emit_events(
        plane.dispatcher.state,
        plane.dispatcher.org_id,
        EmitRequest(dataset="flow.ingest", events=events),
    )
    await plane.settle()
