"""A running attempt asks for what earlier ones of its job have kept in its generation."""

from __future__ import annotations

from typing import Any

from trace_platform.domain.fence import Fence
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import operator_state, tasks


async def read_state(state: Database, fence: Fence) -> dict[str, Any]:
    """By key. Raise StaleFence when the attempt lost its task."""
    async with state.transaction() as tx:
        task = await tasks.hold_fence(tx, fence)
        return await operator_state.read(tx, task.generation_id)
