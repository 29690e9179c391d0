"""What attempts did is told as OpenLineage events, after the commit and in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dispatcher.redo.test_invalidations import take
from tests.integration.dispatcher.versions.test_sql_checks import MAKER, ROWS
from tests.support.control_plane import ControlPlane
from tests.support.staged_rows import stage_rows
from trace_platform.dispatcher.health.check_health import check_health
from trace_platform.dispatcher.openlineage.describe_runs import KnownLineage, Place
from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
from trace_platform.dispatcher.openlineage.tell_runs import tell_runs
from trace_platform.dispatcher.run_loops import Tuning, running_loops
from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.event_sink import FileSink
from trace_platform.drivers.http_invoker import HttpInvoker

pytestmark = pytest.mark.anyio

READER = """
name: reader
jobs:
  - name: fees
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { dataset: pools } }]
    outputs: [fees]
    config:
      mode: map
      sql: select pool, fee * 2 as twice from pools where fee > 0
publish:
  fees: { from: { job: fees } }
"""


class Told:
    """A plane whose attempts are told to a file."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.file = folder / "events.jsonl"
        self.pending = PendingRuns(FileSink(str(self.file)), "here")
        given = plane.dispatcher
        grants = replace(given.grants, began=self.pending.began)
        plane.dispatcher = replace(given, grants=grants, runs=self.pending)
        self._state = given.state
        self._place = Place(given.org_id, given.grants.bucket, "here")
        self._known = KnownLineage()

    async def tell(self) -> list[dict[str, Any]]:
        """The events since the last time."""
        self.file.touch()
        before = len(self.file.read_text().splitlines())
        while await tell_runs(self._state, self._place, self.pending, self._known):
            pass
        return [json.loads(line) for line in self.file.read_text().splitlines()[before:]]


async def test_attempts_are_told_with_what_they_read_and_wrote(
    plane: ControlPlane, tmp_path: Path
) -> None:
    told = Told(plane, tmp_path)
    await plane.deploy(MAKER)
    await plane.deploy(READER)
    await plane.trigger(0, 9, "maker")
    await plane.settle()
    (make,) = await take(plane)
    await plane.complete(make, outputs=[stage_rows(plane.dispatcher.store, make, ROWS)])
    await plane.settle()
    (fees,) = await take(plane)
    wrong = {"error_code": "invalid_query", "error_message": "no such row", "retryable": False}
    await plane.complete(fees, status="Failed", **wrong)
    events = await told.tell()
    assert [(each["job"]["name"], each["eventType"]) for each in events] == [
        ("maker.make", "START"),
        ("maker.make", "COMPLETE"),
        ("reader.fees", "START"),
        ("reader.fees", "FAIL"),
    ]
    done, failed = events[1], events[3]
    (output,) = done["outputs"]
    assert (output["namespace"], output["name"]) == ("here", "pools")
    assert [each["name"] for each in output["facets"]["schema"]["fields"]] == ROWS.column_names
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert done["run"]["runId"] == events[0]["run"]["runId"] != failed["run"]["runId"]
    assert failed["run"]["facets"]["errorMessage"]["message"] == "invalid_query: no such row"
    (read,) = failed["inputs"]
    assert (read["name"], read["facets"]["version"]) == ("pools", output["facets"]["version"])
    lineage = failed["outputs"][0]["facets"]["columnLineage"]
    assert {
        name: [(each["name"], each["field"]) for each in column["inputFields"]]
        for name, column in lineage["fields"].items()
    } == {"pool": [("pools", "pool")], "twice": [("pools", "fee")]}
    assert [(each["name"], each["field"]) for each in lineage["dataset"]] == [("pools", "fee")]
    assert await told.tell() == []


class Away:
    refused = 0

    async def send(self, events: Sequence[bytes]) -> int:
        raise Unavailable("away")

    async def close(self) -> None: ...


async def test_what_nobody_takes_waits_and_holds_up_no_attempt(
    plane: ControlPlane, tmp_path: Path
) -> None:
    told = Told(plane, tmp_path)
    await plane.deploy(MAKER)
    await plane.trigger(0, 9, "maker")
    await plane.settle()
    (make,) = await take(plane)
    file, told.pending.sink = told.pending.sink, Away()
    with pytest.raises(Unavailable):
        await told.tell()
    await plane.complete(make, outputs=[stage_rows(plane.dispatcher.store, make, ROWS)])
    told.pending.sink = file
    assert [each["eventType"] for each in await told.tell()] == ["START", "COMPLETE"]
    given = plane.dispatcher
    health = await check_health(given.state, given.data, given.runtimes, given.org_id, told.pending)
    (rule,) = (each for each in health.rules if each.code == "lineage_events")
    assert (rule.firing, rule.value) == (False, 0)
    told.pending.drop(2)
    health = await check_health(given.state, given.data, given.runtimes, given.org_id, told.pending)
    (rule,) = (each for each in health.rules if each.code == "lineage_events")
    assert (rule.firing, rule.value) == (True, 2)


class Heard:
    """Says when it has heard of an end."""

    refused = 0

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.ended = asyncio.Event()

    async def send(self, events: Sequence[bytes]) -> int:
        self.kinds += [json.loads(each)["eventType"] for each in events]
        if "COMPLETE" in self.kinds:
            self.ended.set()
        return len(events)

    async def close(self) -> None: ...


async def test_the_dispatcher_tells_by_itself(plane: ControlPlane, tmp_path: Path) -> None:
    told, heard = Told(plane, tmp_path), Heard()
    told.pending.sink = heard
    await plane.deploy(MAKER)
    await plane.trigger(0, 9, "maker")
    await plane.settle()
    (make,) = await take(plane)
    await plane.complete(make, outputs=[stage_rows(plane.dispatcher.store, make, ROWS)])
    invoker = HttpInvoker()
    async with running_loops(plane.dispatcher, plane.queue, invoker, Tuning()):
        await asyncio.wait_for(heard.ended.wait(), 60)
    await invoker.close()
    assert heard.kinds == ["START", "COMPLETE"]
