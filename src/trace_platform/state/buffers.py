"""Batches on their way into buffered datasets."""

from __future__ import annotations

from typing import Any

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def publish(tx: Tx, **batch: Any) -> bool:
    """Whether it is new. The sink's message is in the outbox then."""
    new: int = await _sql.publish(tx, **batch)
    return bool(new)
