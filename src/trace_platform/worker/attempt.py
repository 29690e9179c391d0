"""One claimed attempt, from its operator's start to the report of its end."""

from __future__ import annotations

import threading
import time
import traceback
from typing import Any

import structlog
from pydantic import ValidationError

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
from trace_platform.operators import registry
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.wire.task import (
    Claimed,
    CompleteRequest,
    CompleteResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    Progress,
)
from trace_platform.worker.attempt_log import AttemptLog
from trace_platform.worker.dispatcher_client import DispatcherClient, insist
from trace_platform.worker.resources import Resources

# A finished attempt outlives a long outage of the dispatcher rather than being thrown away.
REPORT_FOR_S = 3600.0


class Attempt:
    """Runs in a thread of its own; `beat` and `stop` are called from others."""

    def __init__(
        self, claimed: Claimed, dispatcher: DispatcherClient, resources: Resources
    ) -> None:
        self.claimed = claimed
        self.tag = f"trace-{claimed.task.task_id}-{claimed.attempt}"
        self._dispatcher = dispatcher
        self._resources = resources
        self._deadline = time.monotonic() + claimed.task.timeout_seconds
        self._stop_reason: TraceError | None = None
        self._fence_lost = threading.Event()
        self._go_on = threading.Event()
        self._go_on.set()
        self._draining = False
        self._beats = 0
        job = claimed.task.job
        self._log = structlog.get_logger().bind(
            org=str(claimed.task.org_id),
            dag=job.dag_name,
            job=job.name,
            task=str(claimed.task.task_id),
            attempt=claimed.attempt,
        )
        self.log = AttemptLog(self._log, resources.store, claimed.task.log_uri)

    def run(self) -> None:
        started = time.monotonic()
        report = self._outcome().model_copy(update={"has_log": self.log.save()})
        took_s = round(time.monotonic() - started, 3)
        try:
            self._say_ended(self._report(report), took_s)
        except StaleFence:
            self._log.warning("attempt_lost_its_task", seconds=took_s)
        except TraceError as error:
            # The reaper finds it, and another attempt does the work again.
            self._log.error("attempt_not_reported", code=error.code, reason=error.message)

    def _say_ended(self, report: CompleteRequest, took_s: float) -> None:
        if report.status == "Completed":
            self._log.info("attempt_completed", seconds=took_s)
            return
        why = {"code": report.error_code, "reason": report.error_message}
        self._log.warning("attempt_failed", status=report.status, seconds=took_s, **why)

    def beat_every_s(self, at_most_s: float) -> float:
        return min(self.claimed.task.heartbeat_timeout_seconds / 3, at_most_s)

    def beat(self) -> HeartbeatRequest:
        """What the next heartbeat says of this attempt. Those that end sooner log their end only."""
        if not self._beats:
            self._log.info("attempt_runs", operator=self.claimed.task.operator)
        self._beats += 1
        self.log.save()
        done, total = self._resources.spark.progress(self.tag)
        progress = Progress(done=done, total=total) if total else None
        return HeartbeatRequest(**self._fence(), progress=progress)

    def heard(self, answer: HeartbeatResponse | TraceError) -> None:
        """Only a lost fence or a directive stops the work, never an outage."""
        if isinstance(answer, StaleFence):
            self._fence_lost.set()
            self.stop(answer)
        elif isinstance(answer, TraceError):
            self._log.warning("heartbeat_refused", code=answer.code, reason=answer.message)
        elif answer.directive == "cancel":
            self.stop(TaskCanceled("canceled on request"))
        else:
            self._draining = answer.directive == "drain"
            if answer.directive == "pause":
                self._go_on.clear()
            else:
                self._go_on.set()

    def stop_when_late(self) -> None:
        if time.monotonic() > self._deadline:
            limit = self.claimed.task.timeout_seconds
            self.stop(TaskTimedOut(f"ran longer than {limit:g} s", hint="raise timeout_seconds"))

    def stop(self, reason: TraceError) -> None:
        """Ends the operator at its next check, and its Spark jobs at once."""
        if self._stop_reason is None:
            self._stop_reason = reason
        self._go_on.set()
        self._resources.spark.cancel(self.tag)

    def hand_back(self) -> None:
        """Give the task back before the operator has noticed: what it still writes nobody reads."""
        reason = WorkerStopped("the worker was stopped")
        self.stop(reason)
        try:
            self._dispatcher.complete(self._failed(reason))
        except TraceError as error:
            # Ended by itself meanwhile, or the dispatcher is away: then its lease runs out.
            self._log.info("not_handed_back", code=error.code)
        self._fence_lost.set()

    def _check(self) -> None:
        """Waits here while the attempt is to pause."""
        self._go_on.wait()
        if self._stop_reason is not None:
            raise self._stop_reason

    def _outcome(self) -> CompleteRequest:
        try:
            result = self._run_operator()
        except TraceError as error:
            return self._failed(self._stop_reason or error)
        except Exception as error:
            if self._stop_reason is None:
                self.log.logger.error("operator_crashed", traceback=traceback.format_exc())
            return self._failed(self._stop_reason or _crash(error))
        if self._stop_reason is not None:
            return self._failed(self._stop_reason)
        return CompleteRequest(
            **self._fence(), status="Completed", outputs=result.outputs, events=result.events
        )

    def _run_operator(self) -> Result:
        task = self.claimed.task
        operator = registry.load(task.operator)()
        try:
            config = operator.Config.model_validate(task.config)
        except ValidationError as error:
            raise InvalidConfig(f"config of {task.operator}: {error}") from None
        with self._resources.spark.task_thread(self.tag) as spark:
            return operator.run(
                TaskContext(
                    task_id=task.task_id,
                    attempt=task.attempt,
                    config=config,
                    inputs=tuple(task.inputs),
                    outputs=tuple(task.outputs),
                    store=self._resources.store,
                    spark=spark,
                    rpc_url=self._resources.rpc_url,
                    check=self._check,
                    draining=lambda: self._draining,
                    log=self.log.logger,
                )
            )

    def _failed(self, error: TraceError) -> CompleteRequest:
        message = error.message + (f" ({error.hint})" if error.hint else "")
        return CompleteRequest(
            **self._fence(),
            status="Canceled" if isinstance(error, TaskCanceled) else "Failed",
            error_code=error.code,
            error_message=_storable(message)[:20_000],
            retryable=error.retryable,
            interrupted=isinstance(error, WorkerStopped),
        )

    def _report(self, report: CompleteRequest) -> CompleteRequest:
        """The report that was accepted: a completion that is refused (a bad manifest, an overlap)
        makes the attempt fail."""
        if self._fence_lost.is_set():
            raise StaleFence("the fence is lost")
        try:
            return self._insist(report)
        except (StaleFence, Unavailable):
            raise
        except TraceError as error:
            return self._insist(self._failed(error))

    def _insist(self, report: CompleteRequest) -> CompleteRequest:
        def call() -> CompleteResponse:
            return self._dispatcher.complete(report)

        insist(call, REPORT_FOR_S, self._pause)
        return report

    def _pause(self, seconds: float) -> None:
        if self._fence_lost.wait(seconds):
            raise StaleFence("the fence is lost")

    def _fence(self) -> dict[str, Any]:
        claimed = self.claimed
        return {
            "task_id": claimed.task.task_id,
            "attempt": claimed.attempt,
            "lease_token": claimed.lease_token,
        }


def _storable(text: str) -> str:
    """Text as Postgres takes it: what an operator quotes may be no text at all."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _crash(error: Exception) -> OperatorCrashed:
    """Named by its type and first line: the whole traceback is in the log."""
    lines = str(error).strip().splitlines()
    return OperatorCrashed(f"{type(error).__name__}: {lines[0] if lines else 'no message'}")
