"""The ends of attempts on their way to the Dispatcher: many in one call, until it answers.

An attempt that has ended needs no thread of its own any more: its report waits here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from trace_platform.domain.errors import StaleFence, TraceError, Unavailable
from trace_platform.wire.task import CompleteRequest, CompleteResponse
from trace_platform.worker.attempt import Attempt

log = structlog.get_logger()

# A finished attempt outlives a long outage of the dispatcher rather than being thrown away.
REPORT_FOR_S = 3600.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
MAX_BATCH = 200
# Of all reports in a batch: what the Dispatcher takes in one request is bounded.
MAX_EVENTS = 20_000

Send = Callable[[Sequence[CompleteRequest]], list[CompleteResponse | TraceError]]


@dataclass(slots=True)
class Report:
    attempt: Attempt
    request: CompleteRequest
    since: float = field(default_factory=time.monotonic)


class Reports:
    """`hand_in` from any thread; `settled` hears of attempts that are dealt with, in its thread."""

    def __init__(self, send: Send, settled: Callable[[list[Attempt]], None], name: str) -> None:
        self._send = send
        self._settled = settled
        self._waiting: list[Report] = []
        self._changed = threading.Condition()
        self._pause_s = FIRST_PAUSE_S
        self._stopped = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def hand_in(self, attempt: Attempt, request: CompleteRequest) -> None:
        with self._changed:
            self._waiting.append(Report(attempt, request))
            self._changed.notify()

    def stop(self) -> None:
        """What is on its way is left to itself: the leases say what becomes of it."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while batch := self._next():
            try:
                kept = self._deliver(batch)
            except Exception:
                # A defect must not end the only thread that reports.
                log.exception("reports_failed")
                kept = batch
                self._pause()
            with self._changed:
                self._waiting[:0] = kept

    def _next(self) -> list[Report]:
        """What waits; nothing once it is stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped)
            if self._stopped:
                return []
            size = _size(self._waiting)
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            return batch

    def _deliver(self, batch: list[Report]) -> list[Report]:
        """Those that have to be sent again."""
        live = [report for report in batch if not report.attempt.is_lost]
        try:
            answers = self._send([report.request for report in live]) if live else []
        except Unavailable as error:
            kept = [r for r in live if time.monotonic() - r.since < REPORT_FOR_S]
            self._close([r for r in batch if r not in kept], error)
            self._pause()
            return kept
        except TraceError as error:
            return self._refused(live, error)
        self._pause_s = FIRST_PAUSE_S
        self._close([report for report in batch if report not in live], StaleFence("lost"))
        return self._sort(live, answers)

    def _refused(self, reports: list[Report], error: TraceError) -> list[Report]:
        """The whole call was: whichever of them is to blame, the others are innocent."""
        if len(reports) == 1:
            return self._sort(reports, [error])
        return [again for report in reports for again in self._deliver([report])]

    def _sort(
        self, reports: list[Report], answers: list[CompleteResponse | TraceError]
    ) -> list[Report]:
        again: list[Report] = []
        done: list[Attempt] = []
        for report, answer in zip(reports, answers, strict=True):
            if isinstance(answer, Unavailable):
                again.append(report)
                continue
            if isinstance(answer, TraceError) and _may_fail_instead(report, answer):
                # A completion that is refused (a bad manifest, an overlap) makes the attempt fail.
                again.append(Report(report.attempt, report.attempt.failed(answer), report.since))
                continue
            error = answer if isinstance(answer, TraceError) else None
            report.attempt.say_ended(report.request, error)
            done.append(report.attempt)
        self._settled(done)
        return again

    def _close(self, reports: list[Report], error: TraceError) -> None:
        for report in reports:
            report.attempt.say_ended(report.request, error)
        self._settled([report.attempt for report in reports])

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, self._pause_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)


def _size(reports: list[Report]) -> int:
    """How many of these go out together; at least one, however large."""
    events = 0
    for n, report in enumerate(reports[:MAX_BATCH]):
        events += len(report.request.events)
        if n and events > MAX_EVENTS:
            return n
    return min(len(reports), MAX_BATCH)


def _may_fail_instead(report: Report, error: TraceError) -> bool:
    return report.request.status == "Completed" and not isinstance(error, StaleFence)
