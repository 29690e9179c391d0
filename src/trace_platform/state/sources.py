"""Sources that run by themselves: runs without end, schedules, and calls from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class DueRun:
    """A source whose run needs something. No run: it has none yet."""

    job_id: UUID
    org_id: UUID
    dag_name: str
    job_name: str
    runtime: str
    priority: int
    generation_id: UUID
    run_id: UUID | None
    attempt: int | None
    error_code: str | None
    due: str


@dataclass(frozen=True, slots=True)
class CronSource:
    """A schedule, and the tick up to which everything is done."""

    dag_name: str
    job_name: str
    schedule: str
    timezone: str
    missed: str
    last_tick: datetime
    on_hold: bool


@dataclass(frozen=True, slots=True)
class HeldTicks:
    last_tick: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class LeavingRun:
    """A run of a version that gave way."""

    dag_name: str
    job_name: str
    kind: str
    run_id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class Hook:
    """A source by its names, whether or not it takes deliveries, and where they go."""

    kind: str
    secret: str | None
    dataset_uuid: UUID
    dataset_version: UUID


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A source of an active version: its run if it has one, its newest tick and event."""

    dag_name: str
    job_name: str
    kind: str
    source: dict[str, Any]
    runtime: str | None
    on_hold: bool
    run_id: UUID | None
    status: str | None
    attempt: int | None
    error_code: str | None
    error_message: str | None
    next_retry_at: datetime | None
    superseded: bool | None
    drain_requested_at: datetime | None
    cancel_requested_at: datetime | None
    progress: dict[str, Any] | None
    ended_s: float | None
    last_tick: datetime | None
    now: datetime
    last_event_s: float | None


async def due_runs(tx: Tx, well_s: float) -> list[DueRun]:
    """Sources whose run needs something, and what: `due` is make, restart, wait, forgive or adopt.
    An attempt that ran for `well_s` forgives those before it."""
    return await _sql.rows(tx, "due_runs", DueRun, well_s=well_s)


async def always_on_elsewhere(tx: Tx, org_id: UUID, dag_name: str) -> dict[str, int]:
    """By runtime, how many sources of other DAGs need a slot."""
    rows = await _sql.always_on_elsewhere(tx, org_id=org_id, dag_name=dag_name)
    return {row["runtime"]: row["sources"] for row in rows}


async def make_runs(tx: Tx, runs: Sequence[DueRun]) -> int:
    made = await _sql.make_runs(
        tx,
        org_ids=[run.org_id for run in runs],
        generation_ids=[run.generation_id for run in runs],
        **_definitions(runs),
    )
    return len(made)


async def restart_runs(tx: Tx, runs: Sequence[DueRun]) -> int:
    """Queued again at once, under the active definition."""
    return len(await _sql.restart_runs(tx, **_ends(runs), **_definitions(runs)))


async def delay_runs(tx: Tx, runs: Sequence[DueRun], retry_base_s: float) -> int:
    """Queued again after a pause that grows with every attempt that was not forgiven."""
    delayed = await _sql.delay_runs(
        tx, **_ends(runs), **_definitions(runs), retry_base_s=retry_base_s
    )
    return len(delayed)


async def forgive_runs(tx: Tx, runs: Sequence[DueRun]) -> int:
    return len(await _sql.forgive_runs(tx, **_ends(runs)))


async def adopt_runs(tx: Tx, runs: Sequence[DueRun]) -> int:
    return len(await _sql.adopt_runs(tx, **_ends(runs), **_definitions(runs)))


async def begin_ticks(tx: Tx) -> int:
    """How many schedules count from now on: new ones, and changed ones."""
    return len(await _sql.begin_ticks(tx))


async def schedules(tx: Tx, org_id: UUID) -> list[CronSource]:
    return await _sql.rows(tx, "schedules", CronSource, org_id=org_id)


async def now(tx: Tx) -> datetime:
    moment: datetime = await _sql.now(tx)
    return moment


async def hold_ticks(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> HeldTicks | None:
    """The newest tick and the time, locked; None when the schedule does not count yet."""
    return await _sql.row(
        tx, "hold_ticks", HeldTicks, org_id=org_id, dag_name=dag_name, job_name=job_name
    )


async def move_ticks(
    tx: Tx, org_id: UUID, dag_name: str, job_name: str, last_tick: datetime
) -> None:
    """Never back."""
    await _sql.move_ticks(
        tx, org_id=org_id, dag_name=dag_name, job_name=job_name, last_tick=last_tick
    )


async def listing(tx: Tx, org_id: UUID) -> list[ListedSource]:
    return await _sql.rows(tx, "listing", ListedSource, org_id=org_id)


async def leaving(tx: Tx, org_id: UUID) -> list[LeavingRun]:
    """Runs that gave way to another version and have not ended yet."""
    return await _sql.rows(tx, "leaving", LeavingRun, org_id=org_id)


async def hook(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> Hook | None:
    return await _sql.row(tx, "hook", Hook, org_id=org_id, dag_name=dag_name, job_name=job_name)


def _ends(runs: Sequence[DueRun]) -> dict[str, list[Any]]:
    return {
        "run_ids": [run.run_id for run in runs],
        "attempts": [run.attempt for run in runs],
    }


def _definitions(runs: Sequence[DueRun]) -> dict[str, list[Any]]:
    return {
        "job_ids": [run.job_id for run in runs],
        "runtimes": [run.runtime for run in runs],
        "priorities": [run.priority for run in runs],
    }
