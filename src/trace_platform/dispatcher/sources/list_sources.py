"""The sources of active versions, and how each of them does."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_platform.domain.cron import next_tick
from trace_platform.domain.figures import duration
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview, sources
from trace_platform.state.overview import TaskNow
from trace_platform.state.sources import LeavingRun, ListedSource
from trace_platform.wire.sources import SourceList, SourceState, SourceStatus

# A node that hiccups is waited out: what takes longer is said.
MAX_STUCK_S = 30.0


async def list_sources(state: Database, org_id: UUID) -> SourceList:
    async with overview.snapshot(state) as tx:
        found = await sources.listing(tx, org_id)
        leaving = await sources.leaving(tx, org_id)
    listed = [_status(row) for row in found] + [_leaving(run) for run in leaving]
    return SourceList(sources=sorted(listed, key=lambda s: (s.dag_name, s.job_name)))


def state_of(row: ListedSource) -> SourceState:
    """The life of a run in a word; of other sources whether they emit."""
    if row.kind != "always_on":
        return "Paused" if row.on_hold else "Active"
    if row.status == "Canceled" and not row.superseded:
        return "Canceled"
    if row.status == "Running" and _ends(row):
        return "Draining"
    if row.on_hold:
        return "Paused"
    if row.status == "Running":
        return "Stuck" if stuck_s(row) > MAX_STUCK_S else "Running"
    # Completed: it is started again in a moment.
    return "Dead" if row.status in ("Failed", "Completed") else "Pending"


def stuck_s(row: ListedSource | TaskNow) -> float:
    """For how long a source that runs does not get on; 0: it does."""
    progress = row.progress or {}
    return float(progress["stuck_s"]) if progress.get("stuck") else 0.0


def stuck_words(row: ListedSource | TaskNow) -> str:
    """Where it stands, for how long, and how long ago the outside was heard."""
    progress = row.progress or {}
    heard = progress.get("heard_s")
    said = "its head was never heard of"
    if heard is not None:
        said = f"the head, {progress['total']:,}, was heard of {duration(heard)} ago"
    return f"does not get on for {duration(stuck_s(row))} ({said})"


def _progress(row: ListedSource) -> dict[str, Any]:
    progress = row.progress if row.status == "Running" else None
    if not progress:
        return {}
    heard = progress.get("heard_s") is not None
    return {
        "last": progress["done"] if heard else None,
        "head": progress["total"] if heard else None,
        "heard_s": progress.get("heard_s"),
        "stuck": progress.get("stuck"),
        "stuck_s": stuck_s(row) or None,
    }


def _ends(row: ListedSource) -> bool:
    asked = row.drain_requested_at or row.cancel_requested_at
    return bool(row.superseded or asked)


def _status(row: ListedSource) -> SourceStatus:
    state, kind = state_of(row), row.kind
    dead = state == "Dead"
    return SourceStatus(
        dag_name=row.dag_name,
        job_name=row.job_name,
        kind=kind,
        state=state,
        run_id=row.run_id,
        attempt=row.attempt,
        error_code=row.error_code if dead else None,
        error_message=row.error_message if dead else None,
        next_retry_at=row.next_retry_at if dead else None,
        last_event_age_s=row.last_event_s,
        last_tick=row.last_tick if kind == "cron" else None,
        next_tick=_next(row) if kind == "cron" and state != "Paused" else None,
        **_progress(row),
        path=f"/v1/hooks/{row.dag_name}/{row.job_name}" if kind == "webhook" else None,
    )


def _next(row: ListedSource) -> datetime | None:
    return next_tick(row.source["schedule"], row.source["timezone"], row.now)


def _leaving(run: LeavingRun) -> SourceStatus:
    """Of a version that gave way: it is told to end."""
    return SourceStatus(state="Draining", **asdict(run))
