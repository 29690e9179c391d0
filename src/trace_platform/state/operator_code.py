"""Code that lies beside DAG files, by the SHA-256 of its content."""

from __future__ import annotations

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def keep(tx: Tx, digest: str, content: bytes) -> None:
    await _sql.keep(tx, digest=digest, content=content)


async def content(tx: Tx, digest: str) -> bytes | None:
    found: bytes | None = await _sql.content(tx, digest=digest)
    return found
