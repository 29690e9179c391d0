"""Whose turn it is. A lock is kept until the transaction ends, and no other role can take one."""

from __future__ import annotations

from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def claims(tx: Tx, runtime: str) -> None:
    """Claims of one runtime take turns: each counts what the one before it started."""
    await _sql.claims(tx, runtime=runtime)


async def routing(tx: Tx) -> None:
    """Nothing is routed until the transaction ends. Whoever changes what is routed where waits for
    the events that are being routed, and they for him."""
    await _sql.routing(tx)


async def share_routing(tx: Tx) -> None:
    """Many at once: what is routed where, and which version is active, stays so until the
    transaction ends."""
    await _sql.share_routing(tx)


async def deploys(tx: Tx, org_id: UUID) -> None:
    """Deploys of one organisation take turns: they share the names of its datasets."""
    await _sql.deploys(tx, org_id=org_id)


async def route_invalidations(tx: Tx) -> bool:
    """Whether it is this transaction's turn: all that overlaps is merged by one."""
    return bool(await _sql.take_if_free(tx, name="route_invalidations"))


async def relieve_pressure(tx: Tx) -> bool:
    """Whether it is this transaction's turn: others do nothing until it ends."""
    return bool(await _sql.take_if_free(tx, name="relieve_pressure"))
