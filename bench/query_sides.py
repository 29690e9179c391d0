"""The two sides of a query: the service as a client with a kept connection sees it, and DuckDB in
this process; and the rows that both read."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import duckdb
import httpx
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import BenchError
from bench.process_tree import cpu_seconds, machine_cpu_seconds
from trace_platform.query.protocol.messages import Limits

PAGE_ROWS = 100_000
_PER_BLOCK = 100


def plain_duckdb(tables: Mapping[str, Sequence[Path]]) -> duckdb.DuckDBPyConnection:
    """With as many threads as a query has in the service."""
    connection = duckdb.connect(config={"threads": Limits().threads})
    for table, files in tables.items():
        connection.read_parquet([str(file) for file in files]).create_view(table)
    return connection


def fetched(plain: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """Of a few rows: DuckDB's other way to Arrow plans twice, which costs more than their copy."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Arrow output on a DB-API result")
        return plain.execute(sql).to_arrow_table()


def written(plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Fetched and encoded as the service does it."""
    batches = plain.sql(sql).to_arrow_reader()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(pa.BufferOutputStream(), batches.schema, options=options) as out:
        for batch in batches:
            out.write_batch(batch)


def asked(client: httpx.Client, sql: str) -> pa.Table:
    return pa.ipc.open_stream(_posted(client, sql, format="arrow").content).read_all()


def paged(client: httpx.Client, sql: str, rows: int) -> None:
    """All pages of JSON, read but not parsed."""
    page = _posted(client, sql, limit=rows, page_rows=PAGE_ROWS)
    while following := msgspec.json.decode(page.content, type=_Page).next:
        page = _good(client.get(following))


class _Page(msgspec.Struct):
    next: str | None


def _posted(client: httpx.Client, sql: str, **said: object) -> httpx.Response:
    return _good(client.post("/v1/query", json={"sql": sql, **said}))


def _good(answer: httpx.Response) -> httpx.Response:
    if answer.status_code != 200:
        raise BenchError(f"the service answered {answer.status_code}: {answer.text[:200]}")
    return answer


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """Seconds of the work."""

    def run() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return run


class Others:
    """How busy the machine is meanwhile with what neither we nor our processes do."""

    def __enter__(self) -> Others:
        self._began, self._before_s = time.monotonic(), _others_s()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        cores = max(0.0, _others_s() - self._before_s) / (time.monotonic() - self._began)
        self.note = f"others used {cores:.1f} of {os.cpu_count()} cores"


def _others_s() -> float:
    return machine_cpu_seconds() - cpu_seconds(os.getpid())


def write_transactions(folder: Path, rows: int) -> list[Path]:
    """One file with rows as chains have them: hashes do not compress, values are wide."""
    folder.mkdir()
    random, number = np.random.default_rng(6), np.arange(rows)
    addresses = pa.array([random.bytes(20) for _ in range(1_000)])
    table = pa.table(
        {
            "block_number": pa.array(number // _PER_BLOCK, pa.uint32()),
            "transaction_index": pa.array(number % _PER_BLOCK, pa.uint32()),
            "transaction_hash": pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(32), rows, [None, pa.py_buffer(random.bytes(32 * rows))]
            ).cast(pa.binary()),
            "from_address": addresses.take(pa.array(random.integers(0, len(addresses), rows))),
            "value": pa.array(random.integers(0, 2**62, rows)).cast(pa.decimal128(38, 0)),
            "gas_used": pa.array(random.integers(21_000, 500_000, rows), pa.uint64()),
            "fee": pa.array(random.random(rows)),
            "at": pa.array(1_700_000_000_000_000 + number * 120_000, pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(table, folder / "transactions.parquet", compression="zstd")
    return [folder / "transactions.parquet"]
