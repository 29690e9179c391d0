"""④ A worker turns a wake-up into a lease, a payload and a capability token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast
from uuid import UUID

import structlog

from trace_platform.dispatcher.checks.withhold_partitions import without_withheld
from trace_platform.dispatcher.freshness.pin_inputs import pin_inputs
from trace_platform.dispatcher.tasks.task_payload import task_payloads
from trace_platform.dispatcher.tasks.task_tokens import TaskTokens
from trace_platform.dispatcher.tasks.trust import Trusts, nobody
from trace_platform.domain.errors import Unavailable
from trace_platform.domain.prefix import scratch_prefix
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import tasks
from trace_platform.state.task_rows import ClaimedTask
from trace_platform.wire.task import Claimed, ClaimRequest, NotClaimed, TaskPayload

log = structlog.get_logger()

# How many tasks that cannot be started are passed over at most.
SPARE = 100

Reason = Literal["AlreadyRunning", "Completed", "Failed", "Canceled", "NotFound", "Held"]


@dataclass(frozen=True, slots=True)
class Grants:
    """What a claim hands out besides the lease: tokens, and the buckets that they open."""

    tokens: TaskTokens
    bucket: str
    scratch_bucket: str
    # Hears how long the tasks that start had been queued.
    started: Callable[[Iterable[float]], None] = lambda _: None
    # Hears which attempts begin, as task and number.
    began: Callable[[Iterable[tuple[UUID, int]]], None] = lambda _: None
    # Whose tokens open more than an attempt's own inputs and outputs.
    trusts: Trusts = nobody


async def claim_tasks(
    state: Database,
    grants: Grants,
    runtime: str,
    worker_ids: Sequence[str],
    *,
    sources: bool = False,
) -> list[tuple[str, Claimed]]:
    """The tasks whose turn it is, at most one per worker id, and who got which. Runs of `sources`
    have slots of their own: they are claimed apart from everything else."""
    try:
        return await _claim(state, grants, runtime, worker_ids, sources=sources)
    except Unavailable:
        raise
    except Exception:
        # One task that cannot be started must not hold up all others: each alone, then.
        log.exception("claim_failed", runtime=runtime)
    return await _claim_each(state, grants, runtime, worker_ids, sources=sources)


async def _claim_each(
    state: Database, grants: Grants, runtime: str, worker_ids: Sequence[str], *, sources: bool
) -> list[tuple[str, Claimed]]:
    async with state.statement() as tx:
        waiting = await tasks.next_in_line(tx, runtime, SPARE + len(worker_ids))
    found: list[tuple[str, Claimed]] = []
    for task_id in waiting:
        if len(found) == len(worker_ids):
            break
        try:
            found += await _claim(
                state, grants, runtime, [worker_ids[len(found)]], [task_id], sources=sources
            )
        except Unavailable:
            raise
        except Exception:
            log.exception("task_cannot_be_claimed", task=str(task_id))
    return found


async def _claim(
    state: Database,
    grants: Grants,
    runtime: str,
    worker_ids: Sequence[str],
    task_ids: Sequence[UUID] | None = None,
    *,
    sources: bool,
) -> list[tuple[str, Claimed]]:
    async with state.transaction() as tx:
        rows = await tasks.claim(tx, runtime, worker_ids, task_ids, sources=sources)
        rows = await pin_inputs(tx, rows)
        payloads = await task_payloads(tx, rows, grants.bucket)
        started = await without_withheld(tx, rows, payloads)
    _note_waits(grants, [row for row, _ in started])
    return [(row.worker_id, _claimed(grants, row, payload)) for row, payload in started]


async def claim_task(
    state: Database, grants: Grants, request: ClaimRequest
) -> Claimed | NotClaimed:
    """Exactly one claimer of a queued task gets it; the others are told why not."""
    async with state.transaction() as tx:
        task = await tasks.get(tx, request.task_id)
        if task is None:
            return NotClaimed(reason="NotFound")
        rows = await tasks.claim(
            tx, task.runtime, [request.worker_id], [request.task_id], sources=None
        )
        if not rows:
            return NotClaimed(reason=await _reason(tx, request.task_id))
        rows = await pin_inputs(tx, rows)
        payloads = await task_payloads(tx, rows, grants.bucket)
        started = await without_withheld(tx, rows, payloads)
    if not started:
        return NotClaimed(reason="Held")
    _note_waits(grants, rows)
    return _claimed(grants, rows[0], payloads[0])


async def _reason(tx: Tx, task_id: UUID) -> Reason:
    task = await tasks.get(tx, task_id)
    if task is None:
        return "NotFound"
    # Failed here is waiting for its retry, which sends a wake-up of its own.
    reasons = {"Running": "AlreadyRunning", "Queued": "Held"}
    return cast(Reason, reasons.get(task.status, task.status))


def _note_waits(grants: Grants, rows: Sequence[ClaimedTask]) -> None:
    grants.started((row.started_at - row.queued_at).total_seconds() for row in rows)
    grants.began((row.id, row.attempt) for row in rows)


def _claimed(grants: Grants, task: ClaimedTask, payload: TaskPayload) -> Claimed:
    scratch = [
        scratch_prefix(grants.scratch_bucket, output.dataset_uuid, task.id, task.attempt)
        for output in payload.outputs
    ]
    return Claimed(
        attempt=task.attempt,
        lease_token=task.lease_token,
        lease_expires_at=task.lease_expires_at,
        capability_token=grants.tokens.issue(
            task.org_id, payload, scratch, trusted=grants.trusts(task)
        ),
        task=payload,
    )
