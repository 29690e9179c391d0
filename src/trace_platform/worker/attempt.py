"""One claimed attempt, from its operator's start to the report of its end."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog
from pydantic import ValidationError

from trace_platform.data.database import DataDatabase
from trace_platform.domain.errors import (
    InvalidConfig,
    OperatorCrashed,
    StaleFence,
    TaskCanceled,
    TaskTimedOut,
    TraceError,
    Unavailable,
    WorkerStopped,
)
from trace_platform.domain.masking import mask_text
from trace_platform.drivers.query_endpoint import QueryEndpoint
from trace_platform.operators.contract import NOTHING, Result, TaskContext
from trace_platform.operators.facts import config_model
from trace_platform.wire.task import (
    MAX_RETRY_AFTER_S,
    Claimed,
    CompleteRequest,
    DatasetEvent,
    EventsRequest,
    Fenced,
    HeartbeatRequest,
    HeartbeatResponse,
    Invalidation,
    OutputCommit,
    Progress,
    Span,
)
from trace_platform.worker.attempt_log import AttemptLog
from trace_platform.worker.resources import Resources
from trace_platform.worker.run_checks import Checked, operators_own, refuse_blocked, run_checks
from trace_platform.worker.standing import Standing
from trace_platform.worker.tell_contradiction import tell_contradiction

# Named: finding the name out by itself takes longer than logging a line.
log = structlog.get_logger("trace_platform.worker")

# For a source that was told to end. Less than the Dispatcher waits for one that is late.
DRAIN_S = 30.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
MAX_CAUSES = 5

# Of events, with the attempt's capability token; how many were new.
Emit = Callable[[EventsRequest, str], int]
# What was kept, for the attempt with this fence and token.
ReadState = Callable[[Fenced, str], dict[str, Any]]


class Attempt:
    """Runs in a thread of its own; all the other methods may be called from others."""

    def __init__(
        self,
        claimed: Claimed,
        resources: Resources,
        emit: Emit | None = None,
        read_state: ReadState | None = None,
    ) -> None:
        self.claimed = claimed
        self._send_events = emit
        self._read_state = read_state
        self.tag = f"trace-{claimed.task.task_id}-{claimed.attempt}"
        # Once another attempt owns the task, nobody wants to hear of this one.
        self.is_lost = False
        self.has_ended = False
        self._resources = resources
        self._started = time.monotonic()
        self._took_s = 0.0
        self._stop_reason: TraceError | None = None
        self._go_on = threading.Event()
        self._go_on.set()
        self._drain_since: float | None = None
        # Why this worker, and not the Dispatcher, wants a source to end.
        self._drain_reason: TraceError | None = None
        self._hurry = threading.Event()
        self._beats = 0
        self._progress: Progress | None = None
        self._says_progress = False
        self._standing = Standing()
        self._checked = Checked()
        self.log = AttemptLog(lambda: self._log, resources.store, claimed.task.log_uri)

    @property
    def _log(self) -> Any:
        task = self.claimed.task
        return log.bind(
            org=str(task.org_id),
            dag=task.job.dag_name,
            job=task.job.name,
            task=str(task.task_id),
            attempt=task.attempt,
        )

    @property
    def is_source(self) -> bool:
        """A run of a source: no event woke it, and it goes on until it is told to end."""
        return not self.claimed.task.inputs

    def run(self) -> CompleteRequest:
        """How it ended, to be reported."""
        report = self._outcome()
        self.has_ended = True
        self._took_s = round(time.monotonic() - self._started, 3)
        return report

    def say_ended(self, report: CompleteRequest, error: TraceError | None) -> None:
        """In the log, once the Dispatcher has answered."""
        if isinstance(error, StaleFence):
            self._log.warning("attempt_lost_its_task", seconds=self._took_s)
        elif error is not None:
            # The reaper finds it, and another attempt does the work again.
            self._log.error("attempt_not_reported", code=error.code, reason=error.message)
        elif report.status == "Completed":
            self._log.info("attempt_completed", seconds=self._took_s)
        else:
            why = {"code": report.error_code, "reason": report.error_message}
            self._log.warning("attempt_failed", status=report.status, seconds=self._took_s, **why)

    def beat_every_s(self, at_most_s: float) -> float:
        return min(self.claimed.task.heartbeat_timeout_seconds / 3, at_most_s)

    def beat(self) -> HeartbeatRequest:
        """What the next heartbeat says of this attempt. One that ends sooner logs its end only."""
        if not self._beats:
            self._log.info("attempt_runs", operator=self.claimed.task.operator)
        self._beats += 1
        progress = self._standing.told(self._progress) if self.is_source else self._progress
        return HeartbeatRequest(**self._fence(), progress=progress)

    def look(self) -> None:
        """Save its log and see how far it is. The store and Spark may hang: no heartbeat does."""
        self.log.save()
        if self._says_progress:
            return
        done, total = self._resources.spark.progress(self.tag)
        self._progress = Progress(done=done, total=total) if total else None

    def _data(self) -> DataDatabase:
        job = self.claimed.task.job
        return replace(self._resources.data_database(), dag=job.dag_name, job=job.name)

    def _query(self) -> QueryEndpoint:
        return self._resources.query_endpoint(self.claimed.capability_token)

    def _say_progress(self, done: int, total: int) -> None:
        self._says_progress = True
        self._progress = Progress(done=min(done, total), total=total)
        self._standing.heard()

    def heard(self, answer: HeartbeatResponse | TraceError) -> None:
        """Only a lost fence or a directive stops the work, never an outage."""
        if isinstance(answer, StaleFence):
            if self.has_ended:
                return  # later than its time-out, perhaps: its report finds out
            self.is_lost = True
            self.stop(answer)
        elif isinstance(answer, TraceError):
            self._log.warning("heartbeat_refused", code=answer.code, reason=answer.message)
        elif answer.directive == "cancel":
            self.stop(TaskCanceled("canceled on request"))
        elif answer.directive == "drain":
            self.drain()
        elif answer.directive == "pause" and self._drain_since is None:
            self._go_on.clear()
        else:
            self._go_on.set()

    def drain(self, reason: TraceError | None = None) -> None:
        """Have a source finish what it has begun and end. With a reason of this worker's own the
        attempt counts as interrupted, else as completed: what follows the Dispatcher says."""
        if self._drain_since is None:
            self._drain_since = time.monotonic()
        self._drain_reason = self._drain_reason or reason
        self._go_on.set()
        self._hurry.set()

    def stop_when_late(self) -> None:
        if self._stop_reason is not None:
            return
        limit, now = self.claimed.task.timeout_seconds, time.monotonic()
        if self._drain_since is not None:
            if now > self._drain_since + DRAIN_S:
                said = f"the source did not end within {DRAIN_S:g} s"
                self.stop(self._drain_reason or WorkerStopped(said))
        elif now > self._started + limit:
            if self.is_source:
                self.drain(TaskTimedOut(f"ran for {limit:g} s: another attempt takes over"))
            else:
                said = f"ran longer than {limit:g} s"
                self.stop(TaskTimedOut(said, hint="raise timeout_seconds"))

    def stop(self, reason: TraceError) -> None:
        """Ends the operator at its next check, and its Spark jobs at once."""
        if self._stop_reason is None:
            self._stop_reason = reason
        self._go_on.set()
        self._hurry.set()
        self._resources.spark.cancel(self.tag)

    def hand_back(self) -> CompleteRequest:
        """Give the task back before the operator has noticed: what it still writes nobody reads."""
        reason = WorkerStopped("the worker was stopped")
        self.stop(reason)
        return self.failed(reason)

    def _check(self) -> None:
        """Waits here while the attempt is to pause."""
        self._go_on.wait()
        if self._stop_reason is not None:
            raise self._stop_reason

    def _emit(
        self,
        events: Sequence[DatasetEvent] = (),
        invalidations: Sequence[Invalidation] = (),
        tables: Sequence[OutputCommit] = (),
        state: Mapping[str, Any] = NOTHING,
    ) -> int:
        """An outage of the Dispatcher is waited for, unless the attempt is to end meanwhile."""
        if self._send_events is None:
            raise InvalidConfig("this worker takes no events of attempts that run")
        request = EventsRequest(
            **self._fence(),
            events=list(events),
            invalidations=list(invalidations),
            tables=list(tables),
            state=dict(state),
        )
        pause_s = FIRST_PAUSE_S
        while True:
            self._check()
            try:
                return self._send_events(request, self.claimed.capability_token)
            except StaleFence as error:
                self.is_lost = True
                self.stop(error)
                raise
            except Unavailable as error:
                if self._drain_since is not None:
                    raise
                self._log.warning("emit_waits", reason=error.message)
            self._hurry.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _state(self) -> Mapping[str, Any]:
        if self._read_state is None:
            return NOTHING
        self._check()
        return self._read_state(Fenced(**self._fence()), self.claimed.capability_token)

    def _outcome(self) -> CompleteRequest:
        try:
            result = self._run_operator()
        except TraceError as error:
            tell_contradiction(error, self.claimed.task, self._data, self._log)
            return self.failed(self._stop_reason or self._drain_reason or error)
        except Exception as error:
            if self._stop_reason is None:
                self.log.error("operator_crashed", traceback=traceback.format_exc())
            return self.failed(self._stop_reason or _crash(error))
        if self._stop_reason is not None:
            return self.failed(self._stop_reason)
        if self._drain_reason is not None and not result.outputs:
            return self.failed(self._drain_reason, result.events)
        return CompleteRequest(
            **self._fence(),
            status="Completed",
            outputs=result.outputs,
            events=result.events,
            invalidations=result.invalidations,
            split=[Span(start=part.start, end=part.end) for part in result.split],
            has_log=self.log.save(),
            checks=self._checked.reports,
            state={**result.state, **self._checked.state},
        )

    def _run_operator(self) -> Result:
        task = self.claimed.task
        kind, py_file = self._resources.operator(task.operator, task.config)
        operator = kind()
        try:
            config = config_model(kind).model_validate(task.config)
        except ValidationError as error:
            raise InvalidConfig(f"config of {task.operator}: {error}") from None
        with self._resources.spark.task_thread(self.tag, py_file) as spark:
            context = TaskContext(
                task_id=task.task_id,
                attempt=task.attempt,
                config=config,
                inputs=tuple(task.inputs),
                outputs=tuple(task.outputs),
                store=self._resources.store,
                spark=spark,
                rpc=self._resources.rpc,
                check=self._check,
                draining=lambda: self._drain_since is not None,
                emit=self._emit,
                state=lambda: operators_own(self._state()),
                data=self._data,
                query=self._query,
                secret=self._resources.secret,
                progress=self._say_progress,
                stuck=self._standing.is_stuck,
                abis=tuple(task.abis),
                log=self.log,
            )
            result = operator.run(context)
            self._checked = run_checks(task, replace(context, state=self._state), result)
            refuse_blocked(task, self._checked.reports)
            return result

    def failed(self, error: TraceError, events: Sequence[DatasetEvent] = ()) -> CompleteRequest:
        message = error.message + (f" ({error.hint})" if error.hint else "")
        self._note_failure(error)
        return CompleteRequest(
            **self._fence(),
            status="Canceled" if isinstance(error, TaskCanceled) else "Failed",
            events=list(events),
            error_code=error.code,
            error_message=mask_text(_storable(message))[:20_000],
            retryable=error.retryable,
            retry_after_s=_retry_after_s(error),
            interrupted=isinstance(error, WorkerStopped)
            or (self.is_source and isinstance(error, TaskTimedOut)),
            outage=error.is_outage,
            has_log=self.log.save(),
            checks=self._checked.reports,
        )

    def _note_failure(self, error: TraceError) -> None:
        """Why it failed is read where the rest of the attempt is: with what the error knows, and
        what it came of."""
        facts = {name: value for name, value in error.facts.items() if value is not None}
        if error.hint:
            facts["hint"] = error.hint
        if causes := _causes(error):
            facts["caused_by"] = causes
        event = "attempt_canceled" if isinstance(error, TaskCanceled) else "attempt_failed"
        said = {"code": error.code, "reason": _storable(error.message)[:20_000]}
        self.log.end(event, said | facts | said)

    def _fence(self) -> dict[str, Any]:
        claimed = self.claimed
        return {
            "task_id": claimed.task.task_id,
            "attempt": claimed.attempt,
            "lease_token": claimed.lease_token,
        }


def _retry_after_s(error: TraceError) -> float:
    told = error.facts.get("retry_after_s")
    return min(float(told), MAX_RETRY_AFTER_S) if isinstance(told, int | float) else 0.0


def _storable(text: str) -> str:
    """Text as Postgres takes it: what an operator quotes may be no text at all."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _causes(error: BaseException) -> list[str]:
    """Type and first line of the errors that this one came of, the nearest first."""
    found: list[str] = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while cause is not None and len(found) < MAX_CAUSES:
        lines = str(cause).strip().splitlines()
        found.append(f"{type(cause).__name__}: {lines[0][:500] if lines else 'no message'}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return found


def _crash(error: Exception) -> OperatorCrashed:
    """Named by its type and first line: the whole traceback is in the log."""
    lines = str(error).strip().splitlines()
    return OperatorCrashed(f"{type(error).__name__}: {lines[0] if lines else 'no message'}")
