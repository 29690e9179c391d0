"""Buckets of blocks over many rows: what a small change costs, next to making all of them anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.subject import Subject

ROWS = 100_000_000
# As many as a partition of a bootstrap has.
FILE_ROWS = 1_000_000
ROWS_PER_BLOCK = 10
# A day of Ethereum.
BUCKET = 7_200
CHANGED = 1_000
TOKENS = 50
_PEER = "all of them"


@measurement("window", f"{ROWS:,} rows (--size) in buckets, of which {CHANGED:,} change")
def window(bench: Bench) -> Iterator[Result]:
    rows = -(-(bench.size or ROWS) // FILE_ROWS) * FILE_ROWS
    folder = bench.workspace / "logs"
    _write_logs(folder, rows)
    blocks = rows // ROWS_PER_BLOCK
    buckets = -(-blocks // BUCKET)
    # They lie in one bucket, as most changes do.
    middle = buckets // 2 * BUCKET
    log, scratch = bench.workspace / "window.log", str(bench.workspace / "scratch")
    output = str(bench.workspace / "output")
    with Subject("window", sys.executable, "bench.subjects.window", scratch, log=log) as subject:

        def made(start: int, end: int, buckets: int) -> float:
            done = subject.run(folder=str(folder), output=output, start=start, end=end)
            if done["rows"] != buckets * TOKENS:
                raise BenchError(f"window: {done['rows']} rows, and {buckets * TOKENS} are right")
            return float(done["wall_s"])

        walls = interleaved(
            {
                "changed": lambda: made(middle, middle + BUCKET - 1, 1),
                "all": lambda: made(0, buckets * BUCKET - 1, buckets),
            },
            bench.runs,
        )
    changed, every = walls["changed"], walls["all"]
    yield Result(
        *("window.changed", median(changed), "s", _PEER, median(every)),
        goal=Goal(0.02, "wall", of_peer=_PEER),
        note=f"{spread(changed)}, {_PEER} {spread(every)} in one attempt; {rows:,} rows",
    )


def _write_logs(folder: Path, rows: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(5)
    tokens = pa.array([random.bytes(20) for _ in range(TOKENS)])
    for first in range(0, rows, FILE_ROWS):
        numbers = np.arange(first, first + FILE_ROWS)
        table = pa.table(
            {
                "block_number": numbers // ROWS_PER_BLOCK,
                "log_index": numbers % ROWS_PER_BLOCK,
                "address": tokens.take(pa.array(numbers % TOKENS)),
                "amount": random.integers(0, 2**40, FILE_ROWS),
            }
        )
        last = (first + FILE_ROWS) // ROWS_PER_BLOCK - 1
        name = f"logs_{first // ROWS_PER_BLOCK}_{last}.parquet"
        pq.write_table(table, folder / name, compression="zstd", compression_level=1)
