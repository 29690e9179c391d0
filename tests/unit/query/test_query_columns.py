"""Columns as queries see them: what the commits say, in DuckDB's words for the same files."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.corpus import corpus
from trace_platform.query.child.engine import Engine
from trace_platform.query.child.explain import Explained
from trace_platform.query.child.scan_plan import plan
from trace_platform.query.protocol.messages import Filter, Limits, Relation, Run, Scan
from trace_platform.sql import gate
from trace_platform.sql.relations import Column
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.query_columns import query_columns

_TIMES = [
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us")),
    *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us")),
    *(pa.timestamp("us", "Europe/Berlin"), pa.date32(), pa.date64()),
]
_NESTED = [
    pa.list_(pa.int64()),
    pa.list_(pa.field("element", pa.string(), nullable=False)),
    pa.large_list(pa.decimal128(20, 2)),
    pa.list_(pa.int32(), 3),
    pa.struct([("a", pa.int64()), pa.field("of two words", pa.string(), nullable=False)]),
    pa.map_(pa.string(), pa.struct([("k", pa.binary(4)), ("l", pa.list_(pa.timestamp("us")))])),
    pa.list_(pa.map_(pa.int32(), pa.list_(pa.list_(pa.bool_())))),
    pa.struct([("one", pa.struct([("two", pa.map_(pa.string(), pa.decimal128(9, 1)))]))]),
]
TYPES = [pa.null(), pa.float16(), pa.decimal128(38, 0), pa.uint8(), *_TIMES, *_NESTED]


def named(kind: pa.DataType) -> Column | None:
    said = ManifestColumn(name="c", type=str(kind), nullable=True)
    found = query_columns([said])
    return Column(found[0].name, found[0].type) if found else None


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_type_has_the_name_that_duckdb_has_for_the_file(
    kind: pa.DataType, tmp_path: Path
) -> None:
    file, column = str(tmp_path / "c.parquet"), named(kind)
    pq.write_table(pa.table({"c": pa.array([None], kind)}), file)
    assert column is not None
    with duckdb.connect() as connection:
        read = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file]).fetchall()
        same = connection.execute(f"DESCRIBE SELECT CAST(NULL AS {column.type})").fetchall()
    assert read[0][1] == same[0][1]


def test_a_map_has_a_name_as_its_file_says_it(tmp_path: Path) -> None:
    kind, file = pa.map_(pa.int32(), pa.map_(pa.string(), pa.int64())), tmp_path / "c.parquet"
    pq.write_table(pa.table({"c": pa.array([None], kind)}), file)
    read = pq.read_schema(file).field("c").type
    assert str(read) != str(kind)
    assert named(read) == Column("c", "MAP(INTEGER, MAP(VARCHAR, BIGINT))")


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_column_of_any_type_takes_no_filter_from_a_table(
    kind: pa.DataType, tmp_path: Path
) -> None:
    column = named(kind)
    assert column is not None
    block = Column("block_number", "BIGINT")
    table = Relation(view="hot", columns=[block], hot_columns=[block])
    cold = Relation(view="cold", columns=[block, column], mixed=True)
    sql = "SELECT c FROM hot JOIN cold USING (block_number) WHERE block_number = 1600"
    with duckdb.connect() as parser:
        explained = Explained([], Limits(), 1, str(tmp_path))
        found = plan(parser, gate.check(parser, sql), [table, cold], explained)
        statement = gate.check(parser, "SELECT c FROM cold")
    wanted = Scan(columns=["block_number"], filters=[Filter("block_number", "=", [1600])])
    assert found == {"hot": wanted}
    for masked in ([], ["c"]):
        relation = Relation(view="cold", columns=cold.columns, masked=masked, mixed=True)
        done = Engine(Limits(), str(tmp_path)).run(statement, Run(relations=[relation]), bytes)
        assert done.row_count == 0


@corpus(
    "kind",
    [
        "extension<arrow.uuid>",
        "struct<a,b: x: int64>",
        'struct<a"b: int64>',
        "struct<a: b: int64>",
        "list<item: duration[us]>",
        "map<string>",
        "struct<>",
        "list<>",
        "timestamp[ns, tz=UTC]",
        # What Spark wrote as INT96 is called so too, and is no TIMESTAMP_NS.
        "timestamp[ns]",
    ],
)
def test_what_cannot_be_told_has_no_name(kind: str) -> None:
    plain = ManifestColumn(name="n", type="int64", nullable=True)
    assert query_columns([plain, ManifestColumn(name="c", type=kind, nullable=True)]) is None
    assert query_columns([]) is None
