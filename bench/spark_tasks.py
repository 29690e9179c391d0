"""Spark tasks next to the same bare Spark jobs: what reading, staging and sealing by the contract
cost, and what the engine adds; and compaction next to a bare rewrite."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.subject import Subject

SMALL, LARGE = 10_000, 20_000_000
LOGS_PER_BLOCK = 10
# Of a small job: one alone is over too soon to be told from the machine's noise.
SMALL_REPEAT = 20
TRANSFORMED = 2_000_000
STATEMENT = """
select block_number, log_index, to_0x(address) as token, amount * 2 as twice,
       conv(hex(substring(data, 25)), 16, 10) as low
  from logs where amount > 0.2
"""
SMALL_FILES, COMPACTED = 100, 2_000_000
_STEP = 1_000_000
BARE = "bare Spark"


@measurement("spark_task", f"{SMALL:,} rows: read, transform, write as a task, and bare")
def spark_task(bench: Bench) -> Iterator[Result]:
    folder = bench.workspace / "logs"
    blocks = _write_logs(folder, SMALL, files=1)
    sides = ("spark_task", "spark_task_orchestrated")
    yield from _compare(bench, "spark_task", sides, [folder], blocks, SMALL_REPEAT, 1.5)


@measurement("spark_task_large", f"{LARGE:,} rows: read, transform, write as a task, and bare")
def spark_task_large(bench: Bench) -> Iterator[Result]:
    folder = bench.workspace / "logs"
    blocks = _write_logs(folder, LARGE, files=4)
    sides = ("spark_task", "spark_task_orchestrated")
    yield from _compare(bench, "spark_task_large", sides, [folder], blocks, 1, 1.05)


@measurement("parquet_compact", f"{SMALL_FILES} files of {COMPACTED:,} logs to one, and bare")
def parquet_compact(bench: Bench) -> Iterator[Result]:
    logs, headers = bench.workspace / "logs", bench.workspace / "blocks"
    blocks = _write_logs(logs, COMPACTED, files=SMALL_FILES)
    _write_blocks(headers, blocks, files=SMALL_FILES)
    walls = _walls(bench, ("spark_task",), [headers, logs], blocks, 1, compact=True)
    rows = COMPACTED + blocks
    ours, bare = ([rows / wall for wall in walls[side]] for side in ("spark_task", BARE))
    yield Result(
        *("parquet_compact.rows", median(ours), "rows/s", BARE, median(bare)),
        note=f"{spread(ours)}, {BARE} {spread(bare)}; blocks are checked to be whole as well",
    )


@measurement("sql_transform", f"{TRANSFORMED:,} logs through one statement, and bare")
def sql_transform(bench: Bench) -> Iterator[Result]:
    folder = bench.workspace / "logs"
    blocks = _write_logs(folder, TRANSFORMED, files=4)
    walls = _walls(bench, ("spark_task",), [folder], blocks, 1, compact=False, sql=STATEMENT)
    ours, bare = walls["spark_task"], walls[BARE]
    yield Result(
        *("sql_transform.wall", median(ours), "s", BARE, median(bare)),
        goal=Goal(1.05, "wall", of_peer=BARE),
        note=f"{spread(ours)}, {BARE} {spread(bare)}; the same statement over the same files",
    )


def _compare(
    bench: Bench,
    name: str,
    sides: Sequence[str],
    folders: Sequence[Path],
    blocks: int,
    repeat: int,
    at_most: float,
) -> Iterator[Result]:
    walls = _walls(bench, sides, folders, blocks, repeat, compact=False)
    bare = walls[BARE]
    for side, figure in zip(sides, ("wall", "orchestrated"), strict=True):
        yield Result(
            *(f"{name}.{figure}", median(walls[side]), "s", BARE, median(bare)),
            goal=Goal(at_most, "wall", of_peer=BARE),
            note=f"{spread(walls[side])}, {BARE} {spread(bare)}",
        )


def _walls(
    bench: Bench,
    sides: Sequence[str],
    folders: Sequence[Path],
    blocks: int,
    repeat: int,
    *,
    compact: bool,
    sql: str | None = None,
) -> dict[str, list[float]]:
    output = bench.workspace / "output"

    def side(module: str) -> Callable[[], float]:
        scratch, log = bench.workspace / module, bench.workspace / f"{module}.log"
        name = f"bench.subjects.{module}"
        subject = stack.enter_context(Subject(module, sys.executable, name, str(scratch), log=log))

        def sample() -> float:
            output.mkdir()
            done = subject.run(
                folders=[str(folder) for folder in folders],
                output=str(output),
                end=blocks - 1,
                repeat=repeat,
                compact=compact,
                sql=sql,
            )
            written.setdefault(module, _rows(output))
            shutil.rmtree(output)
            return float(done["wall_s"])

        return sample

    written: dict[str, int] = {}
    with ExitStack() as stack:
        # One after the other in turns: never two at once on the same cores.
        samplers = {BARE: side("spark_bare"), **{each: side(each) for each in sides}}
        taken = interleaved(samplers, bench.runs)
    # A whole instance writes where only it looks.
    here = {rows for rows in written.values() if rows}
    if len(here) != 1:
        raise BenchError(f"row counts differ: {written}")
    return taken


def _rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))


def _write_logs(folder: Path, rows: int, files: int) -> int:
    """Sorted by block, as committed files are. How many blocks."""
    folder.mkdir()
    random = np.random.default_rng(5)
    addresses = [random.bytes(20) for _ in range(10_000)]
    per_file = rows // files
    for n in range(files):
        first, last = n * per_file, (n + 1) * per_file - 1
        name = f"logs_{first // LOGS_PER_BLOCK}_{last // LOGS_PER_BLOCK}.parquet"
        with pq.ParquetWriter(folder / name, _LOGS, compression="zstd", compression_level=1) as out:
            for start in range(first, last + 1, _STEP):
                out.write_table(_logs(random, addresses, start, min(_STEP, last + 1 - start)))
    return rows // LOGS_PER_BLOCK


_LOGS = pa.schema(
    {
        "block_number": pa.int64(),
        "log_index": pa.int64(),
        "address": pa.binary(),
        "data": pa.binary(),
        "amount": pa.float64(),
    }
)


def _logs(random: np.random.Generator, addresses: list[bytes], start: int, n: int) -> pa.Table:
    numbers = np.arange(start, start + n)
    chosen = pa.array(addresses).take(pa.array(random.integers(0, len(addresses), n)))
    data = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(32), n, [None, pa.py_buffer(random.bytes(32 * n))]
    )
    return pa.Table.from_arrays(
        [
            pa.array(numbers // LOGS_PER_BLOCK),
            pa.array(numbers % LOGS_PER_BLOCK),
            chosen,
            data.cast(pa.binary()),
            pa.array(random.random(n)),
        ],
        schema=_LOGS,
    )


def _write_blocks(folder: Path, blocks: int, files: int) -> None:
    folder.mkdir()
    per_file = blocks // files
    for first in range(0, blocks, per_file):
        last = first + per_file - 1
        table = pa.table(
            {
                "block_number": range(first, last + 1),
                "block_hash": [_hash(number) for number in range(first, last + 1)],
                "parent_hash": [_hash(number - 1) for number in range(first, last + 1)],
            }
        )
        pq.write_table(table, folder / f"blocks_{first}_{last}.parquet", compression="zstd")


def _hash(number: int) -> bytes:
    return (number + 1).to_bytes(32, "big")
