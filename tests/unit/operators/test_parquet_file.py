from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_platform.domain.errors import DiskFull
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.io import parquet_file
from trace_platform.operators.io.parquet_file import ParquetFile, WrittenFile

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("data", pa.binary())])
PREFIX = "s3://data/out/"


def _batch(start: int, n: int) -> pa.RecordBatch:
    columns = [pa.array(range(start, start + n), pa.int64()), pa.array([os.urandom(64)] * n)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _open(root: Path) -> ParquetFile:
    return ParquetFile(LocalStore(str(root)), PREFIX, "x.parquet", SCHEMA, frozenset({"data"}))


def _write(root: Path, batches: list[Any]) -> WrittenFile:
    with _open(root) as file:
        for batch in batches:
            file.write(batch)
        return file.close()


def test_the_facts_are_those_of_the_file(tmp_path: Path) -> None:
    facts = _write(tmp_path, [_batch(0, 10), _batch(10, 5)])
    body = (tmp_path / "data/out/x.parquet").read_bytes()
    assert facts.name == "x.parquet"
    assert facts.bytes == len(body)
    assert facts.sha256 == hashlib.sha256(body).hexdigest()
    assert facts.rows == 15
    assert pq.read_table(tmp_path / "data/out/x.parquet")["n"].to_pylist() == list(range(15))


def test_rows_that_are_not_a_number_are_found(tmp_path: Path) -> None:
    """Statistics without them would have readers skip them."""
    schema = pa.schema([("n", pa.int64()), ("d", pa.float64()), ("f", pa.float32())])
    rows = pa.table({"n": [1, 2], "d": [1.0, math.nan], "f": [1.0, math.nan]}, schema)
    with ParquetFile(LocalStore(str(tmp_path)), PREFIX, "x.parquet", schema, frozenset()) as file:
        for batch in rows.to_batches():
            file.write(batch)
        file.close()
    path = str(tmp_path / "data/out/x.parquet")
    with duckdb.connect() as connection:
        for condition in ("isnan(d)", "d > 5", "NOT d <= 1", "isnan(f)", "f > 2"):
            query = f"SELECT n FROM read_parquet(?) WHERE {condition}"
            assert connection.execute(query, [path]).fetchall() == [(2,)], condition
    statistics = pq.read_metadata(path).row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (1, 2), "others can still be skipped"


def test_a_file_without_rows_still_has_its_columns(tmp_path: Path) -> None:
    facts = _write(tmp_path, [])
    assert facts.rows == 0
    assert pq.read_table(tmp_path / "data/out/x.parquet").schema.equals(SCHEMA)


def test_rows_are_written_in_groups_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_file, "_GROUP_ROWS", 100)
    _write(tmp_path, [_batch(start, 50) for start in range(0, 500, 50)])
    assert pq.ParquetFile(tmp_path / "data/out/x.parquet").metadata.num_row_groups == 5


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "data/out/x.parquet"
    target.parent.mkdir(parents=True)
    target.symlink_to("/dev/full")
    with pytest.raises(DiskFull, match=r"no space left to write x\.parquet"):
        _write(tmp_path, [_batch(start, 1000) for start in range(0, 10_000, 1000)])
    assert list(target.parent.iterdir()) == []


def test_any_failure_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        _write(tmp_path, [_batch(0, 10), "no batch"])
    assert list((tmp_path / "data/out").iterdir()) == []
