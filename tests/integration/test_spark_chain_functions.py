"""The functions of chain data: Spark and DuckDB agree on every value, or both refuse it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.support.corpus import corpus
from trace_platform.operators.spark import chain_functions as of_spark
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.sql import chain_functions as of_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MAX = 2**256 - 1
ONES = "ff" * 32
# Of EIP-55.
CHECKSUMS = [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
]
HEX = [
    "0x",
    "",
    "0x00",
    "0X0F",
    "abc",
    "0xabc",
    f"0x{ONES}",
    "0x7f" + "ff" * 31,
    "0x80" + "00" * 31,
]
INTEGERS = [0, 1, -1, 7, -7, 10**18, 2**127, 2**255, -(2**255), MAX, 10**77]


def values(expression: str, given: list[Any]) -> list[str]:
    return [expression.replace("?", f"'{each}'") for each in given]


AGREED = [
    *values("to_0x(unhex(?))", HEX),
    *values("to_0x(from_hex(?))", HEX),
    *values("bytes_to_uint(unhex(?))", HEX),
    *values("bytes_to_int(unhex(?))", HEX),
    *values("to_0x(keccak256(unhex(?)))", HEX),
    *values("checksum_address(unhex(lower(?)))", CHECKSUMS),
    *values("to_0x(uint_to_bytes(?))", [each for each in INTEGERS if 0 <= each <= MAX]),
    *values("bytes_to_uint(uint_to_bytes(?))", [0, MAX]),
    *(
        f"{name}('{a}', '{b}')"
        for name in ("mul_exact", "div_exact", "mod_exact")
        for a, b in [(MAX, MAX), (-(2**255), 3), (7, -2), (-7, 2), (-7, -2), (MAX, 0), (0, 5)]
    ),
    "mul_exact(12, 3)",
    "mul_exact(CAST(99999999999999999999999999999999999999 AS DECIMAL(38, 0)), 10)",
    *values("from_wei(?)", [0, 1, -1, 1500000000000000000, 10**37, -(10**37)]),
    "from_wei(1500000000000000000)",
    "from_units(2500000, 6)",
    f"from_units('{MAX // 10**40}', 20)" if MAX // 10**40 % 100 == 0 else "from_units('7', 0)",
    "to_0x(topic('Transfer(address,address,uint256)'))",
    "to_0x(selector('transfer(address,uint256)'))",
    *(
        f"{name}(NULL)"
        for name in sorted(of_spark.NAMES - {"mul_exact", "div_exact", "mod_exact", "from_units"})
    ),
    "mul_exact('1', NULL)",
    "from_units(NULL, 6)",
]
REFUSED = [
    "unhex('0xzz')",
    "unhex('a b')",
    "checksum_address(unhex('00'))",
    f"bytes_to_uint(unhex('00{ONES}'))",
    f"bytes_to_int(unhex('00{ONES}'))",
    "uint_to_bytes(-1)",
    f"uint_to_bytes('{MAX + 1}')",
    "mul_exact('1.5', '2')",
    "mul_exact('0x10', '2')",
    f"mul_exact('{'9' * 1001}', '2')",
    "sum_exact('1_0')",
    "sum_exact(' 7')",
    "sum_exact('1.5')",
    "from_units('1', 19)",
    "from_units('1', 78)",
    f"from_wei('{MAX}')",
    f"from_wei('{10**38}')",
    "topic('transfer')",
    "selector('transfer(address, uint256)')",
]


@pytest.fixture(scope="module")
def spark(spark_runtime: SparkRuntime) -> Iterator[SparkSession]:
    """As an operator gets it."""
    with spark_runtime.task_thread("functions") as session:
        yield session()


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        of_duckdb.add(connection)
        yield connection


def test_they_have_the_same_names() -> None:
    assert of_spark.NAMES == of_duckdb.NAMES


def test_every_value_is_the_same_in_both(
    spark: SparkSession, database: duckdb.DuckDBPyConnection
) -> None:
    (in_spark,) = spark.sql(f"SELECT {', '.join(f'CAST({e} AS STRING)' for e in AGREED)}").collect()
    expected = database.execute(
        f"SELECT {', '.join(f'CAST({e} AS VARCHAR)' for e in AGREED)}"
    ).fetchone()
    assert expected is not None
    different = [
        f"{said}: DuckDB {theirs!r}, Spark {ours!r}"
        for said, ours, theirs in zip(AGREED, in_spark, expected, strict=True)
        if ours != theirs
    ]
    assert not different, "\n".join(different)
    assert {str(MAX), str(MAX * MAX), "-1", "0", *CHECKSUMS[:4]} <= set(expected)


@corpus("said", REFUSED)
def test_what_is_not_exact_is_refused(database: duckdb.DuckDBPyConnection, said: str) -> None:
    with pytest.raises(duckdb.Error):
        database.execute(f"SELECT {said}").fetchall()


# A refusal costs Spark a worker, and the rules of both are the same functions.
@corpus("said", {said.partition("(")[0]: said for said in REFUSED}.values())
def test_each_function_that_refuses_does_so_in_spark_too(spark: SparkSession, said: str) -> None:
    with pytest.raises(Exception, match=r"(?i)error|exception"):
        spark.sql(f"SELECT {said}").collect()


@pytest.mark.long
@corpus("said", REFUSED)
def test_what_one_refuses_the_other_refuses(spark: SparkSession, said: str) -> None:
    with pytest.raises(Exception, match=r"(?i)error|exception"):
        spark.sql(f"SELECT {said}").collect()


def test_numbers_of_many_rows_are_summed_exactly_in_groups(
    spark: SparkSession, database: duckdb.DuckDBPyConnection
) -> None:
    rows = ", ".join(
        f"({n % 3}, '{MAX - n}')" if n % 7 else f"({n % 3}, CAST(NULL AS VARCHAR(200)))"
        for n in range(200)
    )
    sql = (
        f"SELECT k, sum_exact(v) AS s FROM (VALUES {rows}, (9, CAST(NULL AS VARCHAR(200))))"
        " AS t(k, v) GROUP BY k ORDER BY k"
    )
    expected = [(key, None if s is None else str(s)) for key, s in database.execute(sql).fetchall()]
    assert [tuple(row) for row in spark.sql(sql).collect()] == expected
    assert expected[-1] == (9, None)
    assert len(str(expected[0][1])) > 77


def test_text_where_bytes_are_wanted_is_refused_with_the_cure(spark: SparkSession) -> None:
    for said in ("keccak256('0x00')", "bytes_to_uint('0x00')", "checksum_address('0x00')"):
        with pytest.raises(Exception, match=r"takes bytes, not string: unhex\(text\)"):
            spark.sql(f"SELECT {said}").collect()


def test_bytes_and_numbers_of_columns_keep_their_types(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT unhex(h) AS b, bytes_to_uint(unhex(h)) AS n, from_wei(1) AS w, to_0x(unhex(h)) AS x"
        " FROM (VALUES ('0x01'), (NULL), ('0x')) AS t(h)"
    )
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    assert kinds == {"b": "binary", "n": "string", "w": "decimal(38,18)", "x": "string"}
    assert [row.n for row in frame.collect()] == ["1", None, "0"]
