"""The query service next to plain DuckDB on the same files: the queries of TPC-H, what a small one
costs at least, rows out, and many users at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import duckdb
import httpx
import pyarrow as pa

from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.query_instance import client_of, instance_with, user_tokens
from bench.query_sides import (
    Others,
    asked,
    fetched,
    paged,
    plain_duckdb,
    timed,
    write_transactions,
    written,
)
from tests.support.query_service import query_service
from tests.support.tpch import QUERIES, tpch_files

SERVICE, PLAIN, KEPT = "service", "plain DuckDB", "kept DuckDB"
SCALE, PARTS = 1, 4
# Below this a query is mostly what every query costs, which is measured by itself.
LARGE_S = 0.1
SMALL_ROWS, SMALL_SAMPLES = 10_000, 200
# Longer than a child takes to open its next database.
REST_S = 0.05
ROWS_OUT = 300_000
USERS = 16
USERS_S = float(os.environ.get("BENCH_USERS_S", "60"))

SMALL = {
    "no_data": "SELECT 1 AS one",
    "aggregate": "SELECT count(*) AS n, sum(gas_used) AS gas FROM transactions",
}
# Seven of ten are small.
MIX = (
    *[SMALL["aggregate"]] * 3,
    *["SELECT * FROM transactions WHERE block_number = 77 ORDER BY transaction_index"] * 2,
    *["SELECT n_name, r_name FROM nation JOIN region ON r_regionkey = n_regionkey ORDER BY 1"] * 2,
    *[QUERIES[query] for query in ("q06", "q12", "q14")],
)


@measurement("query_tpch", f"the queries of TPC-H at scale {SCALE}, and plain DuckDB")
def query_tpch(bench: Bench) -> Iterator[Result]:
    tables = tpch_files(bench.workspace / "tpch", SCALE, PARTS)
    with (
        query_service(bench.workspace / "home") as service,
        service.client() as client,
        Others() as others,
    ):
        for table, files in tables.items():
            service.publish(table, files)
        taken = {q: _compared(client, tables, q, bench.runs) for q in QUERIES}
    large = {query: walls for query, walls in taken.items() if walls[PLAIN] >= LARGE_S}
    if not large:
        raise BenchError(f"no query takes {LARGE_S * 1e3:g} ms: choose a larger scale")
    ratios = {query: walls[SERVICE] / walls[PLAIN] for query, walls in large.items()}
    slowest = max(ratios, key=ratios.__getitem__)
    note = f"{len(large)} queries of {LARGE_S * 1e3:g} ms or more"
    note += f", the largest ratio is that of {slowest}: {ratios[slowest]:.2f}x"
    yield _total("query_tpch.large", large, PLAIN, note, Goal(1.15, "wall", of_peer=PLAIN))
    yield _total("query_tpch.all", taken, PLAIN, f"medians of 22 queries added up; {others.note}")
    yield _total("query_tpch.kept", taken, KEPT, "the same next to a connection of many queries")


@measurement("query_fixed_cost", "what a small query costs more than in DuckDB, in an instance")
def query_fixed_cost(bench: Bench) -> Iterator[Result]:
    folder = bench.workspace / "transactions"
    tables = {"transactions": write_transactions(folder, SMALL_ROWS)}
    with (
        instance_with(bench.workspace / "home", {"transactions": folder}) as home,
        client_of(home) as client,
        plain_duckdb(tables) as plain,
        Others() as others,
    ):
        taken = {name: _small(client, plain, sql) for name, sql in SMALL.items()}
        in_a_row = {name: _small(client, plain, sql, rest_s=0.0) for name, sql in SMALL.items()}
    for name, walls in taken.items():
        ours_ms, theirs_ms = ([wall * 1e3 for wall in walls[side]] for side in (SERVICE, PLAIN))
        note = (
            f"p50 {median(ours_ms):.1f} ms, p99 {_quantile(ours_ms, 0.99):.1f} ms, without a pause"
        )
        note += f" p50 {median(in_a_row[name][SERVICE]) * 1e3:.1f} ms, {PLAIN} p50"
        yield Result(
            *(f"query_fixed_cost.{name}", median(ours_ms) - median(theirs_ms), "ms"),
            goal=Goal(15, "p50 above DuckDB's"),
            note=f"{note} {median(theirs_ms):.2f} ms; {SMALL_SAMPLES} each, {others.note}",
        )


@measurement("query_arrow_out", f"{ROWS_OUT:,} rows of 8 columns out as Arrow, and as JSON")
def query_arrow_out(bench: Bench) -> Iterator[Result]:
    tables = {"transactions": write_transactions(bench.workspace / "rows", ROWS_OUT)}
    sql = "SELECT * FROM transactions"
    with (
        query_service(bench.workspace / "home") as service,
        service.client() as client,
        plain_duckdb(tables) as plain,
        Others() as others,
    ):
        service.publish("transactions", tables["transactions"])
        sides = {
            SERVICE: timed(lambda: asked(client, sql)),
            PLAIN: timed(lambda: written(plain, sql)),
            "json": timed(lambda: paged(client, sql, ROWS_OUT)),
        }
        taken = interleaved(sides, bench.runs)
    rates = {side: [ROWS_OUT / wall for wall in walls] for side, walls in taken.items()}
    note = f"{spread(rates[SERVICE])} until the client has read all, {PLAIN} to Arrow and zstd"
    yield Result(
        *("query_arrow_out.rows", median(rates[SERVICE]), "rows/s", PLAIN, median(rates[PLAIN])),
        note=f"{note} in memory {spread(rates[PLAIN])}; {others.note}",
    )
    note = f"{spread(rates['json'])}, in pages, not parsed"
    yield Result("query_arrow_out.json", median(rates["json"]), "rows/s", note=note)


@measurement("query_users", f"{USERS} users at once for {USERS_S:g} s, in an instance")
def query_users(bench: Bench) -> Iterator[Result]:
    tables = tpch_files(bench.workspace / "tpch", SCALE, PARTS)
    folders = {table: files[0].parent for table, files in tables.items()}
    folders["transactions"] = bench.workspace / "transactions"
    write_transactions(folders["transactions"], SMALL_ROWS)
    with instance_with(bench.workspace / "home", folders) as home:
        tokens = user_tokens(home, USERS)
        with Others() as others, ThreadPoolExecutor(USERS) as pool:
            users = [User(client_of(home, token), seed) for seed, token in enumerate(tokens)]
            list(pool.map(User.ask_on, users))
    walls = [wall * 1e3 for user in users for wall in user.walls]
    refused = sum(user.refused for user in users)
    note = f"{len(walls):,} answers, {refused} times 429; {others.note}"
    yield Result("query_users.rate", len(walls) / USERS_S, "queries/s", note=note)
    yield Result("query_users.p50", median(walls), "ms")
    yield Result("query_users.p99", _quantile(walls, 0.99), "ms")


class User:
    """Asks one query after the other, and comes back when told to."""

    def __init__(self, client: httpx.Client, seed: int) -> None:
        self._client, self._random = client, Random(seed)
        self.walls: list[float] = []
        self.refused = 0

    def ask_on(self) -> None:
        ends = time.monotonic() + USERS_S
        with self._client:
            while time.monotonic() < ends:
                self._ask(self._random.choice(MIX))

    def _ask(self, sql: str) -> None:
        began = time.perf_counter()
        answer = self._client.post("/v1/query", json={"sql": sql, "format": "arrow"})
        if answer.status_code == 200:
            self.walls.append(time.perf_counter() - began)
        elif answer.status_code == 429:
            self.refused += 1
            time.sleep(float(answer.headers["Retry-After"]))
        else:
            raise BenchError(f"the service answered {answer.status_code}: {answer.text[:200]}")


def _small(
    client: httpx.Client, plain: duckdb.DuckDBPyConnection, sql: str, rest_s: float = REST_S
) -> dict[str, list[float]]:
    """Before each question the pool has time to be warm again: databases are opened."""

    def rested(ask: Callable[[], float]) -> Callable[[], float]:
        def sample() -> float:
            time.sleep(rest_s)
            return ask()

        return sample

    sides = {
        SERVICE: rested(timed(lambda: asked(client, sql))),
        PLAIN: rested(timed(lambda: fetched(plain, sql))),
    }
    return interleaved(sides, SMALL_SAMPLES, warm_ups=20)


def _compared(
    client: httpx.Client, tables: Mapping[str, Sequence[Path]], query: str, runs: int
) -> dict[str, float]:
    """Seconds of each side, in turns."""
    sql = QUERIES[query]

    def fresh() -> float:
        """As in a script: the connection is made for it, which does not count."""
        with plain_duckdb(tables) as made:
            return timed(lambda: fetched(made, sql))()

    with plain_duckdb(tables) as kept:
        if _values(asked(client, sql)) != _values(fetched(kept, sql)):
            raise BenchError(f"the answers to {query} differ")
        sides = {
            SERVICE: timed(lambda: asked(client, sql)),
            PLAIN: fresh,
            KEPT: timed(lambda: fetched(kept, sql)),
        }
        taken = interleaved(sides, runs)
    return {side: median(walls) for side, walls in taken.items()}


def _values(table: pa.Table) -> list[dict[str, str]]:
    """As text: what Arrow has no number for comes as text from the service."""
    return [{name: str(value) for name, value in row.items()} for row in table.to_pylist()]


def _total(
    name: str,
    taken: Mapping[str, Mapping[str, float]],
    peer: str,
    note: str,
    goal: Goal | None = None,
) -> Result:
    ours, theirs = (sum(walls[side] for walls in taken.values()) for side in (SERVICE, peer))
    return Result(name, ours, "s", peer, theirs, goal, note)


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
