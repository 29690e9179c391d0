"""An HTTP endpoint, asked at each tick by a real worker: readers see one answer, and the last good
one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.test_worker import Rig
from tests.support.control_plane import ControlPlane
from tests.support.http_server import HttpServer, http_server
from tests.support.stack import wait_for
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.query import DatasetRef, ResolveRequest
from trace_platform.wire.task import EventScope

DAG = """
name: tokens
defaults: {{ max_attempts: 1, heartbeat_timeout_seconds: 15 }}
jobs:
  - {{ name: clock, activation: source, source: {{ kind: cron, schedule: "0 3 1 1 *" }} }}
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: http_ingest
    inputs: [{{ from: {{ job: clock }} }}]
    outputs: [rows, rejected]
    config: {{ url: "{url}/tokens", types: {{ symbol: string, decimals: int32 }} }}
  - name: below
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{{ from: {{ job: ingest, output: rows }} }}]
publish:
  tokens: {{ from: {{ job: ingest, output: rows }} }}
"""
TASKS = """
SELECT j.name, t.status, t.error_code FROM tasks t JOIN jobs j ON j.id = t.job_id ORDER BY t.id
"""


class Tokens:
    def __init__(self, rig: Rig, server: HttpServer) -> None:
        self.rig = rig
        self.server = server
        self._ticks = 0
        rig.dispatcher.run(lambda plane: plane.deploy(DAG.format(url=server.url)))

    def tick(self, cursor: int) -> None:
        """Until nothing more is owed or to be done."""
        self._ticks += 1
        self.rig.dispatcher.run(lambda plane: _emit(plane, cursor))
        wait_for("all tasks", self._all_is_done)

    def rows(self) -> list[tuple[str, int]]:
        """As whoever reads the published dataset finds them."""
        request = ResolveRequest(datasets=[DatasetRef(name="tokens")])

        async def resolve(plane: Any) -> Any:
            return await resolve_datasets(plane.dispatcher.state, plane.dispatcher.org_id, request)

        (found,) = self.rig.dispatcher.run(resolve).datasets
        store = self.rig.dispatcher.plane.dispatcher.store
        tables = [pq.read_table(store.filesystem(uri)[1]) for uri in found.files]
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]

    def done(self) -> list[tuple[str, str | None]]:
        """By job: how the tasks ended, in their order."""
        return [(row["name"], row["error_code"]) for row in self._tasks()]

    def _all_is_done(self) -> bool:
        # What a task owes is written with its end: first the tasks, then the outbox.
        tasks = self._tasks()
        ticks = sum(row["name"] == "ingest" for row in tasks)
        ended = all(row["status"] in ("Completed", "Failed") for row in tasks)
        owed = self.rig.sql("SELECT 1 FROM outbox")
        return ticks == self._ticks and ended and not owed and len(self._tasks()) == len(tasks)

    def _tasks(self) -> list[dict[str, Any]]:
        return self.rig.sql(TASKS)


async def _emit(plane: ControlPlane, cursor: int) -> None:
    emitted = EmitRequest(dataset="tokens.clock", events=[EventScope(cursor=cursor)])
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, emitted)
    await plane.settle()


@pytest.fixture
def tokens(state_dsns: Any, tmp_path: Path) -> Iterator[Tokens]:
    rig = Rig(state_dsns, tmp_path)
    with http_server() as server:
        yield Tokens(rig, server)
    rig.close()


def test_readers_see_the_newest_good_answer_and_the_same_one_wakes_nobody(tokens: Tokens) -> None:
    weth, usdc = {"symbol": "WETH", "decimals": 18}, {"symbol": "USDC", "decimals": 6}
    tokens.server.says([weth], etag='"1"')
    tokens.tick(100)
    assert tokens.rows() == [("WETH", 18)]
    tokens.tick(200)
    assert tokens.server.asked[-1].headers["if-none-match"] == '"1"'
    # Of what is below, only the first answer woke a task.
    assert tokens.done() == [("ingest", None), ("below", None), ("ingest", None)]
    tokens.server.says([{"symbol": "WETH", "digits": 18}])
    tokens.tick(300)
    assert tokens.done()[-1] == ("ingest", "incompatible_schema")
    assert tokens.rows() == [("WETH", 18)]
    tokens.server.says([weth, usdc], etag='"2"')
    tokens.tick(400)
    assert tokens.rows() == [("WETH", 18), ("USDC", 6)]
    assert tokens.done()[-2:] == [("ingest", None), ("below", None)]
