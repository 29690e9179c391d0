"""Backfills and invalidations of a running instance, as a user sees them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from trace_platform.app.api_client.service_client import get, post
from trace_platform.app.instance.home import Home
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.wire.backfill import (
    BackfillAction,
    BackfillDetail,
    BackfillList,
    BackfillPlan,
    BackfillStarted,
)
from trace_platform.wire.invalidation import InvalidateResponse, InvalidationList

# Looked through for the beginning of an id.
_LISTED = 1_000


def plan(home: Home, dag: str, job: str, start: int, end: int, *, force: bool) -> BackfillPlan:
    return post(home, BackfillPlan, "/v1/backfills/plan", _range(dag, job, start, end, force))


def start(
    home: Home, dag: str, job: str, start: int, end: int, max_in_flight: int, *, force: bool
) -> BackfillStarted:
    """Under an id of its own, so that it can be asked for again."""
    limits = {"max_in_flight": max_in_flight, "request_id": str(uuid4())}
    return post(
        home, BackfillStarted, "/v1/backfills", _range(dag, job, start, end, force) | limits
    )


def listing(home: Home, dag: str | None = None, limit: int = 20) -> BackfillList:
    return get(home, BackfillList, "/v1/backfills", dag_name=dag, limit=limit)


def show(home: Home, backfill_id: UUID) -> BackfillDetail:
    return get(home, BackfillDetail, f"/v1/backfills/{backfill_id}")


def pause(home: Home, backfill_id: UUID) -> BackfillAction:
    return post(home, BackfillAction, f"/v1/backfills/{backfill_id}/pause")


def resume(home: Home, backfill_id: UUID) -> BackfillAction:
    return post(home, BackfillAction, f"/v1/backfills/{backfill_id}/resume")


def cancel(home: Home, backfill_id: UUID) -> BackfillAction:
    return post(home, BackfillAction, f"/v1/backfills/{backfill_id}/cancel")


def find(home: Home, text: str) -> UUID:
    """The backfill whose id begins or ends so."""
    try:
        return UUID(text)
    except ValueError:
        given = text.replace("-", "").lower()
    if len(given) < 4:
        raise BadInput(f"'{text}' is too short", hint="give 4 characters or more of the id")
    found = [
        each.backfill_id
        for each in listing(home, limit=_LISTED).backfills
        if each.backfill_id.hex.startswith(given) or each.backfill_id.hex.endswith(given)
    ]
    if len(found) > 1:
        said = f"{len(found)} backfills begin or end with '{text}'"
        raise BadInput(said, hint="give more of the id")
    if not found:
        raise NotFound(f"no backfill begins or ends with '{text}'", hint="trace backfills list")
    return found[0]


def invalidate(home: Home, dataset: str, part: dict[str, Any], reason: str) -> InvalidateResponse:
    """Under an id of its own, so that it can be asked for again."""
    body = {"dataset": dataset, "reason": reason, "request_id": str(uuid4())}
    return post(home, InvalidateResponse, "/v1/invalidations", body | part)


def invalidations(
    home: Home, dataset: str | None, limit: int, *, open_only: bool
) -> InvalidationList:
    only = "true" if open_only else None
    return get(home, InvalidationList, "/v1/invalidations", dataset=dataset, open=only, limit=limit)


def _range(dag: str, job: str, start: int, end: int, force: bool) -> dict[str, Any]:
    return {"dag_name": dag, "job_name": job, "start": start, "end": end, "force": force}
