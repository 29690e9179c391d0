"""The scheduler against a real dispatcher: what is due is told once, whoever tells it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.support.control_plane import SECRETS
from tests.support.served_dispatcher import ServedDispatcher
from tests.support.stack import wait_for
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.pressure.resume_job import resume_job
from trace_platform.domain.errors import DispatcherUnreachable, Unauthenticated
from trace_platform.scheduler.dispatcher_client import DispatcherClient
from trace_platform.scheduler.serve import POLL_S, Scheduler
from trace_platform.wire.control import PauseRequest
from trace_platform.wire.sources import ScheduleList, TickRequest


def dag(name: str, missed: str, schedule: str = "* * * * *") -> str:
    return f"""
name: {name}
jobs:
  - name: clock
    activation: source
    source: {{ kind: cron, schedule: "{schedule}", missed: {missed} }}
"""


class Rig:
    def __init__(self, dsns: Any, folder: Path) -> None:
        self.dispatcher = ServedDispatcher(dsns, folder)
        self.dispatcher.start()
        self.client = DispatcherClient(self.dispatcher.url, SECRETS.service_token)
        self.scheduler = Scheduler(self.client)

    def deploy(self, name: str, missed: str, missing_s: float, schedule: str = "* * * * *") -> None:
        """A schedule that nobody kept for so long."""
        yaml = dag(name, missed, schedule)
        self.dispatcher.run(lambda plane: plane.deploy(yaml))
        wait_for("the schedule", lambda: name in {s.dag_name for s in self.listed().schedules})
        for change in ("active_dags SET activated_at", "source_ticks SET last_tick"):
            self.sql(
                f"UPDATE {change} = clock_timestamp() - %s WHERE dag_name = %s",
                timedelta(seconds=missing_s),
                name,
            )

    def listed(self) -> ScheduleList:
        return self.client.schedules()

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        return self.dispatcher.plane.sql(statement, *parameters)

    def cursors(self, name: str) -> list[int]:
        rows = self.sql(
            "SELECT cursor FROM events e JOIN datasets d ON d.uuid = e.dataset_uuid"
            " WHERE d.dag_name = %s ORDER BY cursor",
            name,
        )
        return [row["cursor"] for row in rows]


@pytest.fixture
def rig(state_dsns: Any, tmp_path: Path) -> Iterator[Rig]:
    opened = Rig(state_dsns, tmp_path)
    yield opened
    opened.client.close()
    opened.dispatcher.stop()


def test_each_schedule_has_its_own_policy_for_what_was_missed(rig: Rig) -> None:
    for missed in ("skip", "latest", "all"):
        rig.deploy(missed, missed, 600)
    assert 0 <= rig.scheduler.turn() <= POLL_S
    assert len(rig.cursors("skip")) <= 1
    assert len(rig.cursors("latest")) == 1
    found = rig.cursors("all")
    assert len(found) in (10, 11), "a minute may have begun since"
    assert {late - early for early, late in pairwise(found)} == {60}
    assert found[-1] == rig.cursors("latest")[0]


def test_turns_and_schedulers_that_repeat_each_other_add_nothing(rig: Rig) -> None:
    rig.deploy("busy", "all", 3600)
    clients = [DispatcherClient(rig.dispatcher.url, SECRETS.service_token) for _ in range(6)]
    threads = [threading.Thread(target=Scheduler(client).turn) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for client in clients:
        client.close()
    found = rig.cursors("busy")
    assert len(found) == len(set(found)) >= 60
    assert {late - early for early, late in pairwise(found)} == {60}


def test_a_paused_schedule_is_left_alone_and_misses_what_passes(rig: Rig) -> None:
    rig.deploy("held", "latest", 600)

    async def pause(plane: Any) -> Any:
        return await pause_job(
            plane.dispatcher.state, plane.dispatcher.org_id, "held", "clock", PauseRequest()
        )

    async def resume(plane: Any) -> Any:
        return await resume_job(plane.dispatcher.state, plane.dispatcher.org_id, "held", "clock")

    rig.dispatcher.run(pause)
    rig.scheduler.turn()
    assert rig.cursors("held") == []
    rig.dispatcher.run(resume)
    rig.scheduler.turn()
    assert len(rig.cursors("held")) == 1


def test_too_many_missed_ticks_are_cut_and_the_log_says_so(rig: Rig) -> None:
    rig.deploy("long", "all", 120_000)
    with structlog.testing.capture_logs() as lines:
        rig.scheduler.turn()
    assert len(rig.cursors("long")) == 1000
    (cut,) = [line for line in lines if line["event"] == "missed_ticks_cut"]
    assert (cut["source"], cut["emitted"]) == ("long.clock", 1000)
    rig.scheduler.turn()
    assert len(rig.cursors("long")) <= 1001, "what was cut does not come back"


def test_one_source_that_is_refused_keeps_no_other_waiting(rig: Rig) -> None:
    for name in ("first", "second"):
        rig.deploy(name, "latest", 600)

    class GoneMeanwhile:
        def schedules(self) -> ScheduleList:
            found = rig.listed()
            gone = found.schedules[0].model_copy(update={"dag_name": "gone"})
            return found.model_copy(update={"schedules": [gone, *found.schedules]})

        def tick(self, request: TickRequest) -> int:
            return rig.client.tick(request)

    Scheduler(GoneMeanwhile()).turn()
    assert (len(rig.cursors("first")), len(rig.cursors("second"))) == (1, 1)


def test_an_outage_loses_no_tick(rig: Rig) -> None:
    rig.deploy("late", "all", 300)
    rig.dispatcher.stop()
    assert rig.scheduler.turn() == POLL_S
    rig.dispatcher.start()
    rig.scheduler.turn()
    assert len(rig.cursors("late")) >= 5


def test_only_who_holds_the_service_token_is_heard(rig: Rig) -> None:
    stranger = DispatcherClient(rig.dispatcher.url, "wrong")
    with pytest.raises(Unauthenticated):
        stranger.schedules()
    stranger.close()
    with pytest.raises(DispatcherUnreachable):
        DispatcherClient("http://localhost:9", "any").schedules()


def test_the_process_ticks_until_it_is_told_to_stop(rig: Rig) -> None:
    rig.deploy("kept", "latest", 600)
    script = (
        "import sys; from trace_platform.scheduler.serve import Scheduler;"
        "from trace_platform.scheduler.dispatcher_client import DispatcherClient;"
        "Scheduler(DispatcherClient(*sys.argv[1:])).run(lambda: None)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, rig.dispatcher.url, SECRETS.service_token]
    )
    try:
        wait_for("its tick", lambda: rig.cursors("kept"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
