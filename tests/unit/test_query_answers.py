"""What becomes of an answer: its bytes, its pages, its file, and the query that is stopped."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from trace_platform.domain.errors import Conflict, NotFound, QueryCanceled, QueryTooLarge
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.query import spool as spools
from trace_platform.query.exports import Exports
from trace_platform.query.pages import Pages
from trace_platform.query.running import Running
from trace_platform.query.spool import Spool

ID, OTHER = UUID(int=1), UUID(int=2)


def spooled(folder: Path, *chunks: bytes) -> Spool:
    spool = Spool(folder, 1 << 20)
    for chunk in chunks:
        spool.write(chunk)
    return spool


def test_a_spool_gives_back_what_it_got_from_memory_and_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "_IN_MEMORY_BYTES", 10)
    spool = spooled(tmp_path, b"first", b"the second is longer", b"")
    assert [spool.chunk(n) for n in range(3)] == [b"first", b"the second is longer", b""]
    assert b"".join(spool.read()) == b"firstthe second is longer"
    assert os.listdir(tmp_path) == []


def test_a_spool_takes_only_so_much(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 10)
    spool.write(b"0123456789")
    with pytest.raises(QueryTooLarge, match="larger than 0 MiB"):
        spool.write(b"x")
    spool.close()


def test_pages_follow_each_other_and_are_their_callers_alone(tmp_path: Path) -> None:
    pages = Pages()
    rows, following = pages.first("ann", ID, spooled(tmp_path, b"[1]", b"[2]", b"[3]"))
    assert (bytes(rows), following) == (b"[1]", f"/v1/query/{ID}/pages/2")
    rows, following = pages.page("ann", ID, 2)
    assert (bytes(rows), following) == (b"[2]", f"/v1/query/{ID}/pages/3")
    rows, following = pages.page("ann", ID, 3)
    assert (bytes(rows), following) == (b"[3]", None)
    for caller, query_id, number in (("bob", ID, 2), ("ann", OTHER, 2), ("ann", ID, 4)):
        with pytest.raises(NotFound, match=f"no page {number}"):
            pages.page(caller, query_id, number)
    pages.close()


@pytest.mark.parametrize("chunks", [(), (b"[]",)], ids=["none", "one"])
def test_a_single_page_is_not_kept(tmp_path: Path, chunks: tuple[bytes, ...]) -> None:
    pages = Pages()
    rows, following = pages.first("ann", ID, spooled(tmp_path, *chunks))
    assert (bytes(rows), following) == (b"[]", None)
    with pytest.raises(NotFound):
        pages.page("ann", ID, 1)


def test_pages_are_forgotten_with_time_and_when_there_are_many(tmp_path: Path) -> None:
    now = 0.0
    pages = Pages(keep_s=60, most=2, clock=lambda: now)
    ids = [UUID(int=n) for n in range(3)]
    for each in ids:
        pages.first("ann", each, spooled(tmp_path, b"[1]", b"[2]"))
    with pytest.raises(NotFound):
        pages.page("ann", ids[0], 2)
    assert bytes(pages.page("ann", ids[2], 2)[0]) == b"[2]"
    now = 60.0
    with pytest.raises(NotFound):
        pages.page("ann", ids[2], 2)


def test_an_export_is_its_callers_until_it_is_swept(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "objects"))
    exports = Exports(store, "trace-exports")
    until = exports.keep("ann", ID, spooled(tmp_path, b"PAR1", b"rows"))
    assert timedelta(hours=23) < until - datetime.now(UTC) <= timedelta(days=1)
    stream, size = exports.open("ann", ID)
    with stream:
        assert (stream.read(), size) == (b"PAR1rows", 8)
    with pytest.raises(NotFound):
        exports.open("bob", ID)
    assert exports.sweep() == 0
    [file] = (tmp_path / "objects").rglob("*.parquet")
    old = file.stat().st_mtime - 90_000
    os.utime(file, (old, old))
    assert exports.sweep() == 1
    with pytest.raises(NotFound, match="no export"):
        exports.open("ann", ID)


def test_a_query_is_stopped_by_its_caller_alone() -> None:
    async def scenario() -> None:
        running, begun = Running(), asyncio.Event()

        async def query() -> None:
            with running.query(ID, "ann", "0" * 64):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(query())
        await begun.wait()
        assert [each.query_id for each in running.of("ann").queries] == [ID]
        assert running.of("bob").queries == []
        with pytest.raises(NotFound):
            running.cancel(ID, "bob")
        with pytest.raises(Conflict), running.query(ID, "bob", "0" * 64):
            pass
        running.cancel(ID, "ann")
        running.cancel(ID, "ann")
        with pytest.raises(QueryCanceled):
            await task
        with pytest.raises(NotFound):
            running.cancel(ID, "ann")

    asyncio.run(scenario())


def test_a_query_whose_client_left_is_no_canceled_one() -> None:
    async def scenario() -> None:
        running, begun = Running(), asyncio.Event()

        async def query() -> None:
            with running.query(ID, "ann", "0" * 64):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(query())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running.of("ann").queries == []

    asyncio.run(scenario())
