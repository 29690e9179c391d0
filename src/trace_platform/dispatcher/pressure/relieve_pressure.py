"""A queue that grows too long sheds work, holds its producers, and takes the work up again.

A tick decides everything from one measurement. A level rises at once and ends only at half of the
limits with nothing left pending, never in between: before it can rise again the queue has to grow
from half to four fifths of a limit, so it does not flap.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import structlog

from trace_platform.dag.model.dag import PRIORITY_RANK
from trace_platform.domain.figures import duration
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import holds, locks, pressure
from trace_platform.state.pressure import JobLoad

log = structlog.get_logger()

# Parts of a limit.
FULL = 1.0
NEARLY_FULL = 0.8
EASED = 0.5
# What is shed: the priorities from this rank on.
EVERYTHING = PRIORITY_RANK["high"]
LOW_TIER = PRIORITY_RANK["low"]
# So many tasks of a job that only has a limit of age are ready while others are pending.
READY_WITHOUT_DEPTH = 100
# Promoted of one job in one tick.
MOST_AT_ONCE = 5_000

Levels = Mapping[JobLoad, int | None]


async def relieve_pressure(state: Database) -> int:
    """How many tasks and jobs changed; 0 while another dispatcher is at it."""
    async with state.transaction() as tx:
        if not await locks.relieve_pressure(tx):
            return 0
        levels = {job: level(job) for job in await pressure.measure(tx)}
        changed = await _note_levels(tx, levels)
        changed += await _shed(tx, levels)
        changed += await _promote(tx, levels)
        released = await _hold_upstream(tx, levels)
    for org_id, dag_name, job_name in released:
        # Nobody has woken their workers while they were held; and only now that nobody sees the
        # hold any more are wake-ups not wasted.
        async with state.statement() as tx:
            await holds.announce_ready(tx, org_id, dag_name, job_name)
    _log_changes(levels)
    return changed + len(released)


def level(job: JobLoad) -> int | None:
    """From which rank on the job's priorities are shed; None: none are."""
    if job.mode is None:
        return None
    load = max(_part(job.depth, job.max_depth), _part(job.age_s, job.max_age_s))
    if load >= FULL:
        return EVERYTHING
    if load >= NEARLY_FULL and job.from_rank is None:
        return LOW_TIER
    return None if load <= EASED and not job.pending else job.from_rank


def room(job: JobLoad) -> int:
    """How many pending tasks become ready: never so many that this alone raises the level."""
    if not job.pending:
        return 0
    if job.mode is None:
        return MOST_AT_ONCE
    if _part(job.ready_age_s, job.max_age_s) > EASED:
        return 0
    # At least one, or a limit of one task would let none through.
    most = max(1, (4 * job.max_depth - 1) // 5) if job.max_depth else READY_WITHOUT_DEPTH
    return max(0, min(most - job.ready, MOST_AT_ONCE))


def reason(job: JobLoad) -> str:
    """Why the jobs upstream are held, for people."""
    if job.max_age_s and _part(job.age_s, job.max_age_s) > _part(job.depth, job.max_depth):
        waited = f"a task of {job.name} has waited {duration(job.age_s)}"
        return f"{waited}, its limit is {duration(job.max_age_s)}"
    counted = pressure.TIMES * (job.max_depth or 0)
    depth = f"more than {counted:,}" if job.depth > counted else f"{job.depth:,}"
    return f"{job.name} has {depth} tasks queued, its limit is {job.max_depth:,}"


async def _note_levels(tx: Tx, levels: Levels) -> int:
    changed = {job: rank for job, rank in levels.items() if rank != job.from_rank}
    risen = {job: rank for job, rank in changed.items() if rank is not None}
    ended = [job.job_id for job, rank in changed.items() if rank is None]
    if risen:
        await pressure.set_levels(tx, risen)
    if ended:
        await pressure.clear_levels(tx, ended)
    return len(changed)


async def _shed(tx: Tx, levels: Levels) -> int:
    over = [job for job in levels if job.max_depth and job.ready > job.max_depth]
    pausing = [job.job_id for job in over if job.mode == "pause"]
    dropping = [job.job_id for job in over if job.mode == "drop_oldest"]
    deferred = await pressure.defer_excess(tx, pausing) if pausing else 0
    dropped = await pressure.drop_excess(tx, dropping) if dropping else 0
    return deferred + dropped


async def _promote(tx: Tx, levels: Levels) -> int:
    rooms = {job.job_id: tasks for job in levels if (tasks := room(job))}
    return await pressure.promote(tx, rooms) if rooms else 0


async def _hold_upstream(tx: Tx, levels: Levels) -> list[tuple[UUID, str, str]]:
    """The jobs that are held no longer, or no longer as much."""
    pressed = {
        job.job_id: (rank, reason(job))
        for job, rank in levels.items()
        if rank is not None and job.mode == "pause"
    }
    causes = [*pressed, *(job.job_id for job in levels if job.from_rank is not None)]
    if not causes:
        return []
    released = await pressure.hold_upstream(tx, pressed, causes)
    return sorted({(job.org_id, job.dag_name, job.job_name) for job in released})


def _log_changes(levels: Levels) -> None:
    for job, rank in levels.items():
        if rank is None and job.from_rank is not None:
            log.info("pressure_cleared", job=job.name)
        elif rank != job.from_rank:
            facts = {"depth": job.depth, "age_s": round(job.age_s, 1), "mode": job.mode}
            log.warning("pressure_rose", job=job.name, from_rank=rank, **facts)


def _part(amount: float, limit: float | None) -> float:
    return amount / limit if limit else 0.0
