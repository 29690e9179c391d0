"""`log_decode`: ERC-20 transfers from cold logs until the outputs are sealed, next to eth_abi."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.peers import Peer, PeerUnavailable, python_of
from bench.subject import Subject
from trace_platform.domain.evm_encoding import keccak256
from trace_platform.operators.evm.schema import LOGS

TRANSFERS, FILES = 2_000_000, 4
# A file ends with a block, as those of cryo_ingest do.
LOGS_PER_BLOCK = 125
# It decodes one log after the other: of more of them its rate would be the same.
ETH_ABI_TRANSFERS = 20_000
ETH_ABI = Peer("eth-abi", ("eth-abi==6.0.0", "pyarrow"), "eth_abi")
_AIM = 500_000
_TOPIC = keccak256(b"Transfer(address,address,uint256)")


@measurement("log_decode", f"{TRANSFERS:,} cold ERC-20 transfers decoded and sealed, and eth_abi")
def log_decode(bench: Bench) -> Iterator[Result]:
    folder = bench.workspace / "logs"
    blocks = write_logs(folder, TRANSFERS, FILES)
    taken, why = _runs(bench, folder, blocks)
    ours = [TRANSFERS / run["wall_s"] for run in taken["log_decode"]]
    theirs = [ETH_ABI_TRANSFERS / run["wall_s"] for run in taken.get("eth_abi_decode", [])]
    peer = f"{ETH_ABI.name} {spread(theirs)}, decoding alone" if theirs else why
    yield Result(
        *("log_decode.rows", median(ours), "rows/s"),
        *(ETH_ABI.name, median(theirs) if theirs else None),
        Goal(_AIM, "decode and seal", at_most=False),
        note=f"{spread(ours)}, {peer}",
    )
    cpu = [TRANSFERS / run["cpu_s"] for run in taken["log_decode"]]
    yield Result("log_decode.cpu", median(cpu), "rows/CPU s", note=spread(cpu))


def _runs(bench: Bench, folder: Path, blocks: int) -> tuple[dict[str, list[dict[str, Any]]], str]:
    with ExitStack() as stack:

        def side(module: str, python: str | Path, **request: Any) -> Callable[[], dict[str, Any]]:
            log = bench.workspace / f"{module}.log"
            args = [str(bench.workspace / module)] if module == "log_decode" else []
            name = f"bench.subjects.{module}"
            subject = stack.enter_context(Subject(module, python, name, *args, log=log))

            def sample() -> dict[str, Any]:
                done = subject.run(folder=str(folder), **request)
                if done["rows"] != request["rows"]:
                    raise BenchError(f"{module} decoded {done['rows']} of {request['rows']} logs")
                return done

            return sample

        output = str(bench.workspace / "output")
        ours = side("log_decode", sys.executable, rows=TRANSFERS, end=blocks - 1, output=output)
        samplers, why = {"log_decode": ours}, ""
        try:
            theirs = side("eth_abi_decode", python_of(ETH_ABI), rows=ETH_ABI_TRANSFERS)
            samplers["eth_abi_decode"] = theirs
        except PeerUnavailable as error:
            why = str(error)
        return interleaved(samplers, bench.runs), why


def write_logs(folder: Path, transfers: int, files: int) -> int:
    """As cryo_ingest writes them. How many blocks."""
    folder.mkdir()
    random = np.random.default_rng(5)
    words = [bytes(12) + random.bytes(20) for _ in range(10_000)]
    per_file = transfers // files
    for n in range(files):
        rows = np.arange(n * per_file, (n + 1) * per_file)
        name = f"logs_{rows[0] // LOGS_PER_BLOCK}_{rows[-1] // LOGS_PER_BLOCK}.parquet"
        table = _logs(random, pa.array(words), rows)
        pq.write_table(table, folder / name, compression="zstd", compression_level=1)
    return -(-transfers // LOGS_PER_BLOCK)


def _logs(random: np.random.Generator, words: pa.Array, rows: np.ndarray) -> pa.Table:
    block, place = rows // LOGS_PER_BLOCK, rows % LOGS_PER_BLOCK
    people = [words.take(pa.array(random.integers(0, len(words), len(rows)))) for _ in range(2)]
    amounts = np.zeros((len(rows), 32), np.uint8)
    amounts[:, 20:] = random.integers(0, 256, (len(rows), 12))
    # One in a hundred is as large as a number can be.
    amounts[::100] = 255
    hashes = _bytes(random.integers(0, 256, (len(rows), 32), np.uint8))
    columns: dict[str, Any] = {
        "block_number": block,
        "transaction_index": place // 2,
        "log_index": place,
        "transaction_hash": hashes.take(pa.array(np.arange(len(rows)) // 2)),
        "address": pc.binary_slice(people[0], 12, 32),
        "topic0": pa.array([_TOPIC]).take(pa.array(np.zeros(len(rows), np.int64))),
        "topic1": people[0],
        "topic2": people[1],
        "topic3": pa.nulls(len(rows), pa.binary()),
        "data": _bytes(amounts),
        "chain_id": np.ones(len(rows), np.int64),
        "block_hash": hashes.take(pa.array(block - block[0])),
        "parent_hash": hashes.take(pa.array(block - block[0])),
        "timestamp": block * 12,
    }
    return pa.table(columns, schema=LOGS)


def _bytes(rows: np.ndarray) -> pa.Array:
    width, data = rows.shape[1], pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(pa.binary(width), len(rows), [None, data]).cast(pa.binary())
