"""A dataset whose columns grew is one table: what older files lack is NULL there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from trace_platform.query.engine import Engine
from trace_platform.query.messages import Limits


def test_files_with_and_without_a_column_answer_as_one_table(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old.parquet"), str(tmp_path / "new.parquet")
    pq.write_table(pa.table({"n": [1]}), old)
    pq.write_table(pa.table({"note": ["x"], "n": [2]}), new)
    for files in ([old, new], [new, old]):
        answer = Engine(Limits()).run("SELECT n, note FROM t ORDER BY n", {"t": files}, 10)
        assert msgspec.json.decode(answer.rows) == [[1, None], [2, "x"]]
        assert [column.type for column in answer.columns] == ["BIGINT", "VARCHAR"]
