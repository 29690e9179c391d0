"""Keys that an aggregator waited for too long are closed, with an event or without."""

from __future__ import annotations

from typing import Any

import structlog
from pydantic import ValidationError

from trace_platform.dag.event_operators.aggregator import Config
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row
from trace_platform.state import correlations, events

log = structlog.get_logger()


async def expire_correlations(state: Database, limit: int = 500) -> int:
    """How many were closed. What arrives for them later changes nothing."""
    async with state.transaction() as tx:
        late = await correlations.expire(tx, limit)
        owed = [_event(row) for row in late if _emits(row)]
        if owed:
            await events.record(tx, owed)
    for row in late:
        log.warning("correlation_timed_out", **_facts(row))
    return len(late)


def _emits(row: Row) -> bool:
    try:
        return Config.model_validate(row["config"]).on_timeout == "emit"
    except ValidationError:
        # Of a version before this one. The others must not wait for it.
        log.error("correlation_config_invalid", **_facts(row))
        return False


def _event(row: Row) -> dict[str, Any]:
    return {"org_id": str(row["org_id"]), **row["event"]}


def _facts(row: Row) -> dict[str, Any]:
    return {
        "dag": row["dag_name"],
        "job": row["job_name"],
        "key": row["key"].partition(":")[2],
        "arrived": row["arrived"],
    }
