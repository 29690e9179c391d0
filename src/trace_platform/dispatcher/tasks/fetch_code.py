"""A worker gets the code beside a DAG that one of its tasks names."""

from __future__ import annotations

from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import operator_code


async def fetch_code(state: Database, digest: str) -> bytes:
    """The files by name, as canonical JSON: its SHA-256 is the digest."""
    async with state.statement() as tx:
        found = await operator_code.content(tx, digest)
    if found is None:
        raise NotFound(f"there is no code {digest}", hint="deploy the DAG again")
    return found
