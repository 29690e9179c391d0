"""Keys that an aggregator waited for too long are closed, with an event or without."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import structlog
from pydantic import ValidationError

from trace_platform.dag.event_operators.aggregator import Config
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import correlations, events
from trace_platform.state.correlations import LateKey
from trace_platform.state.events import NewEvent

log = structlog.get_logger()


async def expire_correlations(state: Database, limit: int = 500) -> int:
    """How many were closed. What arrives for them later changes nothing."""
    async with state.transaction() as tx:
        late = await correlations.expire(tx, limit)
        owed = [new_event(each) for each in late if _emits(each)]
        if owed:
            await events.record(tx, owed)
    for each in late:
        log.warning("correlation_timed_out", **_facts(each))
    return len(late)


def _emits(late: LateKey) -> bool:
    try:
        return Config.model_validate(late.config).on_timeout == "emit"
    except ValidationError:
        # Of a version before this one. The others must not wait for it.
        log.error("correlation_config_invalid", **_facts(late))
        return False


def new_event(late: LateKey) -> NewEvent:
    event = late.event
    return NewEvent(
        org_id=late.org_id,
        dataset_uuid=UUID(event["dataset_uuid"]),
        dataset_version=UUID(event["dataset_version"]),
        cursor=event.get("cursor"),
        partition_key=event.get("partition_key"),
        start=event.get("start"),
        end=event.get("end"),
    )


def _facts(late: LateKey) -> dict[str, Any]:
    return {
        "dag": late.dag_name,
        "job": late.job_name,
        "key": late.key.partition(":")[2],
        "arrived": late.arrived,
    }
