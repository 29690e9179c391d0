"""⑦ Attempts end: their outputs are committed and their events recorded, or they failed.

Behind the fence, and whole: an attempt that commits outputs has a transaction of its own, the
others of a batch share one. A report that comes twice (the reply got lost) is answered like the
first one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from trace_platform.dispatcher.checks.record_checks import record_checks
from trace_platform.dispatcher.commits.commit_outputs import Commits, Verified, commit_outputs
from trace_platform.dispatcher.commits.refuse_unfinished import refuse_unfinished
from trace_platform.dispatcher.commits.verify_output import check_table, is_table, verify_output
from trace_platform.dispatcher.events.record_events import new_events
from trace_platform.dispatcher.redo.invalidate import new_invalidations
from trace_platform.dispatcher.redo.process_invalidations import cascaded, process_invalidations
from trace_platform.dispatcher.tasks.split_task import check_split, split_task
from trace_platform.dispatcher.tasks.trust import Trusts, nobody, refuse_untrusted
from trace_platform.domain.errors import (
    CommitOvertaken,
    InternalError,
    StaleFence,
    TraceError,
    Unavailable,
)
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import events, invalidations, locks, operator_state, tasks
from trace_platform.state.events import NewEvent
from trace_platform.state.invalidations import NewInvalidation
from trace_platform.state.task_rows import HeldTask, Outcome
from trace_platform.state.tasks import Ending
from trace_platform.wire.manifest import Manifest
from trace_platform.wire.task import CompleteRequest, CompleteResponse, DatasetEvent, OutputCommit

log = structlog.get_logger()

# Another version of the DAG took the place of the task's.
SUPERSEDED = "superseded"
CANCELED = "canceled"
# For so long a task waits for what is away before its attempts count.
MAX_OUTAGE_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Completing:
    """What ending an attempt needs."""

    state: Database
    store: ObjectStore
    bucket: str
    retry_base_s: float
    # Hears how attempts ended.
    ended: Callable[[Iterable[str]], None] = lambda _: None
    trusts: Trusts = nobody
    # Hears which ended, as task and number.
    finished: Callable[[Iterable[tuple[UUID, int]]], None] = lambda _: None


async def complete_task(services: Completing, request: CompleteRequest) -> CompleteResponse:
    """Raise StaleFence, with nothing changed, when another attempt owns the task."""
    (answer,) = await complete_tasks(services, [request])
    if isinstance(answer, TraceError):
        raise answer
    return answer


async def complete_tasks(
    services: Completing, requests: Sequence[CompleteRequest]
) -> list[CompleteResponse | TraceError]:
    """In the order of the requests: how each attempt ended, or why it did not."""
    once = list({request.fence: request for request in requests}.values())
    plain = [request for request in once if not _commits(request)]
    errors = await _end_together(services, plain)
    for request in once:
        if _commits(request):
            errors[request.fence] = await _error_of(_commit_alone(services, request))
    done = [request for request in once if errors[request.fence] is None]
    services.ended(request.status for request in done)
    services.finished((request.task_id, request.attempt) for request in done)
    return [errors[r.fence] or CompleteResponse(status=r.status) for r in requests]


Errors = dict[Any, TraceError | None]


def _commits(request: CompleteRequest) -> bool:
    return request.status == "Completed" and bool(request.outputs)


async def _end_together(services: Completing, requests: Sequence[CompleteRequest]) -> Errors:
    if not requests:
        return {}
    try:
        return await _end(services, requests)
    except Unavailable:
        raise
    except Exception as error:
        if len(requests) == 1:
            return {requests[0].fence: _named(error)}
    # One that the database refuses must not take the others down with it.
    errors: Errors = {}
    for request in requests:
        errors |= await _end_together(services, [request])
    return errors


async def _end(services: Completing, requests: Sequence[CompleteRequest]) -> Errors:
    errors: Errors = {}
    new: list[NewEvent] = []
    invalid: list[NewInvalidation] = []
    async with services.state.transaction() as tx:
        held = await tasks.hold_fences(tx, [request.fence for request in requests])
        owned = []
        for given in requests:
            if not _holds(held, given):
                continue
            request = _as_wanted(held[given.task_id], given)
            try:
                if request.split:
                    check_split(held[request.task_id], request.split)
                elif request.status == "Completed":
                    await refuse_unfinished(tx, held[request.task_id])
                said = new_invalidations(
                    held[request.task_id], request.invalidations, services.trusts
                )
                new += new_events(held[request.task_id], request.events, {})
                invalid += said
                owned.append(request)
                errors[request.fence] = None
            except TraceError as error:
                errors[request.fence] = error
        await _write_ends(tx, owned, services.retry_base_s)
        for request in owned:
            await _keep_checks(services, tx, held[request.task_id], request, {})
        if new:
            await events.record(tx, new)
        if invalid:
            await invalidations.record(tx, invalid)
        completed = [request for request in owned if request.status == "Completed"]
        for request in completed:
            await _keep_state(services, tx, held[request.task_id], request)
            if request.split:
                await split_task(tx, held[request.task_id], request.split)
        await process_invalidations(tx, [held[request.task_id] for request in completed])
        await _make_room(tx, [held[request.task_id] for request in owned])
        lost = [request for request in requests if request.fence not in errors]
        return errors | await _repeated_or_stale(tx, lost)


def _as_wanted(task: HeldTask, request: CompleteRequest) -> CompleteRequest:
    """The end of the attempt, as far as anybody wants it.

    What a version that gave way still reports commits nothing: it can never become current. An
    attempt that stopped because its version had given way, which counts again by now, was
    interrupted. One that was to be canceled and did nothing was: it has no parts. One that was
    overtaken did nothing wrong: another attempt reads what is current.
    """
    nothing: dict[str, Any] = {"events": [], "outputs": [], "invalidations": [], "split": []}
    if task.superseded:
        ended = {"status": "Canceled", "error_code": SUPERSEDED}
        return request.model_copy(update=nothing | ended)
    if request.split and task.cancel_requested_at is not None:
        return request.model_copy(update=nothing | {"status": "Canceled", "error_code": CANCELED})
    wanted = task.cancel_requested_at is None and task.drain_requested_at is not None
    if request.status == "Canceled" and wanted:
        again = {"status": "Failed", "interrupted": True, "retryable": True}
        return request.model_copy(update=nothing | again)
    if request.status == "Failed" and request.error_code == CommitOvertaken.code:
        return request.model_copy(update={"interrupted": True, "retryable": True})
    return request


def _holds(held: dict[UUID, HeldTask], request: CompleteRequest) -> bool:
    task = held.get(request.task_id)
    return task is not None and task.lease_token == request.lease_token


async def _write_ends(tx: Tx, requests: Sequence[CompleteRequest], retry_base_s: float) -> None:
    finished = [_ending(r) for r in requests if r.status != "Failed"]
    failed = [_ending(r) for r in requests if r.status == "Failed"]
    if finished:
        await tasks.finish(tx, finished)
    if failed:
        await tasks.fail(tx, failed, retry_base_s, MAX_OUTAGE_S)


async def _make_room(tx: Tx, ended: Sequence[HeldTask]) -> None:
    limited = {task.id: task.job_id for task in ended if task.max_concurrency is not None}
    if limited:
        await tasks.announce_next(tx, limited)


async def _repeated_or_stale(tx: Tx, requests: Sequence[CompleteRequest]) -> Errors:
    if not requests:
        return {}
    outcomes = await tasks.ended_outcomes(tx, [request.fence for request in requests])
    return {
        r.fence: None if _is_answer(outcomes.get(r.task_id), r) else tasks.stale(r.fence)
        for r in requests
    }


def _is_answer(ended: Outcome | None, request: CompleteRequest) -> bool:
    """Whether the attempt ended by this very report: one that was superseded, or to be canceled
    before it was split, as Canceled."""
    if ended is None:
        return False
    code = CANCELED if request.split else SUPERSEDED
    canceled = ended.outcome == "Canceled" and ended.error_code in (code, SUPERSEDED)
    return bool(ended.outcome == request.status or canceled)


async def _commit_alone(services: Completing, request: CompleteRequest) -> None:
    try:
        await _commit_held(services, request)
    except StaleFence:
        async with services.state.transaction() as tx:
            repeated = await _repeated_or_stale(tx, [request])
        if repeated[request.fence] is not None:
            raise


async def _commit_held(services: Completing, request: CompleteRequest) -> None:
    async with services.state.transaction() as tx:
        task = await tasks.hold_fence(tx, request.fence)
    if task.superseded:
        (error,) = (await _end(services, [request])).values()
        if error is not None:
            raise error
        return
    # Reading the manifests takes time, so it happens outside of the transaction that commits:
    # staged files belong to this attempt alone and never change.
    verified = await _verify(services, task, request.outputs)
    async with services.state.transaction() as tx:
        # Before the fence, as whoever deploys: which versions are read stays so until this is
        # committed, so that a deploy sees what was made of those that it replaces.
        await locks.share_routing(tx)
        task = await tasks.hold_fence(tx, request.fence)
        if task.superseded:
            await _write_ends(tx, [_as_wanted(task, request)], services.retry_base_s)
            return
        await _write_ends(tx, [request], services.retry_base_s)
        committed = await commit_outputs(tx, task, verified)
        await _keep_checks(services, tx, task, request, committed)
        # What others have read more for is not committed, and neither is what goes with it.
        if committed:
            await _keep_state(services, tx, task, request)
        await refuse_unfinished(tx, task)
        given = [*request.events, *_events_of(verified, committed)]
        await events.record(tx, new_events(task, given, committed))
        tables = [output for output, manifest in verified if manifest is None]
        invalid = [
            *new_invalidations(task, request.invalidations, services.trusts),
            *cascaded(task, tables),
        ]
        if invalid:
            await invalidations.record(tx, invalid)
        await process_invalidations(tx, [task])
        await _make_room(tx, [task])


async def _keep_checks(
    services: Completing, tx: Tx, task: HeldTask, request: CompleteRequest, committed: Commits
) -> None:
    """Of code that nobody vouches for no word is taken: it could keep others from their work."""
    reports = request.checks if services.trusts(task) else []
    if committed or reports:
        await record_checks(tx, task, reports, committed)


async def _keep_state(
    services: Completing, tx: Tx, task: HeldTask, request: CompleteRequest
) -> None:
    if request.state:
        refuse_untrusted(task, services.trusts, "keep state")
        await operator_state.change(tx, task.generation_id, request.state)


async def _verify(
    services: Completing, task: HeldTask, outputs: Sequence[OutputCommit]
) -> Verified:
    verified: Verified = []
    for output in outputs:
        if is_table(output):
            check_table(task, output, services.trusts)
            verified.append((output, None))
        else:
            manifest = await asyncio.to_thread(
                verify_output, services.store, services.bucket, task, output
            )
            verified.append((output, manifest))
    return verified


def _events_of(verified: Verified, committed: Commits) -> list[DatasetEvent]:
    """One event per committed output, so that none can be forgotten."""
    return [
        DatasetEvent(
            dataset_uuid=output.dataset_uuid,
            dataset_version=output.dataset_version,
            **_scope(output, manifest),
        )
        for output, manifest in verified
        if manifest is None
        or ((output.dataset_uuid, output.dataset_version), manifest.partition_key) in committed
    ]


def _scope(output: OutputCommit, manifest: Manifest | None) -> dict[str, Any]:
    if manifest is None:
        return {"cursor": output.cursor}
    return {
        "partition_key": manifest.partition_key,
        "start": manifest.start,
        "end": manifest.end,
    }


def _ending(request: CompleteRequest) -> Ending:
    done = request.status == "Completed"
    return Ending(
        fence=request.fence,
        status=request.status,
        error_code=None if done else request.error_code,
        error_message=None if done else request.error_message,
        retryable=request.retryable,
        retry_after_s=request.retry_after_s,
        interrupted=request.interrupted,
        outage=request.outage,
        has_log=request.has_log,
    )


async def _error_of(work: Any) -> TraceError | None:
    """What is wrong with this one. When trying again may help, all of the batch is tried again."""
    try:
        await work
    except Unavailable:
        raise
    except Exception as error:
        return _named(error)
    return None


def _named(error: Exception) -> TraceError:
    if isinstance(error, TraceError):
        return error
    log.error("completion_broke", exc_info=error)
    return InternalError("a defect; the dispatcher's log has more")
