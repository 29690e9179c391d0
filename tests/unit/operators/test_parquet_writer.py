"""What Arrow writes is found by every filter, and of types that all readers know."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_platform.domain.errors import UnsupportedType
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.io.parquet_file import ParquetFile
from trace_platform.query.child.engine import open_database
from trace_platform.query.child.results import send_result
from trace_platform.query.protocol.messages import Limits, Run
from trace_platform.wire.parquet_writer import open_writer

Write = Callable[[pa.Table, Path], Path]

# Each is a file: what its statistics would be is wrong by another of its values.
FLOATS = {
    "a number and NaN": [1.0, math.nan],
    "NaN first, and a null": [math.nan, None, 1.0],
    "only NaN": [math.nan, math.nan],
    "-0.0": [-0.0, -0.0],
    "0.0": [0.0, 0.0],
    "both zeros": [0.0, -0.0],
    "infinities": [math.inf, -math.inf, 1.0],
}
NUMBERS = ("x", "f", "s.a", "l[1]")
CONDITIONS = ("> 1", ">= 1", "> 'inf'", "= 'nan'", "<> 1", "= 0", "<= 0", ">= 0", "IN (0, 'nan')")
FOUND = [
    *(f"SELECT k FROM rows WHERE {n} {each} ORDER BY k" for n in NUMBERS for each in CONDITIONS),
    *(f"SELECT k FROM rows WHERE isnan({n}) ORDER BY k" for n in NUMBERS),
    *(f"SELECT max({n})::VARCHAR, min({n})::VARCHAR FROM rows" for n in NUMBERS),
    *(f"SELECT k FROM rows ORDER BY {n} DESC NULLS LAST, k LIMIT 2" for n in NUMBERS),
]


def of_floats(values: list[float | None]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(len(values)), pa.int64()),
            "x": pa.array(values, pa.float64()),
            "f": pa.array(values, pa.float32()),
            "s": pa.array([{"a": each} for each in values], pa.struct([("a", pa.float64())])),
            "l": pa.array([[each] for each in values], pa.list_(pa.float64())),
        }
    )


def by_operator(rows: pa.Table, folder: Path, plain: frozenset[str] = frozenset()) -> Path:
    store = LocalStore(str(folder))
    with ParquetFile(store, "s3://data/", "rows.parquet", rows.schema, plain) as file:
        for batch in rows.to_batches():
            file.write(batch)
        file.close()
    return folder / "data/rows.parquet"


def plain_by_operator(rows: pa.Table, folder: Path) -> Path:
    return by_operator(rows, folder, frozenset(rows.column_names))


def by_query(rows: pa.Table, folder: Path) -> Path:
    chunks: list[bytes] = []
    with open_database(Limits(), str(folder / "spilled")) as database:
        database.register("rows", rows)
        run = Run(relations=[], format="parquet")
        send_result(database, "FROM rows", run, Limits(), chunks.append)
    (folder / "rows.parquet").write_bytes(b"".join(chunks))
    return folder / "rows.parquet"


@pytest.mark.parametrize("write", [by_operator, plain_by_operator, by_query])
def test_filters_find_the_same_rows_in_a_file_as_in_memory(write: Write, tmp_path: Path) -> None:
    for name, values in FLOATS.items():
        rows = of_floats(values)
        file = write(rows, tmp_path)
        with duckdb.connect() as memory, duckdb.connect() as disk:
            memory.register("given", rows)
            memory.execute("CREATE TABLE rows AS FROM given")
            disk.execute(f"CREATE VIEW rows AS FROM read_parquet('{file}')")
            for query in FOUND:
                expected = memory.execute(query).fetchall()
                assert disk.execute(query).fetchall() == expected, (name, query)


def test_columns_that_are_no_floats_keep_statistics_and_dictionaries(tmp_path: Path) -> None:
    rows = of_floats([1.0, 2.0]).append_column("t", pa.array([{"u": "a"}, {"u": "b"}]))
    group = pq.read_metadata(by_operator(rows, tmp_path)).row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    told = {each.path_in_schema for each in columns if each.is_stats_set}
    listed = {each.path_in_schema for each in columns if each.has_dictionary_page}
    assert told == listed == {"k", "t.u"}


REFUSED = {
    "duration": (pa.array([5], pa.duration("us")), "duration[us]", "bare number"),
    "duration within": (
        pa.array([{"a": [5]}], pa.struct([("a", pa.list_(pa.duration("s")))])),
        "with duration[s] in it",
        "bare number",
    ),
    "duration by a dictionary": (
        pa.array([5], pa.duration("us")).dictionary_encode(),
        "with duration[us] in it",
        "bare number",
    ),
    "decimal": (pa.array([Decimal(1)], pa.decimal256(39, 0)), "decimal256(39, 0)", "38 digits"),
    "scale": (pa.array([Decimal(100)], pa.decimal128(5, -2)), "decimal128(5, -2)", "cast it"),
    "interval": (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "month_day_nano", "cast it"),
    "runs": (pa.RunEndEncodedArray.from_arrays([1], [5]), "run_end_encoded", "cast it"),
    "union": (
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        "sparse_union",
        "cast it",
    ),
    "no fields": (pa.array([{}], pa.struct([])), "struct<>", "cast it"),
    "view": (pa.array([[1]], pa.list_view(pa.int32())), "list_view", "to a list"),
    "uuid": (pa.array([UUID(int=5).bytes], pa.uuid()), "arrow.uuid", "fixed_size_binary[16]"),
    "extension": (pa.array([1], pa.bool8()), "arrow.bool8", "int8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_type_that_readers_take_for_something_else_is_refused_by_name(
    name: str, tmp_path: Path
) -> None:
    values, said, cure = REFUSED[name]
    with pytest.raises(UnsupportedType) as refused:
        by_operator(pa.table({"odd": values}), tmp_path)
    assert "column 'odd' is " in refused.value.message
    assert said in refused.value.message
    assert cure in str(refused.value.hint)
    assert not (tmp_path / "data/rows.parquet").exists()


def test_names_with_a_dot_are_columns_of_their_own() -> None:
    rows = pa.table({"s.a": [1, 2], "s": pa.array([{"a": 1.0}, {"a": math.nan}])})
    file = io.BytesIO()
    with open_writer(file, rows.schema) as writer:
        writer.write_table(rows)
    group = pq.read_metadata(io.BytesIO(file.getvalue())).row_group(0)
    assert not any(group.column(n).is_stats_set for n in range(2))
