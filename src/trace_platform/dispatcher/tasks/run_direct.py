"""③ Tasks that no queue carries: the Dispatcher runs them itself, or has their function called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID

import structlog
from pydantic import ValidationError

from trace_platform.dispatcher.events.publish_outbox import HIDE_S
from trace_platform.dispatcher.events.record_events import new_events
from trace_platform.dispatcher.freshness.pin_inputs import pin_inputs
from trace_platform.dispatcher.operators import registry
from trace_platform.dispatcher.operators.contract import EventOperator, EventTask, RepeatedEvent
from trace_platform.dispatcher.tasks.complete_task import Completing, complete_task
from trace_platform.dispatcher.tasks.invoke_task import Calls, failed
from trace_platform.domain.errors import (
    InvalidConfig,
    OperatorCrashed,
    StaleFence,
    TraceError,
    Unavailable,
)
from trace_platform.domain.masking import mask_text
from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import events, outbox, reads, tasks
from trace_platform.state.events import NewEvent
from trace_platform.state.outbox import Owed
from trace_platform.state.task_rows import ClaimedTask, HeldTask
from trace_platform.state.tasks import Ending
from trace_platform.wire.task import JobRef, TaskInput

log = structlog.get_logger()

WORKER = "dispatcher"
# Batches of our own tasks in one pass: meanwhile no function is called.
BATCHES = 10


@dataclass(frozen=True, slots=True)
class Direct:
    state: Database
    completing: Completing
    runtimes: Runtimes
    # The runtimes whose tasks a queue carries: not ours.
    sent: Sequence[str]
    calls: Calls
    # Hears how long the tasks that start here had been queued.
    started: Callable[[Iterable[float]], None] = lambda _: None
    # Tasks of our own that share a transaction.
    together: int = 100


async def run_direct(services: Direct, limit: int = 500) -> int:
    """How many announcements were taken up. Safe in several dispatchers at once.

    An announcement is a hint: what is due is the claim's to say, so that priorities and fair turns
    hold here, too. Our own tasks have run when this returns; functions are called meanwhile.
    """
    others = [*services.sent, *services.calls.busy]
    async with services.state.statement() as tx:
        rows = await outbox.claim(tx, limit, HIDE_S, others, sent=False)
    for name, owed in _by_runtime(rows).items():
        await _deal_with(services, name, owed)
    return len(rows)


def _by_runtime(rows: Sequence[Owed]) -> dict[str, list[Owed]]:
    found: dict[str, list[Owed]] = defaultdict(list)
    for row in rows:
        found[row.payload["runtime"]].append(row)
    return found


async def _deal_with(services: Direct, name: str, rows: Sequence[Owed]) -> None:
    try:
        runtime = _runtime(services, name)
    except InvalidConfig as error:
        # Settled all the same: its tasks are announced again, ever more rarely, and so the rows of
        # a runtime that nobody serves do not pile up.
        log.warning("tasks_wait_for_their_runtime", reason=error.message, hint=error.hint)
        await _settle(services, rows)
        return
    if runtime.kind == "lambda":
        services.calls.start(name, _call(services, runtime, rows))
    elif await _run_own(services, name):
        await _settle(services, rows)
    else:
        await _postpone(services, rows, 0)


def _runtime(services: Direct, name: str) -> Runtime:
    """Raise InvalidConfig when there is nobody who runs its tasks."""
    runtime = services.runtimes.get(name)
    if runtime.kind == "lambda" and runtime.url is None:
        raise InvalidConfig(f"{name} has no invoker", hint=f"set [runtimes.{name}] url")
    if runtime.kind == "queue":
        raise InvalidConfig(f"{name} has no queue", hint=f"set [runtimes.{name}] queue")
    return runtime


async def _call(services: Direct, runtime: Runtime, rows: Sequence[Owed]) -> None:
    try:
        await services.calls.call_due(runtime)
        # Settled after the claims, which have leases: a crash here repeats a look, loses nothing.
        await _settle(services, rows)
    except Unavailable as error:
        # The rows come back by themselves.
        log.warning("calls_wait", runtime=runtime.name, reason=error.message)
    except Exception:
        log.exception("calls_failed", runtime=runtime.name)


async def _run_own(services: Direct, name: str) -> bool:
    """Whether all that was due has run."""
    for _ in range(BATCHES):
        try:
            found = await _run_together(services, name)
        except Exception as error:
            # One that fails must not take the others down with it: each alone, then.
            log.warning("tasks_run_alone", reason=str(error).partition("\n")[0])
            found = await _run_each(services, name)
        if found < services.together:
            return True
    return False


async def _run_together(services: Direct, name: str) -> int:
    """From claim to end in one transaction, so that no crash can come between."""
    async with services.state.transaction() as tx:
        claimed = await tasks.claim(tx, name, [WORKER] * services.together)
        ended = await _run(tx, await pin_inputs(tx, claimed))
    _note_started(services, claimed)
    services.completing.ended("Completed" for _ in range(ended))
    return len(claimed)


async def _run_each(services: Direct, name: str) -> int:
    found = 0
    while found < services.together and await _run_alone(services, name):
        found += 1
    return found


async def _run_alone(services: Direct, name: str) -> bool:
    """Claimed for good before it runs, so that an attempt that fails is known to have been."""
    async with services.state.transaction() as tx:
        claimed = await pin_inputs(tx, await tasks.claim(tx, name, [WORKER]))
    _note_started(services, claimed)
    for task in claimed:
        try:
            async with services.state.transaction() as tx:
                ended = await _run(tx, [task])
            services.completing.ended("Completed" for _ in range(ended))
        except Exception as error:
            with suppress(StaleFence):
                await complete_task(services.completing, failed(task.fence, _named(error)))
    return bool(claimed)


def _note_started(services: Direct, claimed: Sequence[ClaimedTask]) -> None:
    services.started((task.started_at - task.queued_at).total_seconds() for task in claimed)


async def _run(tx: Tx, claimed: Sequence[ClaimedTask]) -> int:
    """What operators write, what they emit and the ends of their attempts, as one change.

    How many ended: an attempt that was overtaken does nothing.
    """
    if not claimed:
        return 0
    held = await tasks.hold_fences(tx, [task.fence for task in claimed])
    # The oldest first, as far as their ids tell.
    ours = sorted((task for task in claimed if task.id in held), key=lambda task: task.id)
    superseded = [task for task in ours if held[task.id].superseded]
    owned = [task for task in ours if not held[task.id].superseded]
    emitted = [event for task in owned for event in await _emitted(tx, task, held[task.id])]
    if emitted:
        await events.record(tx, emitted)
    await tasks.finish(
        tx,
        [Ending(task.fence, "Completed") for task in owned]
        + [Ending(task.fence, "Canceled", "superseded") for task in superseded],
    )
    limited = {task.id: task.job_id for task in held.values() if task.max_concurrency is not None}
    if limited:
        await tasks.announce_next(tx, limited)
    return len(owned)


async def _emitted(tx: Tx, task: ClaimedTask, held: HeldTask) -> list[NewEvent]:
    operator = registry.load(held.operator)
    emitted = list(await operator().run(tx, _woken(task, held, operator)))
    return [
        replace(new, repeat=event.repeat) if isinstance(event, RepeatedEvent) else new
        for event, new in zip(emitted, new_events(held, emitted, {}), strict=True)
    ]


def _woken(claimed: ClaimedTask, task: HeldTask, operator: type[EventOperator]) -> EventTask:
    """The task as it is held: a deploy may have handed it to another definition since its claim."""
    try:
        config = operator.Config.model_validate(claimed.config)
    except ValidationError as error:
        raise InvalidConfig(f"config of {operator.name}: {error}") from None
    return EventTask(
        task_id=task.id,
        job_id=task.job_id,
        generation_id=task.generation_id,
        job=JobRef(dag_name=task.dag_name, name=task.job_name),
        config=config,
        inputs=tuple(TaskInput.model_validate(reads.as_told(given)) for given in task.inputs),
        outputs=tuple(_generations(task)),
    )


def _generations(task: HeldTask) -> Iterator[tuple[UUID, UUID]]:
    for pinned in task.outputs:
        yield UUID(pinned["dataset_uuid"]), UUID(pinned["dataset_version"])


def _named(error: Exception) -> TraceError:
    if isinstance(error, TraceError):
        return error
    log.error("operator_crashed", exc_info=error)
    lines = str(error).strip().splitlines()
    said = mask_text(lines[0]) if lines else "no message"
    return OperatorCrashed(f"{type(error).__name__}: {said}")


async def _settle(services: Direct, rows: Sequence[Owed]) -> None:
    async with services.state.statement() as tx:
        await outbox.settle(tx, [row.id for row in rows])


async def _postpone(services: Direct, rows: Sequence[Owed], seconds: float) -> None:
    async with services.state.statement() as tx:
        await outbox.postpone(tx, [row.id for row in rows], seconds)
