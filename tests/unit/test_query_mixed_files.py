"""A dataset whose columns grew is one table: what older files lack is NULL there."""

from __future__ import annotations

from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_platform.domain.errors import InvalidQuery
from trace_platform.query.engine import Engine
from trace_platform.query.gate import Statement, check
from trace_platform.query.messages import Column, Limits, Relation, Run

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
