"""A value is the same after Arrow, Spark, a committed file, and every reader of that file."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID, uuid4

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.frame_task import FrameTasks, given, output
from trace_platform.client.result import Facts, Result
from trace_platform.domain.errors import InvalidQuery, UnsupportedType
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators import frames
from trace_platform.operators.ingest.parquet_compact import Config, ParquetCompact
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.query.child.engine import Engine
from trace_platform.query.protocol.messages import Limits, Relation, Run
from trace_platform.sql import gate
from trace_platform.sql.relations import Column
from trace_platform.wire.query_columns import query_columns
from trace_platform.wire.task import OutputCommit

pytestmark = pytest.mark.spark

Format = Literal["json", "arrow", "csv", "parquet"]

DAYS = [
    date(1, 1, 1),
    date(1582, 10, 10),  # not in every calendar
    date(1830, 1, 1),
    date(1969, 12, 31),
    date(3000, 1, 1),  # not in 64 bits of nanoseconds
    date(9999, 12, 31),
]
TIMES = [datetime.combine(day, time(23, 59, 59, 999999)) for day in DAYS] + [datetime(1, 1, 1)]
FLOATS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 1.7976931348623157e308]
MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
PAIR = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
PAIRS = [{"a": None, "b": {"c": None}}, {"a": 1, "b": None}, {"a": 2, "b": {"c": ""}}]


def wide(bits: int, signed: bool = True) -> list[int]:
    return [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0] if signed else [0, 2**bits - 1]


COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "is": (pa.bool_(), [True, False]),
    **{f"i{bits}": (getattr(pa, f"int{bits}")(), wide(bits)) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (getattr(pa, f"uint{bits}")(), wide(bits, False)) for bits in (8, 16, 32, 64)},
    "odd": (pa.int64(), [9007199254740993]),
    "f32": (pa.float32(), [math.nan, math.inf, -0.0, 0.0, 0.5, 2.0**-149]),
    "f64": (pa.float64(), FLOATS),
    "d38": (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38)]),
    "d38_38": (pa.decimal128(38, 38), [Decimal("0." + "9" * 38), Decimal("0." + "0" * 38)]),
    "d9_2": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.10")]),
    "text": (pa.string(), ["", "a\0b", "é😀", ' "quoted",\r\nand more', "NaN", "null"]),
    "bytes": (pa.binary(), [b"", b"\0", b"\xff\xfe", b"\xff" * 32]),
    "uint256": (pa.binary(32), [b"\xff" * 32, b"\0" * 32]),
    "day": (pa.date32(), DAYS),
    "moment": (MOMENT, TIMES),
    "local": (LOCAL, TIMES),
    "list": (pa.list_(pa.int64()), [[], [None], [1, None, 2]]),
    "floats": (pa.list_(pa.float64()), [FLOATS, [None]]),
    "moments": (pa.list_(MOMENT), [TIMES, []]),
    "pair": (PAIR, PAIRS),
    "pairs": (pa.list_(PAIR), [PAIRS, [None], []]),
    "map": (pa.map_(pa.string(), pa.float64()), [[("a", math.nan), ("", None)], []]),
    "numbered": (pa.map_(pa.int64(), pa.list_(pa.string())), [[(1, ["x", None])], [(-1, None)]]),
    "nothing": (pa.null(), []),
}
ROWS = max(len(values) for _, values in COLUMNS.values()) + 1


def in_arrow() -> pa.Table:
    """The values above, each column with nulls at its end."""
    columns = {"block_number": pa.array(range(ROWS), pa.int64())}
    for name, (kind, values) in COLUMNS.items():
        columns[name] = pa.array([*values, *[None] * (ROWS - len(values))], kind)
    return pa.table(columns)


def same(value: Any) -> Any:
    """A value of any library as one that can be compared: NaN equals itself, -0.0 is not 0.0."""
    match value:
        case float():
            return repr(value)
        case datetime():
            return value.isoformat()
        case dict():
            return {str(key): same(each) for key, each in value.items()}
        case [(_, _), *_] if all(isinstance(each, tuple) for each in value):
            return {str(key): same(each) for key, each in value}
        case list():
            return [same(each) for each in value]
    return value


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    return {
        name: [_no_pairs(table.schema.field(name).type, same(value)) for value in values]
        for name, values in table.to_pydict().items()
    }


def _no_pairs(kind: pa.DataType, value: Any) -> Any:
    """An empty map is a list without pairs to Arrow."""
    return {} if pa.types.is_map(kind) and value == [] else value


EXPECTED = columns_of(in_arrow())


@pytest.fixture(scope="module")
def tasks(spark_runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> FrameTasks:
    return FrameTasks(spark_runtime, LocalStore(str(tmp_path_factory.mktemp("store"))))


@pytest.fixture(scope="module")
def committed(tasks: FrameTasks) -> OutputCommit:
    """The values of a file that Arrow wrote, as Spark has read and written them."""
    source = given(0, 0, ROWS - 1, [tasks.file("all_0_99", in_arrow())])
    with tasks.task([source], [output()]) as task, frames.opened(task) as data:
        return data.write(0, data.read(0))


@pytest.fixture(scope="module")
def file(tasks: FrameTasks, committed: OutputCommit) -> str:
    (uri,) = tasks.files(committed)
    return str(tasks.path(uri))


@pytest.fixture(scope="module")
def asked(
    tasks: FrameTasks, committed: OutputCommit, file: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Format], bytes]:
    """All rows from the engine of the query service, which knows columns by the manifest."""
    known = query_columns(tasks.manifest(committed).columns)
    assert known is not None
    columns = [Column(each.name, each.type) for each in known]
    relation = Relation(view="rows", files=[file], columns=columns, mixed=True)
    scratch = str(tmp_path_factory.mktemp("scratch"))

    def ask(form: Format) -> bytes:
        chunks: list[bytes] = []
        with duckdb.connect() as parser:
            statement = gate.check(parser, "SELECT * FROM rows ORDER BY block_number")
        run = Run(relations=[relation], format=form, page_rows=1_000)
        Engine(Limits(), scratch).run(statement, run, chunks.append)
        return b"".join(chunks)

    return ask


def test_arrow_reads_what_spark_wrote(file: str) -> None:
    assert columns_of(pq.read_table(file)) == EXPECTED


def test_spark_reads_what_it_wrote(tasks: FrameTasks, committed: OutputCommit) -> None:
    with tasks.task([], []) as task, frames.opened(task) as data:
        found = data.staged(committed).toArrow().sort_by("block_number")
    assert columns_of(found) == EXPECTED


def test_polars_reads_what_spark_wrote(file: str) -> None:
    found = polars.read_parquet(file)
    assert {name: same(found[name].to_list()) for name in found.columns} == EXPECTED


def test_answers_in_arrow_and_parquet_hold_the_values(asked: Callable[[Format], bytes]) -> None:
    assert columns_of(pa.ipc.open_stream(asked("arrow")).read_all()) == EXPECTED
    assert columns_of(pq.read_table(pa.BufferReader(asked("parquet")))) == EXPECTED


def test_answers_in_json_and_csv_hold_the_values(asked: Callable[[Format], bytes]) -> None:
    table, names = in_arrow(), in_arrow().column_names
    expected = [[_as_json(value) for value in row.values()] for row in _python_rows(table)]
    assert same(json.loads(asked("json"))) == same(expected)
    header, *rows = csv.reader(io.StringIO(asked("csv").decode(), newline=""))
    assert header == names
    for row, values in zip(rows, expected, strict=True):
        assert same([_of_csv(*each) for each in zip(row, values, strict=True)]) == same(values)


def test_the_client_hands_the_values_to_other_libraries(asked: Callable[[Format], bytes]) -> None:
    result = _result(asked)
    assert columns_of(result.to_arrow()) == EXPECTED
    found = result.to_polars()
    assert {name: same(found[name].to_list()) for name in found.columns} == EXPECTED


def test_the_client_hands_the_values_to_pandas(asked: Callable[[Format], bytes]) -> None:
    frame = _result(asked).to_pandas()
    for name in ("i8", "i64", "u64", "odd", "d38", "text", "bytes", "moment", "local"):
        found = [None if each is pd.NA else each for each in frame[name].tolist()]
        assert same(found) == EXPECTED[name], name


def _result(asked: Callable[[Format], bytes]) -> Result:
    facts = Facts(UUID(int=0), ROWS, False, 0.0, (), (), ())
    return Result(pa.ipc.open_stream(asked("arrow")).read_all(), facts)


def _python_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    # Spark has no integer that is as wide.
    at = table.column_names.index("u64")
    table = table.set_column(at, "u64", table["u64"].cast(pa.decimal128(20, 0)))
    maps = [field.name for field in table.schema if pa.types.is_map(field.type)]
    for row in table.to_pylist():
        yield {k: dict(v) if k in maps and v is not None else v for k, v in row.items()}


def _as_json(value: Any, is_nested: bool = False) -> Any:
    """As docs/query.md says."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bytes():
            return "0x" + value.hex()
        case Decimal():
            # Where all digits are behind the point, DuckDB writes none before it.
            return format(value, "f").removeprefix("0" if value.as_tuple().exponent == -38 else "")
        case datetime() if is_nested:
            return f"{value:%Y-%m-%d %H:%M:%S.%f}".zfill(26).removesuffix(".000000") + "+00"
        case datetime() | date():
            return value.isoformat()
        case dict():
            return {str(key): _as_json(each, True) for key, each in value.items()}
        case list():
            return [_as_json(each, True) for each in value]
    return value


def _of_csv(cell: str, expected: Any) -> Any:
    """What the text stands for, as JSON has it."""
    if cell == "" and expected is None:
        return None
    return cell if isinstance(expected, str) else json.loads(cell)


# --- what no file holds ------------------------------------------------------------------------

REFUSED = {
    "interval '1' day": "interval day",
    "interval '3-4' year to month": "interval year to month",
    "array(interval '1' day)": "interval day",
    "map('a', named_struct('b', interval '1' month))": "interval month",
    "make_interval(1, 2)": "interval",
    "parse_json('1')": "variant",
    "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')": "geometry",
    "struct()": "struct<>",
}


def test_a_type_that_no_file_holds_is_refused_by_name(tasks: FrameTasks) -> None:
    for expression, kind in REFUSED.items():
        with (
            tasks.task([given(0, 0, 9)], [output()]) as task,
            frames.opened(task) as data,
            pytest.raises(UnsupportedType) as refused,
        ):
            data.write(0, task.spark().sql(f"SELECT {expression} AS odd"))
        assert refused.value.message.startswith("column odd")
        assert kind in refused.value.message
        assert refused.value.hint


def test_text_that_is_not_utf8_is_refused(tasks: FrameTasks) -> None:
    """Spark makes a string of any bytes; no other reader could read the file."""
    bad = "cast(X'ff' AS string)"
    nested = f"named_struct('a', array(null, map('k', {bad})))"
    for odd in (bad, f"array({bad})", f"map({bad}, 1)", nested):
        target = output()
        with (
            tasks.task([given(0, 0, 9)], [target]) as task,
            frames.opened(task) as data,
            pytest.raises(InvalidQuery, match="column odd has text that is not UTF-8") as refused,
        ):
            data.write(0, task.spark().sql(f"SELECT 'good' AS good, {odd} AS odd"))
        assert "binary" in str(refused.value.hint)
        assert not (tasks.path(target.prefix) / "_SUCCESS").exists()


UNREAD = [
    pa.time32("ms"),
    pa.time64("us"),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
    pa.float16(),
    pa.decimal256(39, 0),
    pa.duration("us"),
    pa.uuid(),
    pa.list_(pa.struct([("at", pa.time64("ns"))])),
]


def test_a_type_that_spark_does_not_read_is_refused_by_name(tasks: FrameTasks) -> None:
    for kind in UNREAD:
        uri = tasks.file(f"odd_{uuid4().hex}", pa.table({"odd": pa.array([None], kind)}))
        with (
            tasks.task([given(0, 0, 9, [uri])], []) as task,
            frames.opened(task) as data,
            pytest.raises(UnsupportedType, match=r"column odd is .*, which Spark") as refused,
        ):
            data.read(0)
        assert "cast it" in str(refused.value.hint)


# --- moments of older files --------------------------------------------------------------------


def test_older_and_newer_moments_are_compacted_together(tasks: FrameTasks) -> None:
    """Spark once wrote INT96, which Arrow reads as nanoseconds: 3000 became 1830."""
    half = len(TIMES)
    nested = pa.array([{"l": [each]} for each in TIMES], pa.struct([("l", pa.list_(LOCAL))]))
    rows = pa.table({"t": pa.array(TIMES, LOCAL), "n": pa.array(range(half)), "s": nested})
    zoned = pa.table(
        {
            "t": pa.array(TIMES, MOMENT),
            "n": pa.array(range(half, 2 * half)),
            "s": nested.cast(pa.struct([("l", pa.list_(MOMENT))])),
        }
    )
    files = [
        tasks.file("old_0_1", rows, use_deprecated_int96_timestamps=True),
        tasks.file("new_2_3", zoned),
    ]
    reads = given(1, 0, 3, files, trigger=False)
    config = Config(sort=["n"])
    with tasks.task([given(0, 0, 3), reads], [output()], config) as task:
        (commit,) = ParquetCompact().run(task).outputs
    found = tasks.read(commit)
    assert found.schema.field("t").type == MOMENT
    assert columns_of(found)["t"] == EXPECTED["moment"][:half] * 2
    assert [same(each["l"][0]) for each in found["s"].to_pylist()] == EXPECTED["moment"][:half] * 2


def test_spark_finds_either_zero_by_the_other(tasks: FrameTasks) -> None:
    """A dictionary, which many equal values get, would tell them apart."""
    rows = pa.table({"block_number": range(1_000), "x": [-0.0] * 1_000})
    source = given(0, 0, 999, [tasks.file("zeros_0_999", rows)])
    with tasks.task([source], [output()]) as task, frames.opened(task) as data:
        written = data.staged(data.write(0, data.read(0)))
        assert written.filter("x = 0").count() == 1_000


def test_intervals_of_python_are_refused_before_spark_has_them(tasks: FrameTasks) -> None:
    with tasks.task([given(0, 0, 9)], [output()]) as task, frames.opened(task) as data:
        frame = task.spark().createDataFrame([(timedelta(days=1),)], ["odd"])
        with pytest.raises(UnsupportedType, match="interval day to second"):
            data.write(0, frame)
