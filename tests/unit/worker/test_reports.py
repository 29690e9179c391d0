"""Ends of attempts reach the Dispatcher: together, after an outage, and never wrongly twice."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import uuid4

import pytest

from trace_platform.domain.errors import (
    DispatcherUnreachable,
    PartitionOverlap,
    StaleFence,
    TraceError,
)
from trace_platform.wire.task import CompleteRequest, CompleteResponse
from trace_platform.worker import reports
from trace_platform.worker.attempt import Attempt
from trace_platform.worker.reports import Reports


class FakeAttempt:
    def __init__(self) -> None:
        self.is_lost = False
        self.said: list[tuple[str, str | None]] = []

    def failed(self, error: TraceError) -> CompleteRequest:
        return request("Failed", error_code=error.code)

    def say_ended(self, report: CompleteRequest, error: TraceError | None) -> None:
        self.said.append((report.status, error.code if error else None))


def request(status: str = "Completed", **fields: Any) -> CompleteRequest:
    return CompleteRequest(
        task_id=uuid4(), attempt=1, lease_token=uuid4(), status=cast(Any, status), **fields
    )


class Rig:
    """`answers` says what the Dispatcher does with each request."""

    def __init__(self, answer: Callable[[CompleteRequest], Any]) -> None:
        self.sent: list[str] = []
        self.settled: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answer = answer
        self.reports = Reports(self._send, self._note, "test")

    def _send(self, batch: Sequence[CompleteRequest]) -> list[CompleteResponse | TraceError]:
        self.sent += [each.status for each in batch]
        return [self._answer(each) for each in batch]

    def _note(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self.settled.put(attempt)

    def report(self, **fields: Any) -> FakeAttempt:
        attempt = FakeAttempt()
        self.reports.hand_in(cast(Attempt, attempt), request(**fields))
        assert self.settled.get(timeout=20) is attempt
        return attempt


def accept(given: CompleteRequest) -> CompleteResponse:
    return CompleteResponse(status=given.status)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(reports, "LONGEST_PAUSE_S", 0.0)


def test_an_accepted_report_settles_its_attempt() -> None:
    assert Rig(accept).report().said == [("Completed", None)]


def test_an_outage_is_waited_out() -> None:
    away = [1, 1, 1]

    def answer(given: CompleteRequest) -> Any:
        if away:
            away.pop()
            raise DispatcherUnreachable("away")
        return accept(given)

    rig = Rig(answer)
    assert rig.report().said == [("Completed", None)]
    assert rig.sent == ["Completed"] * 4


def test_a_refused_completion_becomes_a_failure() -> None:
    def answer(given: CompleteRequest) -> Any:
        return accept(given) if given.status == "Failed" else PartitionOverlap("crossed")

    rig = Rig(answer)
    assert rig.report().said == [("Failed", None)]
    assert rig.sent == ["Completed", "Failed"]


def test_a_stale_fence_is_the_end_of_it() -> None:
    rig = Rig(lambda _: StaleFence("gone"))
    assert rig.report().said == [("Completed", "stale_fence")]
    assert rig.sent == ["Completed"]


def test_nobody_is_told_of_an_attempt_that_lost_its_task() -> None:
    rig = Rig(accept)
    attempt = FakeAttempt()
    attempt.is_lost = True
    rig.reports.hand_in(cast(Attempt, attempt), request())
    assert rig.settled.get(timeout=20) is attempt
    assert rig.sent == []


def test_a_defect_on_the_way_loses_no_report() -> None:
    broken = [1]

    def answer(given: CompleteRequest) -> Any:
        if broken:
            broken.pop()
            raise RuntimeError("a defect")
        return accept(given)

    assert Rig(answer).report().said == [("Completed", None)]
