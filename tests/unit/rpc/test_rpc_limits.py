"""How fast providers are asked and for how long answers are sent, in a time of the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.support.corpus import corpus
from tests.support.own_time import run_in_own_time
from trace_platform.drivers.node_url import retry_after_s
from trace_platform.rpc.calls import Question, read_question
from trace_platform.rpc.config import PoolConfig, ProviderConfig, Timing
from trace_platform.rpc.faults import RpcRefusal
from trace_platform.rpc.health import Health
from trace_platform.rpc.limits import Rate
from trace_platform.rpc.metrics import Metrics
from trace_platform.rpc.pool import Pool
from trace_platform.rpc.pools_app import PoolsApp
from trace_platform.rpc.relay import Relay
from trace_platform.rpc.reply import HELD_BYTES
from trace_platform.rpc.upstream import Answer, Upstream

BALANCE = "eth_getBalance"


@dataclass
class FastNode:
    """An upstream that answers at once, and remembers how many calls it got."""

    headers: dict[bytes, str] = field(default_factory=dict)
    status: int = 200
    calls: int = 0
    # In place of the right answer, and what follows it.
    body: bytes | None = None
    rest: Callable[[], Awaitable[bytes]] | None = None
    closed: int = 0

    async def post(self, body: bytes, *, packed: bool = False) -> Answer:
        asked = json.loads(body)
        calls = asked if isinstance(asked, list) else [asked]
        self.calls += sum(call["method"] == BALANCE for call in calls)
        told = [{"jsonrpc": "2.0", "id": call["id"], "result": "0x1"} for call in calls]
        body = json.dumps(told if isinstance(asked, list) else told[0]).encode()
        return cast(Answer, FastAnswer(self, self.body or body))


class FastAnswer:
    length = None

    def __init__(self, node: FastNode, body: bytes) -> None:
        self.node, self.body, self.status = node, body, node.status

    def header(self, name: bytes) -> str | None:
        return self.node.headers.get(name)

    async def chunk(self) -> bytes:
        if not self.body and self.node.rest is not None:
            return await self.node.rest()
        self.body, given = b"", self.body
        return given

    def at_end(self, then: Callable[[], None]) -> None:
        self.then = then

    def close(self) -> None:
        self.node.closed += 1
        self.then()


def made(node: FastNode, *, rate: float | None = None, **timing: Any) -> Relay:
    config = ProviderConfig("a", "http://node.example", requests_per_second=rate)
    clock = asyncio.get_running_loop().time
    pool = Pool.of(PoolConfig("p", (config,)), Timing(**timing), clock)
    pool.providers[0].upstream = cast(Upstream, node)
    relay = Relay(pool, Metrics())
    relay.looked.set()
    return relay


def asking(calls: int) -> Question:
    call = {"jsonrpc": "2.0", "method": BALANCE, "params": ["0xaa", "0x1"]}
    return read_question(json.dumps([{"id": i, **call} for i in range(calls)]).encode())


# The rate


def test_a_rate_lets_a_seconds_worth_go_at_once_and_the_rest_in_time() -> None:
    async def sent_at(*sizes: int, rate: float | None = 10) -> list[float]:
        clock = asyncio.get_running_loop().time
        limit, start, times = Rate(rate, clock), clock(), []

        async def one(calls: int) -> None:
            async with limit.turn(calls):
                times.append(round(clock() - start, 6))

        await asyncio.gather(*(one(calls) for calls in sizes))
        return times

    assert run_in_own_time(sent_at(10, 5, 5, 1)) == [0, 0.5, 1.0, 1.1]
    assert run_in_own_time(sent_at(100, 1)) == [9.0, 9.1]
    assert run_in_own_time(sent_at(1_000_000, 1, rate=None)) == [0, 0]


def test_who_leaves_the_line_has_used_nothing() -> None:
    async def work() -> None:
        clock = asyncio.get_running_loop().time
        rate = Rate(10, clock)

        async def one(calls: int) -> None:
            async with rate.turn(calls):
                pass

        start = clock()
        large = [asyncio.create_task(one(1000)) for _ in range(5)]
        small = asyncio.create_task(one(1))
        await asyncio.sleep(50)
        assert rate.wait_s() == pytest.approx(449.1)
        for task in large:
            task.cancel()
        await small
        assert clock() - start == pytest.approx(50)
        assert rate.wait_s() == 0
        # What they had waited for does not go at once: a second's worth does, as ever.
        await one(10)
        assert clock() - start == pytest.approx(50.1)

    run_in_own_time(work())


@pytest.mark.parametrize("patience_s", [60.0, 20.0], ids=["patient", "impatient"])
def test_under_load_the_rate_is_used_and_kept(patience_s: float) -> None:
    """More clients than the rate allows: some are told when to come back, or leave."""

    async def work() -> tuple[int, set[int], float]:
        node = FastNode()
        relay = made(node, rate=5)
        health = Health(relay)
        clock = asyncio.get_running_loop().time
        end = clock() + 1000
        refusals: set[int] = set()

        async def client() -> None:
            while clock() < end:
                try:
                    async with asyncio.timeout(patience_s):
                        (await relay.answer(asking(100))).close()
                except TimeoutError:
                    await asyncio.sleep(0.2)
                except RpcRefusal as refusal:
                    refusals.add(refusal.code)
                    await asyncio.sleep(refusal.retry_after_s)

        async def looks() -> None:
            while clock() < end:
                await health.look()
                assert relay.pool.providers[0].state == "ok"
                await asyncio.sleep(3)

        await asyncio.gather(looks(), *(client() for _ in range(8)))
        before = clock()
        await relay.answer(asking(1))
        return node.calls, refusals, clock() - before

    calls, refusals, lone_s = run_in_own_time(work())
    # The looks use up to two calls in three seconds.
    assert 0.8 * 5000 <= calls <= 5 * (1000 + 60)
    assert refusals == {-32005}
    assert lone_s < 50


def test_a_question_that_would_wait_too_long_is_refused_at_once() -> None:
    async def work() -> None:
        node = FastNode()
        relay = made(node, rate=10)
        clock = asyncio.get_running_loop().time
        start = clock()
        first = asyncio.create_task(relay.answer(asking(400)))
        await asyncio.sleep(1)
        for calls, code, told in ((100, -32005, "more than the rate"), (500, -32008, "500 calls")):
            with pytest.raises(RpcRefusal, match=told) as caught:
                await relay.answer(asking(calls))
            assert caught.value.code == code
        with pytest.raises(RpcRefusal) as caught:
            await relay.answer(asking(100))
        assert clock() - start == pytest.approx(1)
        await asyncio.sleep(caught.value.retry_after_s)
        await relay.answer(asking(100))
        await first
        assert node.calls == 500
        assert clock() - start == pytest.approx(49)

    run_in_own_time(work())


def test_looks_pass_the_line_and_do_not_use_up_a_small_rate() -> None:
    async def work() -> None:
        relay = made(FastNode(), rate=0.1)
        provider = relay.pool.providers[0]
        clock = asyncio.get_running_loop().time
        start = clock()
        waiting = [asyncio.create_task(relay.answer(asking(1))) for _ in range(3)]
        for _ in range(10):
            await asyncio.sleep(1)
            await relay.number(provider, "eth_blockNumber")
        assert clock() - start == pytest.approx(10)
        await asyncio.gather(*waiting)
        assert clock() - start < 50

    run_in_own_time(work())


# What a provider asks for


@corpus(
    ("given", "seconds"),
    [
        (None, 0),
        ("7", 7),
        (" 7 ", 7),
        ("\u00b2", 0),
        ("7\u00b2", 0),
        ("-7", 0),
        ("soon", 0),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", 0),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_nothing(given: str | None, seconds: float) -> None:
    assert retry_after_s(given) == seconds


@pytest.mark.parametrize("status", [429, 500, 503])
def test_no_rest_is_longer_than_an_hour(status: int) -> None:
    async def work() -> None:
        node = FastNode({b"retry-after": "99999999"}, status)
        relay = made(node, backoff_s=(0.1, 0.1, 0.1))
        with pytest.raises(RpcRefusal):
            await relay.answer(asking(1))
        provider = relay.pool.providers[0]
        assert provider.resting_s == pytest.approx(3600)
        assert provider.slots.busy == 0

    run_in_own_time(work())


def test_whatever_goes_wrong_with_a_status_its_turn_ends() -> None:
    class Broken(FastNode):
        async def post(self, body: bytes, *, packed: bool = False) -> Answer:
            answer = await super().post(body)
            del answer.status
            return answer

    async def work() -> None:
        node = Broken()
        relay = made(node)
        with pytest.raises(AttributeError):
            await relay.answer(asking(1))
        assert (node.closed, relay.pool.providers[0].slots.busy) == (1, 0)

    run_in_own_time(work())


# Answers that stream


@pytest.mark.parametrize("slow", ["provider", "client"])
def test_an_answer_that_streams_ends_in_time_or_is_cut(slow: str) -> None:
    """Never silent for long, and never done: it keeps its place among the provider's questions."""

    async def dribble() -> bytes:
        await asyncio.sleep(20 if slow == "provider" else 0)
        return b"x"

    async def work() -> None:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)
            await asyncio.sleep(20 if slow == "client" else 0)

        node = FastNode(body=b"x" * HELD_BYTES, rest=dribble)
        relay = made(node, send_s=300)
        clock = asyncio.get_running_loop().time
        start = clock()
        app = PoolsApp({"p": relay}, list, relay.metrics)
        alone = asking(1).only([0]).body  # a batch does not stream
        await app._answer(relay, alone, relay.answer, send)
        assert clock() - start == pytest.approx(300)
        assert sent[-1]["more_body"]  # no end: it does not look whole
        assert (node.closed, relay.pool.providers[0].slots.busy) == (1, 0)

    run_in_own_time(work())
