"""A fold of many holders: what one block costs, what a reader pays, what merging does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.subject import Subject

HOLDERS = 10_000_000
# One large part for the past, and small ones as they lie at the tip.
TIP_PARTS, TIP_ROWS = 60, 400
TRANSFERS = 150
_FIRST = 1_048_576
_AIM_S = 1.0
# As Spark keeps beside its columns how a fold's are merged.
_OF_SPARK = "org.apache.spark.sql.parquet.row.metadata"


@measurement("fold", f"{HOLDERS:,} holders: one block of {TRANSFERS} transfers, and one balance")
def fold(bench: Bench) -> Iterator[Result]:
    parts, block = bench.workspace / "parts", bench.workspace / "block"
    holder, at_the_tip = _write_parts(parts)
    last = _FIRST + TIP_PARTS
    _write_transfers(block, last)
    log, scratch = bench.workspace / "fold.log", str(bench.workspace / "scratch")
    output = str(bench.workspace / "output")
    with Subject("fold", sys.executable, "bench.subjects.fold", scratch, log=log) as subject:

        def asked(work: str, rows: int, **request: Any) -> dict[str, Any]:
            done = subject.run(work=work, output=output, **request)
            if done["rows"] != rows:
                raise BenchError(f"fold: {work} gave {done['rows']} rows, and {rows} are right")
            return done

        taken = interleaved(
            {
                "block": lambda: asked("block", 2 * TRANSFERS, folder=str(block), block=last),
                "read": lambda: asked("read", 1, folder=str(parts), holder=holder),
                "merge": lambda: asked(
                    "merge", at_the_tip, folder=str(parts), first=_FIRST, last=last - 1
                ),
            },
            bench.runs,
        )
    walls = {name: [run["wall_s"] for run in runs] for name, runs in taken.items()}
    note = f"{spread(walls['block'])}, until its partial results are sealed"
    goal = Goal(_AIM_S, "wall")
    yield Result("fold.block", median(walls["block"]), "s", goal=goal, note=note)
    note = f"{spread(walls['read'])}, of {TIP_PARTS + 1} parts, by one token and holder"
    yield Result("fold.read", median(walls["read"]), "s", note=note)
    note = f"{spread(walls['merge'])}, {TIP_PARTS} parts of {TIP_ROWS} rows to one"
    yield Result("fold.merge", median(walls["merge"]), "s", note=note)


def _write_parts(folder: Path) -> tuple[str, int]:
    """What a fold has committed: one holder that all parts know, and how many the small ones do."""
    folder.mkdir()
    random = np.random.default_rng(3)
    _write_part(folder, 0, _FIRST - 1, _words(np.arange(HOLDERS)), random)
    known = {0}
    for n in range(TIP_PARTS):
        own = random.choice(np.arange(1, HOLDERS), TIP_ROWS - 1, replace=False)
        known.update(own.tolist())
        words = _words(np.sort(np.append(own, 0)))
        _write_part(folder, _FIRST + n, _FIRST + n, words, random)
    return _words(np.arange(1))[0].as_py().hex(), len(known)


def _write_part(
    folder: Path, start: int, end: int, holders: pa.Array, random: np.random.Generator
) -> None:
    rows = len(holders)
    amounts = random.integers(-(10**18), 10**18, rows)
    table = pa.table(
        {
            "token": pa.array([bytes(20)]).take(pa.array(np.zeros(rows, np.int64))),
            "holder": holders,
            "balance": pa.array(amounts).cast(pa.string()),
            "transfers": np.ones(rows, np.int64),
            "last_block": np.full(rows, end),
        }
    )
    merges = {"balance": "sum_exact", "transfers": "count", "last_block": "max"}
    told = json.dumps({"type": "struct", "fields": [_field(each, merges) for each in table.schema]})
    table = table.replace_schema_metadata({_OF_SPARK: told})
    pq.write_table(table, folder / f"balances_{start}_{end}.parquet", compression="zstd")


def _field(field: pa.Field, merges: dict[str, str]) -> dict[str, Any]:
    kinds = {"binary": "binary", "string": "string", "int64": "long"}
    merge = {"trace.merge": merges[field.name]} if field.name in merges else {}
    named = {"name": field.name, "type": kinds[str(field.type)]}
    return named | {"nullable": True, "metadata": merge}


def _write_transfers(folder: Path, block: int) -> None:
    """Of holders that are all different."""
    folder.mkdir()
    words = _words(np.arange(2 * TRANSFERS))
    rows = {
        "block_number": np.full(TRANSFERS, block),
        "log_index": np.arange(TRANSFERS),
        "token": [bytes(20)] * TRANSFERS,
        "sender": words[:TRANSFERS],
        "receiver": words[TRANSFERS:],
        "value": [str(2**200 + n) for n in range(TRANSFERS)],
    }
    pq.write_table(pa.table(rows), folder / f"transfers_{block}_{block}.parquet")


def _words(numbers: np.ndarray) -> pa.Array:
    """Addresses that are not in the order of the numbers."""
    raw = np.zeros((len(numbers), 20), np.uint8)
    spread_out = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    raw[:, :8] = spread_out.astype(">u8").view(np.uint8).reshape(-1, 8)
    buffer = pa.py_buffer(np.ascontiguousarray(raw))
    return pa.Array.from_buffers(pa.binary(20), len(numbers), [None, buffer]).cast(pa.binary())
