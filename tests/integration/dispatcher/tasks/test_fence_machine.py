"""The SQL does what the model says: random histories on a real database, compared step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.support import fence_model as model
from tests.support.control_plane import ControlPlane, stage
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.domain.errors import Conflict, StaleFence
from trace_platform.wire.task import Claimed

REPORTS = st.sampled_from(["Completed", "Failed", "Canceled"])


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("examples", [12, pytest.param(200, marks=pytest.mark.long)])
def test_the_database_equals_the_model(
    state_dsns: Any, tmp_path: Path, loop: asyncio.AbstractEventLoop, examples: int
) -> None:
    plane = loop.run_until_complete(ControlPlane.open(state_dsns, tmp_path))
    ranges = iter(range(10**6))

    def do(work: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(work)

    class Machine(RuleBasedStateMachine):
        @initialize()
        def a_queued_task(self) -> None:
            start = 10 * next(ranges)
            self.start = start
            self.task_id = do(plane.queued_ingest(start, start + 9))
            self.task = model.Task()
            self.claims: list[Claimed] = []
            self.outcomes: dict[int, str] = {}
            self.commits = 0

        @rule()
        def claim(self) -> None:
            answer = do(plane.claim(self.task_id, "w"))
            expected = model.claim(self.task)
            assert isinstance(answer, Claimed) == (expected is not None)
            if isinstance(answer, Claimed) and expected is not None:
                self.task = expected
                self.claims.append(answer)

        @rule(data=st.data())
        def beat(self, data: st.DataObject) -> None:
            for claimed in self._somebody(data):
                expected = model.beat(self.task, claimed.attempt)
                if expected is None:
                    with pytest.raises(StaleFence):
                        do(plane.beat(claimed))
                else:
                    answer = do(plane.beat(claimed))
                    assert (answer.directive == "cancel") == self.task.cancel_requested
                    self.task = expected

        @rule(data=st.data(), status=REPORTS)
        def report(self, data: st.DataObject, status: str) -> None:
            for claimed in self._somebody(data):
                expected = model.end(self.task, claimed.attempt, status)
                outputs = []
                if status == "Completed":
                    outputs = [
                        stage(plane.dispatcher.store, claimed, 0, self.start, self.start + 9)
                    ]
                if expected is None and self.outcomes.get(claimed.attempt) != status:
                    with pytest.raises(StaleFence):
                        do(plane.complete(claimed, status=status, outputs=outputs))
                    continue
                do(plane.complete(claimed, status=status, outputs=outputs))
                if expected is not None:
                    self.task = expected
                    self.outcomes[claimed.attempt] = status
                    self.commits += status == "Completed"

        @rule(data=st.data(), status=REPORTS)
        def forge(self, data: st.DataObject, status: str) -> None:
            for claimed in self._somebody(data):
                with pytest.raises(StaleFence):
                    do(plane.complete(claimed, status=status, lease_token=uuid4()))

        @rule()
        def reap(self) -> None:
            plane.sql(
                "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
                " WHERE status = 'Running' AND id = %s",
                self.task_id,
            )
            do(reap_leases(plane.dispatcher.state))
            self.task = model.reap(self.task) or self.task

        @rule()
        def requeue(self) -> None:
            plane.sql(
                "UPDATE tasks SET next_retry_at = clock_timestamp()"
                " WHERE next_retry_at IS NOT NULL AND id = %s",
                self.task_id,
            )
            do(requeue_failed(plane.dispatcher.state))
            self.task = model.requeue(self.task) or self.task

        @rule()
        def cancel(self) -> None:
            expected = model.cancel(self.task)
            if expected is None:
                with pytest.raises(Conflict):
                    do(cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, self.task_id))
            else:
                do(cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, self.task_id))
                self.task = expected

        @invariant()
        def database_equals_model(self) -> None:
            (row,) = plane.sql("SELECT * FROM tasks WHERE id = %s", self.task_id)
            found = model.Task(
                status=row["status"],
                attempt=row["attempt"],
                reaped=row["reaped_at"] is not None,
                retry_due=row["next_retry_at"] is not None,
                cancel_requested=row["cancel_requested_at"] is not None,
            )
            assert found == self.task
            committed = plane.sql(
                "SELECT count(*) AS n FROM partition_versions WHERE task_id = %s", self.task_id
            )
            assert committed[0]["n"] == self.commits <= 1

        def _somebody(self, data: st.DataObject) -> list[Claimed]:
            """One of the attempts there ever were, dead or alive."""
            return [data.draw(st.sampled_from(self.claims))] if self.claims else []

        def teardown(self) -> None:
            plane.sql("UPDATE tasks SET next_retry_at = NULL")
            do(plane.settle())
            plane.wake_ups()

    try:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=25,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
    finally:
        loop.run_until_complete(plane.close())
