"""A query does not wait for a Postgres that hangs, and its child is no company for the next one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from trace_platform.domain.errors import Unavailable
from trace_platform.query.service import run_query as flow
from trace_platform.query.service.callers import Allowance, User
from trace_platform.query.service.resolve import Resolved
from trace_platform.query.service.run_query import Readable, Sources, run_query
from trace_platform.query.service.spool import Spool
from trace_platform.sql.relations import Reference
from trace_platform.wire.query import QueryRequest, ResolvedDataset

TABLE = ResolvedDataset(
    label="d.j.0", dataset_uuid=UUID(int=1), dataset_version=UUID(int=2), table=True
)


class Hanging:
    """Postgres, when it neither answers nor hangs up: until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.left = threading.Event()

    @contextmanager
    def tables(self, *_: Any) -> Iterator[None]:
        self.go.wait(30)
        yield
        self.left.set()


def test_a_postgres_that_hangs_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres = Hanging()
    monkeypatch.setattr(flow, "open_tables", postgres.tables)
    monkeypatch.setattr(flow, "_LEAVE_S", 0.01)
    monkeypatch.setattr(flow, "_MOST_LEFT", 2)
    sources = Sources(cast(Any, None), cast(Any, None), cast(Any, postgres), hot_bytes=1)
    relations = [Resolved(Reference(view="t", name="t"), TABLE)]

    async def query() -> Any:
        child = SimpleNamespace(fit=True, scratch=tmp_path)
        spool = Spool(tmp_path, 1)
        try:
            # Not that it took too long: fewer rows would not have helped.
            with pytest.raises(Unavailable, match="does not answer"):
                async with asyncio.timeout(0.02):
                    await run_query(
                        cast(Any, child),
                        QueryRequest(sql="from t"),
                        Allowance().user(User("ann")),
                        Readable(relations),
                        sources,
                        spool,
                    )
        finally:
            spool.close()
        return child

    async def scenario() -> None:
        for _ in range(2):
            child = await query()
            assert not postgres.go.is_set(), "it did not wait"
            assert not child.fit, "a thread may still write into its folder"
        # Not every query leaves a thread behind.
        await query()
        assert len(sources.left_behind) == 2
        postgres.go.set()
        await asyncio.wait(set(sources.left_behind), timeout=20)
        assert postgres.left.is_set()
        assert not sources.left_behind

    asyncio.run(scenario())
