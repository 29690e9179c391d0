"""A dataset whose columns grew is one table: what older files lack is NULL there."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_platform.domain.errors import InvalidQuery
from trace_platform.query.child.engine import Engine
from trace_platform.query.protocol.messages import Limits, Relation, Run
from trace_platform.sql.gate import Statement, check
from trace_platform.sql.relations import Column

COLUMNS = [Column("n", "BIGINT"), Column("note", "VARCHAR")]


def stated(sql: str) -> Statement:
    return check(duckdb.connect(), sql)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    old, new = str(tmp_path / "old.parquet"), str(tmp_path / "new.parquet")
    pq.write_table(pa.table({"n": [1]}), old)
    pq.write_table(pa.table({"note": ["x"], "n": [2]}), new)
    return [old, new]


@pytest.mark.parametrize("columns", [COLUMNS, []], ids=["known", "unknown"])
@pytest.mark.parametrize("step", [1, -1], ids=["old-first", "new-first"])
def test_files_with_and_without_a_column_answer_as_one_table(
    files: list[str], columns: list[Column], step: int, tmp_path: Path
) -> None:
    relation = Relation(view="t", files=files[::step], mixed=True, columns=columns)
    pages: list[bytes] = []
    done = Engine(Limits(), str(tmp_path / "scratch")).run(
        stated("SELECT n, note FROM t ORDER BY n"), Run(relations=[relation]), pages.append
    )
    assert [msgspec.json.decode(page) for page in pages] == [[[1, None], [2, "x"]]]
    assert [column.type for column in done.columns] == ["BIGINT", "VARCHAR"]


MOMENTS = [
    datetime(1, 1, 1),
    datetime(1582, 10, 10),
    datetime(1830, 1, 1, 0, 0, 0, 123456),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(3000, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]


@pytest.mark.parametrize("step", [1, -1], ids=["old-first", "new-first"])
@pytest.mark.parametrize("columns", [[Column("t", "TIMESTAMP WITH TIME ZONE")], []], ids=repr)
def test_moments_of_older_and_newer_files_are_one_column(
    columns: list[Column], step: int, tmp_path: Path
) -> None:
    old, new = str(tmp_path / "old.parquet"), str(tmp_path / "new.parquet")
    times = pa.array(MOMENTS, pa.timestamp("us"))
    pq.write_table(pa.table({"t": times}), old, use_deprecated_int96_timestamps=True)
    pq.write_table(pa.table({"t": times.cast(pa.timestamp("us", "UTC"))}), new)
    relation = Relation(view="t", files=[old, new][::step], mixed=True, columns=columns)
    engine, pages = Engine(Limits(), str(tmp_path / "scratch")), []
    expected = [each.isoformat() + "+00:00" for each in MOMENTS for _ in range(2)]
    done = engine.run(stated("SELECT t FROM t ORDER BY t"), Run(relations=[relation]), pages.append)
    assert [row[0] for page in pages for row in msgspec.json.decode(page)] == expected
    assert [column.type for column in done.columns] == ["TIMESTAMP WITH TIME ZONE"]
    pages.clear()
    sql = "SELECT count(*) FROM t WHERE t >= '3000-01-01' OR t < TIMESTAMPTZ '1830-01-01 00:00:01Z'"
    engine.run(stated(sql), Run(relations=[relation]), pages.append)
    assert pages == [b"[[10]]"]


def test_files_are_only_compared_where_they_are_known_to_differ(
    files: list[str], tmp_path: Path
) -> None:
    relation = Relation(view="t", files=files, columns=COLUMNS[:1])
    engine = Engine(Limits(), str(tmp_path / "scratch"))
    pages: list[bytes] = []
    engine.run(stated("SELECT sum(n) FROM t"), Run(relations=[relation]), pages.append)
    assert pages == [b'[["3"]]']
    with pytest.raises(InvalidQuery, match='Referenced column "note" not found'):
        engine.run(stated("SELECT note FROM t"), Run(relations=[relation]), pages.append)
