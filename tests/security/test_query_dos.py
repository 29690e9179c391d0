"""Statements that would use up the machine: each ends in time, and nobody else notices.

The service promises an answer within the time-out and two seconds, bounded memory and a bounded
spill, whatever the statement is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil
import pytest

from tests.support.query_service import QueryService, query_service
from trace_platform.app.instance.query_users import QueryUsers
from trace_platform.domain.errors import InvalidQuery, TraceError
from trace_platform.query.protocol.messages import Limits, Run
from trace_platform.query.service.children import Child, ChildPool

LIMITS = Limits(timeout_s=2.0, memory_mb=256, spill_mb=128, hot_mb=32, threads=2)
# A child is killed after the time-out and its grace, which keeps the promise. The rest is for a
# machine that is busy with something else.
DEADLINE_S = LIMITS.timeout_s + LIMITS.grace_s + 10.0
# For a short query of somebody else: a second or two, and the rest as above.
SHORT_S = 8.0
MIB = 1 << 20
# A warm child, and what a query may have: its memory, half of it again for what DuckDB does not
# count, and rows from Postgres.
RESIDENT_MB = 200 + LIMITS.memory_mb * 3 // 2 + LIMITS.hot_mb

# Use time, and hardly anything else.
SLOW = {
    "cross join": "SELECT count(*) FROM range(1_000_000) a, range(1_000_000) b"
    " WHERE hash(a.range) % 7 = hash(b.range) % 11",
    "endless range": "SELECT sum(hash(i)) FROM range(1_000_000_000_000_000_000) r(i)",
    "endless recursion": "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT (i + 1) % 9 FROM r)"
    " SELECT count(*) FROM r",
    "regular expression": "SELECT count(*) FROM range(100_000_000) r(i)"
    " WHERE regexp_matches(repeat('ab', 5_000) || i, '(a|b|ab)*(.*)*c(.*)*d$')",
    "deaf function": "SELECT levenshtein(repeat('ab', 40_000), repeat('ba', 40_000)) + i"
    " FROM range(1_000) r(i)",
    "lambda": "SELECT count(list_reduce(range(100 + i % 2), lambda a, b: (a * 31 + b) % 1_000_003))"
    " FROM range(100_000_000) r(i)",
    "correlated": "SELECT count(*) FROM range(1_000_000) a(i)"
    " WHERE EXISTS (SELECT 1 FROM range(1_000_000) b(j) WHERE j * i % 1_000_003 = -1)",
}

# Use memory.
LARGE = {
    "one huge string": "SELECT length(repeat('x', 2_000_000_000))",
    "padding": "SELECT length(lpad('x', 2_000_000_000, 'y'))",
    "format": "SELECT length(format('{:>2000000000}', 'x'))",
    "one huge list": "SELECT len(range(2_000_000_000))",
    "list aggregate": "SELECT len(list(i)) FROM range(1_000_000_000) r(i)",
    "string aggregate": "SELECT length(string_agg(repeat('y', 1_000), '')) FROM range(10_000_000)",
    "doubling": "WITH RECURSIVE r(s) AS (SELECT 'xxxxxxxx' UNION ALL SELECT s || s FROM r)"
    " SELECT max(length(s)) FROM r",
    "growing recursion": "WITH RECURSIVE r(i) AS"
    " (SELECT 1 UNION SELECT i * 2 + d FROM r, range(2) t(d)) SELECT count(*) FROM r",
    "nested lists": "SELECT len(list_transform(range(100_000), lambda x: range(100_000)))",
    "lambda over a long list": "SELECT list_reduce(range(3_000_000),"
    " lambda a, b: (a * 31 + b) % 1_000_003) FROM range(1_000_000)",
    "map": "SELECT cardinality(map_from_entries(list((i, i)))) FROM range(300_000_000) r(i)",
    "window": "SELECT max(s) FROM (SELECT list(i) OVER (ORDER BY hash(i)) s"
    " FROM range(1_000_000) r(i))",
    "views in views": "WITH c0 AS NOT MATERIALIZED (SELECT 1 AS x)"
    + "".join(
        f", c{n} AS NOT MATERIALIZED (SELECT * FROM c{n - 1} UNION ALL SELECT * FROM c{n - 1})"
        for n in range(1, 30)
    )
    + " SELECT count(*) FROM c29",
}

# Use the disk once memory is used up.
SPILLING = {
    "many relations": "SELECT count(*) FROM "
    + ", ".join(f"(SELECT * FROM range(50) WHERE range % 7 < 5) t{n}" for n in range(40)),
    "sort": "SELECT h FROM (SELECT hash(i) AS h, repeat('z', 200) AS z FROM range(20_000_000) r(i))"
    " QUALIFY row_number() OVER (ORDER BY z, h) = 1",
    "distinct": "SELECT count(DISTINCT md5(i::VARCHAR)) FROM range(50_000_000) r(i)",
}

# Hard to read; of the length that a statement may have.
DEEP = {
    "parentheses": "SELECT " + "(" * 40_000 + "1" + ")" * 40_000,
    "subqueries": "SELECT * FROM (" * 5_000 + "SELECT 1" + ")" * 5_000,
    "sum": "SELECT " + "+".join(["1"] * 45_000),
    "negations": "SELECT " + "NOT " * 24_000 + "true",
    "functions": "SELECT " + "abs(" * 19_000 + "1" + ")" * 19_000,
    "lists": "SELECT " + "[" * 45_000 + "]" * 45_000,
    "cases": "SELECT " + "CASE WHEN true THEN " * 4_000 + "1" + " END" * 4_000,
    "unions": " UNION ALL ".join(["SELECT 1"] * 5_000),
    "conditions": "SELECT 1 WHERE " + " AND ".join(["1=1"] * 11_000),
    "columns": "SELECT " + ", ".join(["1"] * 33_000),
}


@dataclass
class Watch:
    """The largest that a child and its files were while it was looked at."""

    resident: int = 0
    spilled: int = 0

    async def follow(self, child: Child) -> None:
        process = psutil.Process(child.pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            while True:
                self.resident = max(self.resident, process.memory_info().rss)
                self.spilled = max(self.spilled, _size(child.scratch))
                await asyncio.sleep(0.005)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_blocks * 512 if path.is_file() else 0
    return total


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def pool(loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildPool]:
    scratch = tmp_path_factory.mktemp("scratch")
    pool = ChildPool(2, LIMITS, readable=[], scratch=scratch)
    loop.run(pool.start())
    try:
        yield pool
    finally:
        loop.run(pool.close())


async def answer(child: Child, sql: str, timeout_s: float = 60.0) -> bytes:
    """The rows as JSON. Neither the check nor the run takes longer than it may."""
    chunks: list[bytes] = []
    with _in_time():
        await child.check(sql)
    run = Run(relations=[], limit=10, timeout_s=timeout_s)
    with _in_time():
        await child.run(run, chunks.append)
    return b"".join(chunks)


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        assert time.monotonic() - started < DEADLINE_S


async def attack(
    pool: ChildPool, sql: str, timeout_s: float = LIMITS.timeout_s
) -> tuple[TraceError | None, Watch]:
    """How it ended and what it took. Meanwhile others are answered, and afterwards too."""
    async with pool.borrowed() as child:
        watch = Watch()
        watching = asyncio.create_task(watch.follow(child))
        bystander = asyncio.create_task(_neighbour(pool))
        ended = None
        try:
            await answer(child, sql, timeout_s)
        except TraceError as error:
            ended = error
        finally:
            watching.cancel()
            await bystander
    for _ in range(pool.size):
        async with pool.borrowed() as next_child:
            assert b"42" in await answer(next_child, "SELECT 42")
    return ended, watch


async def _neighbour(pool: ChildPool) -> None:
    async with pool.borrowed() as child:
        for n in range(5):
            assert str(n * 1_000).encode() in await answer(child, f"SELECT {n} * 1_000")


def test_the_grace_of_a_child_is_within_the_promise() -> None:
    assert Limits().grace_s < 2.0


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_statement_is_stopped(pool: ChildPool, loop: asyncio.Runner, name: str) -> None:
    ended, _ = loop.run(attack(pool, SLOW[name], timeout_s=0.5))
    assert isinstance(ended, InvalidQuery)
    assert "longer than" in ended.message


@pytest.mark.parametrize("name", LARGE)
def test_a_large_statement_is_stopped_and_stays_bounded(
    pool: ChildPool, loop: asyncio.Runner, name: str
) -> None:
    ended, watch = loop.run(attack(pool, LARGE[name]))
    assert isinstance(ended, InvalidQuery)
    assert watch.resident < RESIDENT_MB * MIB


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_statement_is_answered_or_refused(
    pool: ChildPool, loop: asyncio.Runner, name: str
) -> None:
    ended, watch = loop.run(attack(pool, DEEP[name]))
    assert ended is None or isinstance(ended, InvalidQuery)
    assert watch.resident < RESIDENT_MB * MIB


@pytest.mark.parametrize("name", SPILLING)
def test_what_spills_is_stopped_and_stays_bounded(
    pool: ChildPool, loop: asyncio.Runner, name: str
) -> None:
    ended, watch = loop.run(attack(pool, SPILLING[name]))
    assert isinstance(ended, InvalidQuery)
    assert watch.spilled <= LIMITS.spill_mb * MIB
    assert watch.resident < RESIDENT_MB * MIB


def test_the_disk_is_used_up_to_its_limit_and_emptied(tmp_path: Path) -> None:
    """With all the time that it takes."""

    async def scenario() -> Watch:
        limits = msgspec.structs.replace(LIMITS, timeout_s=240.0)
        pool = ChildPool(1, limits, readable=[], scratch=tmp_path)
        await pool.start()
        watch = Watch()
        try:
            async with pool.borrowed() as child:
                watching = asyncio.create_task(watch.follow(child))
                await child.check(SPILLING["many relations"])
                with pytest.raises(InvalidQuery, match="on disk"):
                    await child.run(Run(relations=[], timeout_s=limits.timeout_s), lambda _: None)
                watching.cancel()
                assert b"42" in await answer(child, "SELECT 42")
                assert _size(child.scratch) == 0
        finally:
            await pool.close()
        return watch

    watch = asyncio.run(scenario())
    assert 0 < watch.spilled <= LIMITS.spill_mb * MIB
    assert list(tmp_path.iterdir()) == []


def test_an_endless_result_is_stopped(pool: ChildPool, loop: asyncio.Runner) -> None:
    async def scenario() -> int:
        sizes: list[int] = []
        async with pool.borrowed() as child:
            await child.check("SELECT * FROM range(1_000_000_000_000) r(i)")
            run = Run(relations=[], format="csv", limit=None, timeout_s=LIMITS.timeout_s)
            with pytest.raises(InvalidQuery), _in_time():
                await child.run(run, lambda chunk: sizes.append(len(chunk)))
        return sum(sizes)

    assert loop.run(scenario()) > 0


def test_leaving_in_the_middle_kills_the_child(pool: ChildPool, loop: asyncio.Runner) -> None:
    async def scenario() -> psutil.Process:
        async with pool.borrowed() as child:
            process = psutil.Process(child.pid)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await answer(child, SLOW["deaf function"])
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.to_thread(process.wait)
        return process

    assert not loop.run(scenario()).is_running()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryService]:
    """Two at once, as by default, and a statement may take longer than anybody waits."""
    config = "[query]\nmemory_mb = 256\nthreads = 1\ntimeout_seconds = 120\n"
    with query_service(tmp_path_factory.mktemp("home"), config) as running:
        yield running


@pytest.mark.parametrize(
    "name", ["deaf function", pytest.param("endless range", marks=pytest.mark.long)]
)
def test_slow_queries_of_other_users_keep_nobody_from_a_short_one(
    service: QueryService, eventually: Callable[..., None], name: str
) -> None:
    users = QueryUsers(service.home)
    tokens = [users.add(f"greedy{n}-{name.split()[0]}") for n in range(2)]
    asking = [
        threading.Thread(target=_ask_until_stopped, args=(service, token, SLOW[name]))
        for token in tokens
        for _ in range(8)
    ]
    for thread in asking:
        thread.start()
    try:
        for token in tokens:
            eventually(lambda of=token: len(_running(service, of)) >= 7, "they are under way")
        with service.client() as owner:
            for n in range(4):
                began = time.monotonic()
                answer = owner.post("/v1/query", json={"sql": f"select {n}"})
                assert (answer.status_code, answer.json().get("rows")) == (200, [[n]])
                assert time.monotonic() - began < SHORT_S
        assert all(_running(service, token) for token in tokens), "they are still under way"
    finally:
        for token in tokens:
            _stop_all(service, token)
        for thread in asking:
            thread.join(60)


def _ask_until_stopped(service: QueryService, token: str, sql: str) -> None:
    """Whoever is told to come back does so at once."""
    with service.client(token=token) as client:
        while client.post("/v1/query", json={"sql": sql}).status_code == 429:
            pass


def _running(service: QueryService, token: str) -> list[str]:
    with service.client(token=token) as client:
        return [each["query_id"] for each in client.get("/v1/query").json()["queries"]]


def _stop_all(service: QueryService, token: str) -> None:
    with service.client(token=token) as client:
        while waiting := _running(service, token):
            for query_id in waiting:
                client.delete(f"/v1/query/{query_id}")
