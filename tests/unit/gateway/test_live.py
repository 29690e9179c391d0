"""Events for open pages: one reader for all, kept places, and `resync` for who lost some."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from trace_platform.domain.errors import TooManyRequests, Unavailable
from trace_platform.gateway import live
from trace_platform.gateway.live import KEPT_EVENTS, Live
from trace_platform.gateway.who_asks import Caller
from trace_platform.wire.changes import Change, Changes

pytestmark = pytest.mark.anyio


class Dispatcher:
    """What it tells its readers, and how many there were."""

    def __init__(self) -> None:
        self.readers = 0
        self._told: asyncio.Queue[Changes | None] = asyncio.Queue()

    def tell(self, name: str) -> None:
        self._told.put_nowait(Changes(changes=[Change(kind="job", id=name)]))

    def cut(self) -> None:
        self._told.put_nowait(None)

    async def read(self) -> AsyncGenerator[Changes, None]:
        self.readers += 1
        yield Changes(changes=[])
        while (changes := await self._told.get()) is not None:
            yield changes
        raise Unavailable("cut")


class Page:
    """One open stream, and who reads it."""

    def __init__(self, events: Live, after: str | None = None) -> None:
        self.is_in = True
        self.last_id: str | None = None
        caller = Caller("owner", "Bearer x", lambda: self.is_in, is_owner=True)
        self._stream: AsyncIterator[bytes] = events.open(caller, after)
        self._rest: list[dict[str, str]] = []

    async def next(self) -> dict[str, str]:
        """The next event, without what only keeps the stream alive."""
        while not self._rest:
            self._rest = [
                _fields(text) for text in (await anext(self._stream)).decode().split("\n\n") if text
            ]
            self._rest = [each for each in self._rest if "event" in each]
        event = self._rest.pop(0)
        self.last_id = event.get("id", self.last_id)
        return event

    async def close(self) -> None:
        await self._stream.aclose()  # type: ignore[attr-defined]


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition(": ") for line in text.splitlines())
    return {name: value for name, _, value in lines if name}


@pytest.fixture
async def dispatcher() -> Dispatcher:
    return Dispatcher()


@pytest.fixture
async def events(dispatcher: Dispatcher) -> AsyncIterator[Live]:
    opened = Live(dispatcher.read)
    yield opened
    opened.close()
    await opened.stop()


async def _opened(events: Live, *after: Any) -> Page:
    """A page that has heard that the reading began."""
    page = Page(events, *after)
    assert (await page.next())["event"] == "resync"
    return page


async def test_all_pages_hear_from_one_reader(events: Live, dispatcher: Dispatcher) -> None:
    first = await _opened(events)
    pages = [first, *(Page(events) for _ in range(50))]
    waiting = [asyncio.create_task(page.next()) for page in pages]
    await asyncio.sleep(0)
    dispatcher.tell("a.b")
    heard = await asyncio.gather(*waiting)
    assert {(each["event"], each["data"]) for each in heard} == {
        ("change", '{"changes":[{"kind":"job","id":"a.b"}]}')
    }
    assert dispatcher.readers == 1


async def test_a_page_that_comes_back_hears_what_it_missed(
    events: Live, dispatcher: Dispatcher
) -> None:
    page, other = await _opened(events), Page(events)
    await page.close()
    dispatcher.tell("a.one")
    dispatcher.tell("a.two")
    assert "a.one" in (await other.next())["data"]
    back = Page(events, page.last_id)
    assert "a.one" in (await back.next())["data"]
    assert "a.two" in (await back.next())["data"]


@pytest.mark.parametrize("after", ["another-1", "", "x", "-", "{epoch}-99999", "{epoch}--1"])
async def test_a_place_that_is_not_known_is_told_to_ask_for_everything(
    events: Live, dispatcher: Dispatcher, after: str
) -> None:
    page = await _opened(events)
    assert page.last_id is not None
    stranger = Page(events, after.format(epoch=page.last_id.partition("-")[0]))
    assert (await stranger.next())["event"] == "resync"


async def test_a_page_that_reads_too_slowly_loses_its_place_and_no_more(
    events: Live, dispatcher: Dispatcher
) -> None:
    slow, quick = await _opened(events), Page(events)
    for n in range(KEPT_EVENTS + 1):
        dispatcher.tell(f"a.b{n}")
        if n % 100 == 0:
            await quick.next()
    while f"b{KEPT_EVENTS}" not in (await quick.next())["data"]:
        pass
    assert (await slow.next())["event"] == "resync"
    dispatcher.tell("a.last")
    assert "a.last" in (await slow.next())["data"]


async def test_after_a_break_everybody_asks_for_everything(
    events: Live, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_AGAIN_S", (0.001, 0.001))
    page = await _opened(events)
    dispatcher.cut()
    assert (await page.next())["event"] == "resync"
    assert dispatcher.readers == 2


async def test_a_session_that_is_over_ends_its_stream(events: Live, dispatcher: Dispatcher) -> None:
    page = await _opened(events)
    dispatcher.tell("a.b")
    await page.next()
    page.is_in = False
    dispatcher.tell("a.c")
    assert (await page.next())["event"] == "expired"
    with pytest.raises(StopAsyncIteration):
        await page.next()


async def test_so_many_streams_and_no_more(
    events: Live, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 2)
    first, second = await _opened(events), Page(events)
    dispatcher.tell("a.b")
    await second.next()
    with pytest.raises(TooManyRequests):
        Page(events)
    await first.close()
    dispatcher.tell("a.c")
    assert "a.c" in (await Page(events, second.last_id).next())["data"]
