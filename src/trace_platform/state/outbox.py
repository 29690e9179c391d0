"""Side effects that are owed: written with the intent, deleted once they happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state import locks

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Owed:
    """A side effect that is owed. What its payload says depends on its kind."""

    id: int
    kind: str
    payload: dict[str, Any]


async def take_routes(tx: Tx, limit: int) -> list[Owed]:
    """Owed routes, theirs to do who took them: they are gone when this transaction commits."""
    rows = await _sql.rows(tx, "take_routes", Owed, limit=limit)
    if rows:
        await locks.share_routing(tx)
        await _sql.plan_for_routing(tx)
    return rows


async def claim(
    tx: Tx, limit: int, hide_s: float, runtimes: Sequence[str], *, sent: bool
) -> list[Owed]:
    """What is to be sent: announcements for these runtimes and buffers; or else all other ones."""
    return await _sql.rows(
        tx, "claim", Owed, limit=limit, hide_s=hide_s, runtimes=list(runtimes), sent=sent
    )


async def split_routes(tx: Tx, ids: Sequence[int]) -> int:
    """How many rows came of those that held several events, one for each."""
    made: int = await _sql.split_routes(tx, ids=list(ids))
    return made


async def postpone(tx: Tx, ids: Sequence[int], seconds: float) -> None:
    await _sql.postpone(tx, ids=list(ids), seconds=seconds)


async def settle(tx: Tx, ids: Sequence[int]) -> None:
    await _sql.settle(tx, ids=list(ids))
