"""Who uses which key of an RPC provider. Names only."""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def claim(tx: Tx, holder: str, keys: Sequence[str], lease_s: float) -> list[str]:
    """Those that are the holder's now, until the lease ends."""
    rows = await _sql.claim(tx, holder=holder, keys=list(keys), lease_s=lease_s)
    return [row["key_name"] for row in rows]


async def release(tx: Tx, holder: str, keys: Sequence[str]) -> None:
    await _sql.release(tx, holder=holder, keys=list(keys))
