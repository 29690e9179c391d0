"""The rules of ownership as a small pure machine: what the SQL is measured against.

One task, some workers that may be slow, dead or repeat themselves, a reaper with any timing, and
wake-ups that are doubled, late or lost. Times do not appear: whatever can happen may happen next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

MAX_ATTEMPTS = 3
WORKERS = 3


@dataclass(frozen=True)
class Task:
    status: str = "Queued"
    attempt: int = 0
    reaped: bool = False
    retry_due: bool = False
    cancel_requested: bool = False


@dataclass(frozen=True)
class World:
    task: Task = Task()
    # The attempt whose fence each worker believes to hold; 0 when it holds none.
    held: tuple[int, ...] = (0,) * WORKERS
    wake_ups: int = 1
    # Attempts whose completion was accepted, in order. A repeated report adds nothing.
    commits: tuple[int, ...] = ()


Owns = Callable[[Task, int], bool]


def owns(task: Task, attempt: int) -> bool:
    """The fence: this attempt runs, or was given up and not replaced."""
    return task.attempt == attempt and (task.status == "Running" or task.reaped)


def claim(task: Task) -> Task | None:
    if task.status != "Queued":
        return None
    return replace(task, status="Running", attempt=task.attempt + 1, reaped=False, retry_due=False)


def beat(task: Task, attempt: int, rule: Owns = owns) -> Task | None:
    if not rule(task, attempt):
        return None
    return replace(task, status="Running", reaped=False, retry_due=False)


def end(task: Task, attempt: int, status: str, rule: Owns = owns) -> Task | None:
    if not rule(task, attempt):
        return None
    if status == "Failed" and task.cancel_requested:
        status = "Canceled"
    retry = status == "Failed" and task.attempt < MAX_ATTEMPTS
    return replace(task, status=status, reaped=False, retry_due=retry)


def reap(task: Task) -> Task | None:
    if task.status != "Running":
        return None
    if task.cancel_requested:
        return replace(task, status="Canceled")
    return replace(task, status="Failed", reaped=True, retry_due=task.attempt < MAX_ATTEMPTS)


def requeue(task: Task) -> Task | None:
    if task.status == "Failed" and task.retry_due:
        return replace(task, status="Queued", retry_due=False)
    return None


def cancel(task: Task) -> Task | None:
    if task.status == "Running":
        return replace(task, cancel_requested=True)
    if task.status == "Queued" or (task.status == "Failed" and task.retry_due):
        return replace(
            task, status="Canceled", cancel_requested=True, reaped=False, retry_due=False
        )
    return None


def steps(world: World, rule: Owns = owns) -> Iterator[tuple[str, World]]:
    """Everything that can happen next."""
    task = world.task
    for name, after in (("reap", reap(task)), ("cancel", cancel(task))):
        if after is not None:
            yield name, replace(world, task=after)
    queued = requeue(task)
    if queued is not None:
        yield "requeue", replace(world, task=queued, wake_ups=min(world.wake_ups + 1, 2))
    if task.status == "Queued" and world.wake_ups < 2:
        yield "announce again", replace(world, wake_ups=world.wake_ups + 1)
    if world.wake_ups:
        yield "lose a wake-up", replace(world, wake_ups=world.wake_ups - 1)
    for worker, held in enumerate(world.held):
        yield from _worker_steps(world, worker, held, rule)


def _worker_steps(world: World, worker: int, held: int, rule: Owns) -> Iterator[tuple[str, World]]:
    task = world.task
    if held == 0:
        claimed = claim(task)
        if world.wake_ups and claimed is not None:
            # The wake-up may be delivered again or not: both.
            for left in (world.wake_ups, world.wake_ups - 1):
                yield (
                    f"{worker} claims",
                    replace(
                        world,
                        task=claimed,
                        held=_with(world, worker, claimed.attempt),
                        wake_ups=left,
                    ),
                )
        return
    yield f"{worker} dies", replace(world, held=_with(world, worker, 0))
    kept = beat(task, held, rule)
    if kept is not None:
        yield f"{worker} beats", replace(world, task=kept)
    for status in ("Completed", "Failed", "Canceled"):
        ended = end(task, held, status, rule)
        if ended is not None:
            commits = (*world.commits, held) if status == "Completed" else world.commits
            # The reply may get lost: then the worker still holds its fence and reports again.
            for still in (0, held):
                yield (
                    f"{worker} reports {status}",
                    replace(world, task=ended, held=_with(world, worker, still), commits=commits),
                )


def _with(world: World, worker: int, attempt: int) -> tuple[int, ...]:
    return (*world.held[:worker], attempt, *world.held[worker + 1 :])
