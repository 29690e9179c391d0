"""What becomes of an answer: its bytes, its pages, its file, and the query that is stopped."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from trace_platform.domain.errors import (
    Conflict,
    DiskFull,
    NotFound,
    QueryCanceled,
    QueryTooLarge,
    TooManyQueries,
    Unavailable,
)
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.query.service import api
from trace_platform.query.service import exports as export_files
from trace_platform.query.service import spool as spools
from trace_platform.query.service.answering import Answering
from trace_platform.query.service.callers import Allowance, User
from trace_platform.query.service.exports import Exports
from trace_platform.query.service.pages import Pages
from trace_platform.query.service.running import Running
from trace_platform.query.service.spool import Spool
from trace_platform.wire.query import QueryFacts

ID, OTHER = UUID(int=1), UUID(int=2)


def spooled(folder: Path, *chunks: bytes) -> Spool:
    spool = Spool(folder, 1 << 20)
    for chunk in chunks:
        spool.write(chunk)
    return spool


def chunk(spool: Spool, number: int) -> bytes:
    return b"".join(spool.chunk(number))


def test_a_spool_gives_back_what_it_got_from_memory_and_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "_IN_MEMORY_BYTES", 10)
    spool = spooled(tmp_path, b"first", b"the second is longer", b"")
    assert [chunk(spool, n) for n in range(3)] == [b"first", b"the second is longer", b""]
    assert [spool.chunk_size(n) for n in range(3)] == [5, 20, 0]
    assert b"".join(spool.read()) == b"firstthe second is longer"
    spool.close()
    assert os.listdir(tmp_path) == []


def test_a_spool_takes_only_so_much(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 10)
    spool.write(b"0123456789")
    with pytest.raises(QueryTooLarge, match="larger than 0 MiB"):
        spool.write(b"x")
    spool.close()


def test_readers_of_one_spool_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "_READ_BYTES", 2)
    spool = spooled(tmp_path, b"abcdef", b"123456")
    turns = zip(spool.chunk(0), spool.chunk(1), strict=True)
    assert list(turns) == [(b"ab", b"12"), (b"cd", b"34"), (b"ef", b"56")]
    spool.close()


def test_pages_are_their_keepers_alone(tmp_path: Path) -> None:
    pages = Pages()
    pages.keep("ann", ID, spooled(tmp_path, b"[1]", b"[2]"))
    assert chunk(pages.find("ann", ID, 2), 1) == b"[2]"
    for keeper, query_id, number in (("bob", ID, 2), ("ann", OTHER, 2), ("ann", ID, 3)):
        with pytest.raises(NotFound, match=f"no page {number}"):
            pages.find(keeper, query_id, number)
    # An id that another keeper chooses too is another query.
    pages.keep("bob", ID, spooled(tmp_path, b"[8]", b"[9]"))
    assert chunk(pages.find("ann", ID, 2), 1) == b"[2]"
    pages.close()


def test_pages_are_forgotten_with_time_and_when_there_are_many(tmp_path: Path) -> None:
    now = 0.0
    pages = Pages(keep_s=60, most=2, clock=lambda: now)
    ids = [UUID(int=n) for n in range(3)]
    pages.keep("bob", ids[0], spooled(tmp_path, b"[1]", b"[2]"))
    for each in ids:
        pages.keep("ann", each, spooled(tmp_path, b"[1]", b"[2]"))
    with pytest.raises(NotFound):
        pages.find("ann", ids[0], 2)
    assert pages.find("ann", ids[2], 2)
    assert pages.find("bob", ids[0], 2), "one keeper's many are no other's loss"
    now = 60.0
    with pytest.raises(NotFound):
        pages.find("ann", ids[2], 2)


def test_exports_of_one_caller_have_room_for_so_much(tmp_path: Path) -> None:
    exports = Exports(LocalStore(str(tmp_path / "objects")), "trace-exports", max_bytes=10)
    ids = [UUID(int=n) for n in range(3)]
    for age, each in enumerate(reversed(ids)):
        spool = spooled(tmp_path, b"12345")
        exports.keep("ann", each, spool)
        spool.close()
        [file] = (tmp_path / "objects").rglob(f"{each}.parquet")
        os.utime(file, (1_000 + age, 1_000 + age))
    with pytest.raises(NotFound):
        exports.open("ann", ids[2])
    for each in ids[:2]:
        exports.open("ann", each)[0].close()


def test_exports_that_another_deleted_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once see the same oldest file, and both want its room."""
    exports = Exports(LocalStore(str(tmp_path / "objects")), "trace-exports")
    spool = spooled(tmp_path, b"12345")
    gone = f"s3://trace-exports/exports/ann/{ID}.parquet"
    monkeypatch.setattr(export_files, "_MOST", 1)
    monkeypatch.setattr(LocalStore, "list", lambda *_: iter([gone]))
    exports.keep("ann", OTHER, spool)
    assert exports.sweep() == 0
    spool.close()
    exports.open("ann", OTHER)[0].close()


def test_a_full_disk_is_told_as_such_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports = Exports(LocalStore(str(tmp_path / "objects")), "trace-exports")
    spool = spooled(tmp_path, b"12345")
    folder = tmp_path / "objects/trace-exports/exports/ann"
    folder.mkdir(parents=True)
    (folder / f"{ID}.parquet.partial").symlink_to("/dev/full")
    with pytest.raises(DiskFull, match="no space left for an export"):
        exports.keep("ann", ID, spool)
    assert os.listdir(folder) == []
    spool.close()
    with open("/dev/full", "wb", 0) as full:
        monkeypatch.setattr(spools.tempfile, "SpooledTemporaryFile", lambda *_, **__: full)
        with pytest.raises(DiskFull, match="no space left for an answer"):
            spooled(tmp_path, b"12345")


def test_a_page_that_is_refused_keeps_nothing(tmp_path: Path) -> None:
    service: Any = SimpleNamespace(pages=Pages(), answering=Answering())
    caller = Allowance().user(User("ann"))
    facts = QueryFacts(
        query_id=ID, columns=[], row_count=2, truncated=False, elapsed_ms=1, datasets=[]
    )
    for _ in range(16):
        service.answering.answer(caller, iter([b"x"]), 1, "a/b", {}, lambda: None)
    spool = spooled(tmp_path, b"[1]", b"[2]")
    with pytest.raises(TooManyQueries):
        api._first_page(service, caller, facts, spool)
    spool.close()
    with pytest.raises(NotFound):
        service.pages.find(caller.keeper, ID, 2)


def test_answers_to_one_query_id_have_pages_and_files_of_their_own(tmp_path: Path) -> None:
    """Asked again with the same id, as after a lost reply: the first answer is still read."""
    store = LocalStore(str(tmp_path / "objects"))
    service: Any = SimpleNamespace(
        pages=Pages(), answering=Answering(), exports=Exports(store, "trace-exports")
    )
    caller = Allowance().user(User("ann"))
    facts = QueryFacts(
        query_id=ID, columns=[], row_count=2, truncated=False, elapsed_ms=1, datasets=[]
    )

    async def paged(name: bytes) -> UUID:
        spool = spooled(tmp_path, b'["%b 1"]' % name, b'["%b 2"]' % name)
        page: Any = api._first_page(service, caller, facts, spool)
        said = json.loads(b"".join([part async for part in page.body_iterator]))
        assert said["query_id"] == str(ID)
        return UUID(said["next"].split("/")[3])

    async def exported(name: bytes) -> UUID:
        answer = await api._export(service, caller, facts, spooled(tmp_path, name))
        return UUID(json.loads(bytes(answer.body))["link"].rpartition("/")[2])

    async def scenario() -> None:
        first, second = await paged(b"first"), await paged(b"second")
        assert chunk(service.pages.find(caller.keeper, first, 2), 1) == b'["first 2"]'
        assert chunk(service.pages.find(caller.keeper, second, 2), 1) == b'["second 2"]'
        files = {await exported(name): name for name in (b"a", b"b")}
        for answer_id, name in files.items():
            stream, size = service.exports.open(caller.keeper, answer_id)
            assert (stream.read(), size) == (name, 1)
            stream.close()
        assert len(files) == 2

    asyncio.run(scenario())
    service.pages.close()


def test_an_answer_is_let_go_of_however_it_ends() -> None:
    closed: list[str] = []
    answering = Answering()
    caller = Allowance().user(User("ann"))

    async def refuse(_: Any) -> None:
        raise OSError("the client is gone")

    def begin() -> StreamingResponse:
        return answering.answer(caller, iter([b"x"]), 1, "a/b", {}, lambda: closed.append("x"))

    async def scenario() -> None:
        held = [begin() for _ in range(16)]
        with pytest.raises(TooManyQueries, match="16 answers"):
            begin()
        assert closed == ["x"]
        for each in held:
            with pytest.raises(ClientDisconnect):
                await each({"type": "http", "asgi": {"spec_version": "2.4"}}, refuse, refuse)
        assert closed == ["x"] * 17
        begin()

    asyncio.run(scenario())


def test_an_export_is_its_callers_until_it_is_swept(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "objects"))
    exports = Exports(store, "trace-exports")
    spool = spooled(tmp_path, b"PAR1", b"rows")
    until = exports.keep("ann", ID, spool)
    spool.close()
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


async def begun(running: Running) -> asyncio.Task[None]:
    """A query of ann's that goes on until it is stopped."""
    has_begun = asyncio.Event()

    async def query() -> None:
        with running.query(ID, "ann", "0" * 64):
            has_begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(query())
    await has_begun.wait()
    return task


def test_a_query_is_stopped_by_its_caller_alone() -> None:
    async def scenario() -> None:
        running = Running()
        task = await begun(running)
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
        running = Running()
        task = await begun(running)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running.of("ann").queries == []

    asyncio.run(scenario())


def test_a_service_that_stops_tells_queries_to_come_back() -> None:
    async def scenario() -> None:
        running = Running()
        task = await begun(running)
        running.stop()
        with pytest.raises(Unavailable, match="is stopping") as told:
            await task
        assert told.value.facts["retry_after_s"] >= 1
        with pytest.raises(Unavailable, match="is stopping"), running.query(ID, "ann", "0" * 64):
            pass

    asyncio.run(scenario())
