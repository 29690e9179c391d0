"""An input's rows on Spark are the rows that the same filter finds with DuckDB."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.operator_task import operator_task
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators import frames
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.query.protocol.where_sql import to_condition
from trace_platform.wire.task import TaskInput

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "number": pa.int64(),
        "small": pa.int16(),
        "price": pa.float64(),
        "amount": pa.decimal128(38, 0),
        "text": pa.string(),
        "flag": pa.bool_(),
        "address": pa.binary(),
        "day": pa.date32(),
    }
)
TEXTS = [
    "it's",
    'say "hi"',
    "back\\slash",
    "",
    "%_",
    "é😀",
    "critical",
    "'; DROP TABLE t; --",
    None,
]
NUMBERS = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), None, 7, 8]
PRICES = [0.0, -0.0, 0.1, 1.5, -2.25, 1e300, None, math.nan, 8.5]
AMOUNTS = [0, 1, -1, 10**38 - 1, -(10**38) + 1, 2**100, None, 7, 8]
ADDRESSES = [b"", b"\x00", b"\x7f", b"\x80", b"\xab\xcd", b"\xff\xff", None, b"0xab", b"\xab"]


def table() -> pa.Table:
    n = len(TEXTS)
    flags, days = [True, False, None] * 3, [0, 19_000, None, -1, 1, 2, 3, 20_000, 4]
    smalls = [1, 2, None, 32_767, -32_768, 0, 5, 6, 7]
    amounts = [None if a is None else Decimal(a) for a in AMOUNTS]
    columns = [list(range(n)), NUMBERS, smalls, PRICES, amounts, TEXTS, flags, ADDRESSES]
    arrays = [pa.array(c, k) for c, k in zip(columns, SCHEMA.types[:-1], strict=True)]
    return pa.Table.from_arrays(
        [*arrays, pa.array(days, pa.int32()).cast(pa.date32())], schema=SCHEMA
    )


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    # Characters that Spark would take for a pattern.
    return LocalStore(str(tmp_path / "objects [a] {b,c} *?"))


def given(store: LocalStore, where: dict[str, Any] | None = None, files: int = 3) -> TaskInput:
    """The table in several files, each row group so small that its statistics count."""
    whole, uris = table(), []
    for index in range(files):
        uris.append(f"s3://data/t/part_{index}.parquet")
        path = store.filesystem(uris[-1])[1]
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        part = whole.take(list(range(index, whole.num_rows, files)))
        pq.write_table(part, path, row_group_size=1)
    return TaskInput(
        input_index=0,
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        cursor=1,
        files=uris,
        where=where,
    )


def rows(given: TaskInput, spark: Any, store: LocalStore) -> Any:
    task = replace(
        operator_task(None, BlockRange(0, 0), Path(store.root), spark=lambda: spark),
        inputs=(given,),
    )
    with frames.opened(task) as data:
        return data.read(0)


FILTERS: list[dict[str, Any]] = [
    {"text": "it's"},
    {"text": 'say "hi"'},
    {"text": "back\\slash"},
    {"text": "'; DROP TABLE t; --"},
    {"text": ""},
    {"text": None},
    {"text": {"in": ["é😀", "%_", None]}},
    {"text": {"gte": "c", "lt": "j"}},
    {"number": 2**53 + 1},
    {"number": {"in": [2**53, 1, 2.5, 2**200]}},
    {"number": {"gt": -0.5, "lt": 7.5}},
    {"number": {"gte": 7, "lte": 8}},
    {"number": {"lt": 2**63}},
    {"number": {"gte": -(2**63)}},
    {"number": {"lte": 2**63 - 1}},
    {"number": -(2**63)},
    {"number": {"lt": 2**256}},
    {"number": {"gt": 2**64}},
    {"number": {"gte": -(2**256)}},
    {"number": 2**256},
    {"number": None},
    {"small": {"lt": 40_000}},
    {"small": {"gt": 40_000}},
    {"small": {"in": [1, 40_000]}},
    {"price": 0},
    {"price": {"gte": 0}},
    {"price": {"gt": 0}},
    {"price": {"lte": 0}},
    {"price": {"lt": 0}},
    {"price": {"gt": 1, "lt": 9}},
    {"price": {"in": [0, 1.5, 8.5]}},
    {"price": {"gt": 1}},
    {"price": {"lt": 2**200}},
    {"price": {"in": [0.1, 0, None]}},
    {"amount": 2**100},
    {"amount": {"gt": 1, "lt": 2**200}},
    {"amount": {"lte": 7.5}},
    {"amount": {"in": [1, 10**38 - 1, 10**40]}},
    {"amount": {"in": [2**100 + 1, 7.5, 8]}},
    {"flag": True},
    {"flag": {"in": [False, None]}},
    {"address": "0xab"},
    {"address": {"in": ["0x", "0xabCD", None]}},
    {"address": {"gte": "0x7f", "lt": "0xff"}},
    {"day": {"gte": "2000-01-01"}},
    {"number": {"gte": 0}, "text": {"in": ["it's", "critical"]}, "flag": None},
    {"NUMBER": 7},
]


@pytest.mark.parametrize("where", FILTERS, ids=repr)
def test_spark_finds_the_rows_that_duckdb_finds(
    where: dict[str, Any], spark_runtime: SparkRuntime, store: LocalStore
) -> None:
    frame = rows(given(store, where), spark_runtime.session(), store)
    rights = duckdb.connect().from_arrow(table()).set_alias("t")
    kinds = dict(zip(rights.columns, map(str, rights.types), strict=True))
    expected = rights.filter(to_condition(where, kinds, "t")).project("id").fetchall()
    assert sorted(row.id for row in frame.collect()) == sorted(id for (id,) in expected)


def test_without_a_filter_all_rows_come_as_they_are(
    spark_runtime: SparkRuntime, store: LocalStore
) -> None:
    frame = rows(given(store), spark_runtime.session(), store)
    assert str(frame.toArrow().sort_by("id").to_pylist()) == str(table().to_pylist())


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ({"number": {"gte": 7, "lt": 8.5}}, ["GreaterThanOrEqual(number,7)", "LessThan(number,9)"]),
        ({"text": "critical"}, ["EqualTo(text,critical)"]),
        ({"small": {"in": [1, 2]}}, ["In(small, [1,2])"]),
        ({"price": {"lt": 2}}, ["LessThan(price,2.0)"]),
        ({"flag": None}, ["IsNull(flag)"]),
    ],
)
def test_the_filter_reaches_the_files(
    where: dict[str, Any], parts: list[str], spark_runtime: SparkRuntime, store: LocalStore
) -> None:
    frame = rows(given(store, where), spark_runtime.session(), store).select("id")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    pushed = plan.partition("PushedFilters: ")[2].partition("ReadSchema")[0]
    assert all(part in pushed for part in parts), pushed


def test_types_that_spark_names_otherwise_are_read_too(
    spark_runtime: SparkRuntime, store: LocalStore
) -> None:
    task_input = given(store, {"u": {"gt": 2**63}}, files=1)
    column = pa.array([1, 2**64 - 1, None], pa.uint64())
    pq.write_table(pa.table({"u": column}), store.filesystem(task_input.files[0])[1])
    frame = rows(task_input, spark_runtime.session(), store)
    assert [row.u for row in frame.collect()] == [Decimal(2**64 - 1)]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"nubmer": 1}, "where.nubmer: the input has no such column; did you mean number?"),
        ({"zzz": 1}, "where.zzz: the input has no such column; it has id, number, small"),
        ({"text": 1}, "where.text: the column is string, and 1 is not; compare it with values"),
        ({"number": "1"}, "where.number: the column is bigint, and '1' is not"),
        ({"flag": 1}, "where.flag: the column is boolean, and 1 is not"),
        ({"amount": True}, "where.amount: the column is decimal(38,0), and True is not"),
        ({"address": "ab"}, "where.address: the column holds bytes, and 'ab' is not hex; write"),
        ({"1; --": 1}, "where.1; --: a column is letters, digits and '_'"),
    ],
    ids=repr,
)
def test_a_filter_that_does_not_fit_the_columns_is_refused(
    where: dict[str, Any], said: str, spark_runtime: SparkRuntime, store: LocalStore
) -> None:
    with pytest.raises(InvalidConfig) as caught:
        rows(given(store, where), spark_runtime.session(), store)
    assert f"{caught.value.message}; {caught.value.hint}".startswith(said)


def test_an_input_without_files_cannot_be_read(
    spark_runtime: SparkRuntime, store: LocalStore
) -> None:
    with pytest.raises(InvalidConfig, match="input 0 has no files to read"):
        rows(given(store, files=0), spark_runtime.session(), store)
