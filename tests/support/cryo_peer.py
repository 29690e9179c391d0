"""cryo, the peer whose columns ours must equal, in a venv of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.ingest import CRYO
from bench.peers import PeerUnavailable, python_of
from trace_platform.operators.evm.schema import TABLES

# cryo's own threads live on after `freeze` and crash an interpreter that finalises under them
# (6 of 160 runs on a busy machine), so it leaves without.
_FREEZE = """
import os, sys, cryo
url, out, start, end, *tables = sys.argv[1:]
cryo.freeze(
    tables,
    blocks=[f"{start}:{end}"], rpc=url, output_dir=out, hex=False, verbose=False,
)
os._exit(0)
"""


def cryo_python() -> Path:
    try:
        return python_of(CRYO)
    except PeerUnavailable as error:
        pytest.skip(str(error))


def cryo_tables(
    url: str, start: int, end: int, out: Path, tables: Sequence[str] = tuple(TABLES)
) -> dict[str, pa.Table]:
    """What cryo writes for blocks `start` to `end`, both included."""
    _run([cryo_python(), "-c", _FREEZE, url, out, str(start), str(end + 1), *tables])
    return {
        table: pa.concat_tables(
            pq.read_table(path) for path in sorted(out.glob(f"*__{table}__*.parquet"))
        )
        for table in tables
    }


def _run(command: list[str | Path]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
