"""A worker's attempt: what it read, when, and how its end is reported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from tests.support.control_plane import fence_fields
from tests.support.judge.content_operator import ContentOperator
from tests.support.judge.finding import Found
from tests.support.judge.stage import Stage
from trace_platform.dispatcher.tasks.complete_task import complete_task
from trace_platform.domain.errors import InternalError, NotFound, StaleFence, TraceError
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import Operator, Result, TaskContext
from trace_platform.operators.ingest.range_splitter import RangeSplitter
from trace_platform.wire.task import Claimed, CompleteRequest

_OPERATORS: dict[str, type[Operator]] = {
    "content": ContentOperator,
    "range_splitter": RangeSplitter,
}


@dataclass
class Attempt:
    claimed: Claimed
    # What it will report, once it has read.
    result: Result | TraceError | None = None

    @property
    def job(self) -> tuple[str, str]:
        ref = self.claimed.task.job
        return ref.dag_name, ref.name

    @property
    def is_source(self) -> bool:
        return self.claimed.task.operator == "writer"

    @property
    def writes_to(self) -> UUID:
        """The version of its dataset."""
        return self.claimed.task.outputs[0].dataset_version

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [(given.start or 0, given.end or 0) for given in self.claimed.task.inputs]

    def __str__(self) -> str:
        spans = " and ".join(f"{start}-{end}" for start, end in self.spans)
        again = f" (attempt {self.claimed.attempt})" if self.claimed.attempt > 1 else ""
        why = (
            " for an invalidation" if any(g.invalidation for g in self.claimed.task.inputs) else ""
        )
        return f"{'.'.join(self.job)} {spans}{why}{again}"

    def sort_key(self) -> tuple[Any, ...]:
        return *self.job, self.spans, self.claimed.task.task_id

    def read(self, stage: Stage) -> Result | TraceError:
        """Once: what it reads now is what it will report."""
        if self.result is None:
            operator = _OPERATORS[self.claimed.task.operator]
            try:
                self.result = operator().run(_context(stage, self.claimed))
            except TraceError as error:
                self.result = error
        return self.result


def _context(stage: Stage, claimed: Claimed) -> TaskContext:
    task = claimed.task
    return TaskContext(
        task_id=task.task_id,
        attempt=task.attempt,
        config=_OPERATORS[task.operator].Config.model_validate(task.config),
        inputs=tuple(task.inputs),
        outputs=tuple(task.outputs),
        store=stage.dispatcher.store,
        spark=_none,
        rpc=RpcEndpoint,
        check=lambda: None,
    )


def _none() -> Any:
    raise AssertionError("no judged job uses Spark")


async def complete(stage: Stage, attempt: Attempt) -> str:
    """As a worker reports it: what it made, or why it failed."""
    result = attempt.read(stage)
    if isinstance(result, TraceError):
        return await fail(stage, attempt, result)
    return await report(stage, attempt, outputs=result.outputs, events=result.events)


async def report(stage: Stage, attempt: Attempt, **fields: Any) -> str:
    """What the dispatcher refuses becomes a failure of the attempt."""
    try:
        await _end(stage, attempt, status="Completed", **fields)
    except StaleFence:
        return "stale"
    except TraceError as error:
        return await fail(stage, attempt, error)
    return "completed"


async def fail(stage: Stage, attempt: Attempt, error: TraceError) -> str:
    # A file that was replaced since the claim: another attempt is told what there is by then.
    retryable = error.retryable or isinstance(error, NotFound)
    said = {"error_code": error.code, "error_message": error.message, "retryable": retryable}
    try:
        await _end(stage, attempt, status="Failed", **said)
    except StaleFence:
        return f"refused: {error.code}; then stale"
    return f"refused: {error.code} ({error.message})"


async def end_badly(stage: Stage, attempt: Attempt, status: str, **fields: Any) -> str:
    try:
        await _end(stage, attempt, status=status, **fields)
    except StaleFence:
        return "stale"
    return status.lower()


async def _end(stage: Stage, attempt: Attempt, **fields: Any) -> None:
    request = CompleteRequest(**fence_fields(attempt.claimed), **fields)
    try:
        await complete_task(stage.dispatcher.completing, request)
    except InternalError as error:
        raise Found("crash", f"the completion of {attempt} broke: {error}") from error


@cache
def halves(start: int, end: int) -> list[dict[str, int]]:
    middle = (start + end) // 2
    return [{"start": start, "end": middle}, {"start": middle + 1, "end": end}]
