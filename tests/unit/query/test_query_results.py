"""What a result looks like in each format: the same values, none of them rounded."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.corpus import corpus
from trace_platform.domain.errors import QueryTooLarge
from trace_platform.query.child.engine import open_database
from trace_platform.query.child.results import send_result, without_semicolon
from trace_platform.query.protocol.messages import CHUNK_BYTES, Done, Limits, Run

Format = Literal["json", "arrow", "csv", "parquet"]
MAX_HUGEINT = 2**127 - 1
ID = "12345678-1234-1234-1234-123456789abc"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    return open_database(Limits(), str(tmp_path_factory.mktemp("spill")))


def sent(
    database: duckdb.DuckDBPyConnection,
    sql: str,
    form: Format = "json",
    limits: Limits | None = None,
    **options: Any,
) -> tuple[Done, list[bytes]]:
    chunks: list[bytes] = []
    run = Run(relations=[], format=form, **options)
    return send_result(database, sql, run, limits or Limits(), chunks.append), chunks


def table(database: duckdb.DuckDBPyConnection, sql: str, form: Format, **options: Any) -> pa.Table:
    data = b"".join(sent(database, sql, form, **options)[1])
    if form == "arrow":
        return pa.ipc.open_stream(data).read_all()
    return pq.read_table(pa.BufferReader(data))


def csv_rows(database: duckdb.DuckDBPyConnection, sql: str, **options: Any) -> list[list[str]]:
    text = b"".join(sent(database, sql, "csv", **options)[1]).decode()
    return list(csv.reader(io.StringIO(text, newline="")))


# A value, as JSON, as CSV when that is no text of it, and as Arrow reads it.
VALUES: list[tuple[str, Any, str | None, Any]] = [
    ("NULL::INTEGER", None, "", None),
    ("NULL", None, "", None),
    ("true", True, "true", True),
    ("18446744073709551615::UBIGINT", 2**64 - 1, None, 2**64 - 1),
    ("-" + "9" * 38 + "::HUGEINT", "-" + "9" * 38, None, -int("9" * 38)),
    ("'" + "9" * 38 + "'::UHUGEINT", "9" * 38, None, int("9" * 38)),
    (f"'{2**256 - 1}'::BIGNUM", str(2**256 - 1), None, str(2**256 - 1)),
    ("sum(5)", "5", None, 5),
    (f"'{'9' * 38}'::DECIMAL(38,0)", "9" * 38, None, int("9" * 38)),
    ("0.10::DECIMAL(4,2)", "0.10", None, Decimal("0.10")),
    ("0.1::DOUBLE", 0.1, None, 0.1),
    ("1::DOUBLE", 1.0, None, 1.0),
    ("0.5::FLOAT", 0.5, None, 0.5),
    ("'-inf'::DOUBLE", "-Infinity", None, -math.inf),
    ("'inf'::FLOAT", "Infinity", None, math.inf),
    ("''", "", None, ""),
    ("'a,\"b\"' || chr(13) || chr(10) || 'é😀'", 'a,"b"\r\né😀', None, 'a,"b"\r\né😀'),
    ("'\\x00\\xAB'::BLOB", "0x00ab", None, b"\x00\xab"),
    ("DATE '2024-02-29'", "2024-02-29", None, None),
    ("'infinity'::DATE", "infinity", None, None),
    ("'infinity'::TIMESTAMP_NS", "infinity", None, None),
    ("TIMESTAMP_S '2024-02-29 01:02:03'", "2024-02-29T01:02:03", None, None),
    ("DATE '0044-03-15 (BC)'", "0044-03-15 (BC)", None, None),
    ("TIMESTAMP '0044-03-15 (BC) 00:00:00'", "0044-03-15 (BC) 00:00:00", None, None),
    ("TIMESTAMPTZ '0044-03-15 (BC) 00:00:00+00'", "0044-03-15 (BC) 00:00:00+00", None, None),
    ("TIMESTAMP '2024-02-29 01:02:03.5'", "2024-02-29T01:02:03.5", None, None),
    ("TIMESTAMPTZ '2024-02-29 01:02:03+02'", "2024-02-28T23:02:03+00:00", None, None),
    ("'-infinity'::TIMESTAMPTZ", "-infinity", None, None),
    ("TIME '01:02:03'", "01:02:03", None, None),
    ("INTERVAL 14 MONTH + INTERVAL 3 DAY", "1 year 2 months 3 days", None, None),
    ("'101'::BIT", "101", None, "101"),
    ("'a'::ENUM('a', 'b')", "a", None, "a"),
    (f"'{ID}'::UUID", ID, None, ID),
    ("[1::HUGEINT, NULL]", ["1", None], '["1",null]', [1, None]),
    ("[1.5::DOUBLE, 'nan'::DOUBLE]", [1.5, "NaN"], '[1.5,"NaN"]', None),
    ("[1, 2]::INTEGER[2]", [1, 2], "[1,2]", [1, 2]),
    (
        "{'a b': INTERVAL 1 DAY, 'c': ['\\xAB'::BLOB]}",
        {"a b": "1 day", "c": ["0xab"]},
        '{"a b":"1 day","c":["0xab"]}',
        {"a b": "1 day", "c": [b"\xab"]},
    ),
    ("MAP {'k': 1::UHUGEINT}", {"k": "1"}, '{"k":"1"}', [("k", 1)]),
    ("{'size': 1, 'b': 2}", {"size": 1, "b": 2}, '{"size":1,"b":2}', {"size": 1, "b": 2}),
    ("[{'size': 7}]", [{"size": 7}], '[{"size":7}]', [{"size": 7}]),
    ("['infinity'::DATE]", ["infinity"], '["infinity"]', None),
    ("['-infinity'::TIMESTAMP]", ["-infinity"], '["-infinity"]', None),
    (
        "[TIMESTAMP_NS '2024-02-29 01:02:03.123456789']",
        ["2024-02-29 01:02:03.123456789"],
        '["2024-02-29 01:02:03.123456789"]',
        None,
    ),
    ("MAP {[1]: 2}", {"key": [[1]], "value": [2]}, '{"key":[[1]],"value":[2]}', None),
    ("row(1, 2)", "(1, 2)", None, "(1, 2)"),
    ("MAP {true: 1}", {"true": 1}, '{"true":1}', None),
    ("union_value(a := 5)", "5", None, "5"),
    ("'{\"a\": 1}'::JSON", '{"a": 1}', None, '{"a": 1}'),
]


@corpus(("sql", "as_json", "as_csv", "as_arrow"), VALUES, ids=[v[0] for v in VALUES])
def test_a_value_is_the_same_in_every_format(
    database: duckdb.DuckDBPyConnection, sql: str, as_json: Any, as_csv: str | None, as_arrow: Any
) -> None:
    statement = f"SELECT {sql} AS v, 7 AS seven"
    done, pages = sent(database, statement)
    assert json.loads(pages[0]) == [[as_json, 7]]
    assert done.columns[0].name == "v"
    text = as_csv if as_csv is not None else str(as_json)
    assert csv_rows(database, statement) == [["v", "seven"], [text, "7"]]
    for form in ("arrow", "parquet"):
        found = table(database, statement, form)
        assert found["seven"].to_pylist() == [7]
        if as_arrow is not None:
            assert found["v"].to_pylist() == [as_arrow]


@pytest.mark.parametrize(
    "value", [f"{MAX_HUGEINT}::HUGEINT", f"'{2**128 - 1}'::UHUGEINT"], ids=["signed", "unsigned"]
)
def test_more_than_38_digits_are_refused_where_they_would_be_rounded(
    database: duckdb.DuckDBPyConnection, value: str
) -> None:
    digits = re.sub(r"\D", "", value.partition("::")[0])
    assert json.loads(sent(database, f"SELECT {value}")[1][0]) == [[digits]]
    for form in ("arrow", "parquet"):
        with pytest.raises((duckdb.Error, OSError), match=r"DECIMAL\(38,0\)"):
            table(database, f"SELECT {value} AS v", form)
        assert table(database, f"SELECT ({value})::VARCHAR AS v", form)["v"].to_pylist() == [digits]


def test_columns_keep_the_types_that_the_statement_gave_them(
    database: duckdb.DuckDBPyConnection,
) -> None:
    for form in ("json", "arrow", "csv", "parquet"):
        done, _ = sent(database, "SELECT 1::HUGEINT a, [INTERVAL 1 DAY] b, 2 a", form)
        told = [(column.name, column.type) for column in done.columns]
        assert told == [("a", "HUGEINT"), ("b", "INTERVAL[]"), ("a_1", "INTEGER")]


@given(st.lists(st.none() | st.floats() | st.sampled_from([1e308, -1e308]), max_size=6))
@settings(max_examples=100)
def test_doubles_are_the_same_after_json_and_csv(values: list[float | None]) -> None:
    with duckdb.connect() as database:
        database.execute(
            "CREATE TABLE t AS SELECT * FROM (SELECT unnest(?::DOUBLE[]) AS v)", [values]
        )
        rows = json.loads(b"".join(sent(database, "SELECT v FROM t")[1]) or "[]")
        assert repr([None if v is None else float(v) for (v,) in rows]) == repr(values)
        found = csv_rows(database, "SELECT v, 1 FROM t")[1:]
        assert repr([float(v) if v else None for v, _ in found]) == repr(values)


TEXT = st.text(st.characters(codec="utf-8"), max_size=4)


@given(st.lists(st.tuples(st.none() | TEXT, st.none() | st.binary(max_size=4)), max_size=5))
@settings(max_examples=100)
def test_texts_and_bytes_are_the_same_after_json_and_csv(
    rows: list[tuple[str | None, bytes | None]],
) -> None:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE t (s VARCHAR, h BLOB)")
        for row in rows:
            database.execute("INSERT INTO t VALUES (?, ?)", row)
        expected = [[s, None if h is None else "0x" + h.hex()] for s, h in rows]
        assert json.loads(b"".join(sent(database, "FROM t")[1]) or "[]") == expected
        # Null and the empty text are one there.
        told = [[s or "", h or ""] for s, h in expected]
        assert csv_rows(database, "FROM t") == [["s", "h"], *told]


@corpus("form", ["json", "csv", "arrow", "parquet"])
@corpus(
    ("limit", "count", "truncated"),
    [(1, 1, True), (19_999, 19_999, True), (20_000, 20_000, False), (None, 20_000, False)],
)
def test_truncated_means_that_there_are_more_rows(
    database: duckdb.DuckDBPyConnection,
    form: Format,
    limit: int | None,
    count: int,
    truncated: bool,
) -> None:
    sql = "SELECT i FROM range(20000) t(i) ORDER BY i DESC"
    done, chunks = sent(database, sql, form, limit=limit)
    assert (done.row_count, done.truncated) == (count, truncated)
    expected = [20_000 - 1 - n for n in range(count)]
    if form == "json":
        assert [row[0] for page in chunks for row in json.loads(page)] == expected
    elif form == "csv":
        assert b"".join(chunks).decode().split() == ["i", *map(str, expected)]
    else:
        assert table(database, sql, form, limit=limit)["i"].to_pylist() == expected


def test_pages_hold_as_many_rows_as_were_asked_for(database: duckdb.DuckDBPyConnection) -> None:
    for page_rows, sizes in [(8_192, [8_192, 8_192, 3_616]), (10_000, [10_000, 10_000]), (7, None)]:
        _, pages = sent(database, "FROM range(20000)", page_rows=page_rows)
        found = [[row[0] for row in json.loads(page)] for page in pages]
        assert [n for page in found for n in page] == list(range(20_000))
        assert [len(page) for page in found] == (sizes or [7] * 2857 + [1])


@pytest.mark.parametrize("form", ["json", "csv", "arrow", "parquet"])
def test_a_result_without_rows_is_whole(database: duckdb.DuckDBPyConnection, form: Format) -> None:
    sql = "SELECT 1 AS a, [1::HUGEINT] AS b WHERE false"
    done, chunks = sent(database, sql, form)
    assert (done.row_count, done.truncated, len(done.columns)) == (0, False, 2)
    if form == "json":
        assert chunks == []
    elif form == "csv":
        assert chunks == [b"a,b\n"]
    else:
        assert table(database, sql, form).column_names == ["a", "b"]


def test_csv_ends_lines_as_the_tools_that_read_it_do(database: duckdb.DuckDBPyConnection) -> None:
    """A carriage return is there where a value has one, in quotes."""
    _, chunks = sent(database, "SELECT * FROM (VALUES (1, 'x'), (2, chr(13) || 'y'))", "csv")
    assert b"".join(chunks) == b'col0,col1\n1,x\n2,"\ry"\n'


def test_bytes_are_as_documented_in_every_format(database: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT unhex('00ff') AS b, unhex('') AS none, NULL::BLOB AS null_, [unhex('ab')] AS l"
    _, chunks = sent(database, sql, "json")
    assert json.loads(chunks[0]) == [["0x00ff", "0x", None, ["0xab"]]]
    _, chunks = sent(database, sql, "csv")
    assert b"".join(chunks).splitlines()[1] == b'0x00ff,0x,,"[""0xab""]"'
    for form in ("arrow", "parquet"):
        found = table(database, sql, form)
        assert found.schema.types[:3] == [pa.binary()] * 3
        assert found.to_pylist() == [{"b": b"\0\xff", "none": b"", "null_": None, "l": [b"\xab"]}]


def test_a_page_that_is_too_large_is_refused(database: duckdb.DuckDBPyConnection) -> None:
    sql, limits = "SELECT repeat('x', 1000) FROM range(2000)", Limits(page_bytes=1 << 20)
    with pytest.raises(QueryTooLarge, match="a page of the result is larger than 1 MiB"):
        sent(database, sql, limits=limits)
    assert len(sent(database, sql, limits=limits, page_rows=1_000)[1]) == 2


class _Rows:
    """A table of hashes that tells how many of its rows DuckDB has asked for so far."""

    schema = pa.schema({"hash": pa.binary(32)})

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        draw, size = random.Random(0), 2_048
        while self.asked < self.count:
            self.asked += size
            data = pa.py_buffer(draw.randbytes(size * 32))
            column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), size, [None, data])
            yield pa.record_batch([column], self.schema)


@pytest.mark.parametrize(
    ("form", "count"),
    # Of files a row group is held, of 131,072 rows: only many rows tell that it is not all.
    [("json", 300 << 10), ("csv", 300 << 10), ("arrow", 1_200 << 10), ("parquet", 1_200 << 10)],
)
def test_rows_stream(
    database: duckdb.DuckDBPyConnection, form: Format, count: int, traced_memory: None
) -> None:
    """Each is sent while the next is found: what is held does not grow with the result."""
    rows = _Rows(count)
    asked, held, sizes = [0], [0], [0]

    def weigh(chunk: bytes) -> None:
        sizes.append(len(chunk))
        asked.append(rows.asked)
        held.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())

    database.register("counted", rows.reader())
    run = Run(relations=[], format=form, page_rows=10_000)
    done = send_result(database, "FROM counted", run, Limits(), weigh)
    database.unregister("counted")
    assert done.row_count == count
    assert max(sizes) < 3 * CHUNK_BYTES
    # The engine has some rows ready, and a file's writer a row group.
    assert max(after - before for before, after in pairwise(asked)) < count / 2
    half = len(held) // 2
    assert max(held[half:]) - max(held[:half]) < sum(sizes[half:]) / 4


@pytest.fixture
def traced_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("sql", "bare"),
    [
        ("SELECT ';'; ", "SELECT ';'  "),
        ("SELECT 1 -- a;\n ; /* b; */ ; -- c;", "SELECT 1 -- a;\n   /* b; */   -- c;"),
        ("SELECT 'é' AS \"x;\"", "SELECT 'é' AS \"x;\""),
        ("SELECT 'é;' ;", "SELECT 'é;'  "),
    ],
)
def test_only_semicolons_at_the_end_are_taken_away(
    database: duckdb.DuckDBPyConnection, sql: str, bare: str
) -> None:
    assert without_semicolon(sql) == bare
    assert sent(database, sql)[0].row_count == 1
