"""Queues that are too long: measured, shed, refilled, and the jobs upstream held meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)

# A queue is counted up to so many times its limit: by then it does not matter any more.
TIMES = 4
# ... and one that only has a limit of age up to so many tasks.
AT_LEAST = 1000


@dataclass(frozen=True, slots=True)
class ReleasedJob:
    """A job upstream that is held no longer, or no longer as much."""

    org_id: UUID
    dag_name: str
    job_name: str


@dataclass(frozen=True, slots=True)
class JobLoad:
    """A job's queue, and what it may be. Without a mode: nothing limits it any more."""

    job_id: UUID
    name: str
    mode: str | None
    max_depth: int | None
    max_age_s: float | None
    # Tasks that can be claimed, and those that wait until they can.
    ready: int
    ready_age_s: float
    pending: int
    pending_age_s: float
    # The level of pressure that was found before: priorities from this rank on are shed.
    from_rank: int | None

    @property
    def depth(self) -> int:
        return self.ready + self.pending

    @property
    def age_s(self) -> float:
        return max(self.ready_age_s, self.pending_age_s)


async def measure(tx: Tx) -> list[JobLoad]:
    """Every job with limits, and those whose earlier pressure left something to clean."""
    return await _sql.rows(tx, "measure", JobLoad, times=TIMES, at_least=AT_LEAST)


async def set_levels(tx: Tx, levels: Mapping[JobLoad, int]) -> None:
    await _sql.set_levels(
        tx,
        job_ids=[job.job_id for job in levels],
        from_ranks=list(levels.values()),
        depths=[job.depth for job in levels],
        ages_s=[job.age_s for job in levels],
    )


async def clear_levels(tx: Tx, job_ids: Sequence[UUID]) -> None:
    await _sql.clear_levels(tx, job_ids=list(job_ids))


async def defer_excess(tx: Tx, job_ids: Sequence[UUID]) -> int:
    """How many ready tasks beyond the limits of these jobs are pending now."""
    deferred: int = await _sql.defer_excess(tx, job_ids=list(job_ids))
    return deferred


async def drop_excess(tx: Tx, job_ids: Sequence[UUID]) -> int:
    """How many ready tasks beyond the limits of these jobs are canceled now."""
    dropped: int = await _sql.drop_excess(tx, job_ids=list(job_ids))
    return dropped


async def promote(tx: Tx, rooms: Mapping[UUID, int]) -> int:
    """How many pending tasks are ready now, of each job at most as many as it has room for."""
    promoted: int = await _sql.promote_tasks(tx, job_ids=list(rooms), rooms=list(rooms.values()))
    return promoted


async def hold_upstream(
    tx: Tx, pressed: Mapping[UUID, tuple[int, str]], causes: Sequence[UUID]
) -> list[ReleasedJob]:
    """Hold what feeds the pressed jobs, from a rank on and for a reason; end the holds that these
    causes no longer need. Which jobs were let go."""
    return await _sql.rows(
        tx,
        "hold_upstream",
        ReleasedJob,
        job_ids=list(pressed),
        from_ranks=[rank for rank, _ in pressed.values()],
        reasons=[reason for _, reason in pressed.values()],
        causes=[str(cause) for cause in causes],
    )
