"""What hex, bytes and wide integers of a statement mean: over real files, in the real engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.corpus import corpus
from trace_platform.domain.errors import InvalidQuery, TraceError
from trace_platform.query.child.engine import Engine
from trace_platform.query.child.explain import Explained
from trace_platform.query.child.scan_plan import plan
from trace_platform.query.child.statement_server import open_parser
from trace_platform.query.protocol.messages import Limits, Relation, Run, Setup
from trace_platform.query.service.hot_filters import conditions
from trace_platform.sql import gate
from trace_platform.sql.meaning import understood
from trace_platform.sql.relations import Column

ADDRESS = bytes.fromhex("d8da6bf26964af9d7eed9e03e53415d37aa96045")
HEX = "0x" + ADDRESS.hex()
CHECKSUM = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
MAX = 2**256 - 1


class Desk:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "logs.parquet"
        rows = {
            "address": [ADDRESS, b"\x01" * 20, None],
            "owner": [HEX, "0x" + "01" * 20, None],
            "data": [MAX.to_bytes(32, "big"), (7).to_bytes(32, "big"), None],
            "value": [str(MAX), "1500000000000000000", None],
        }
        pq.write_table(pa.table(rows), self.file)
        scratch = folder / "scratch"
        scratch.mkdir()
        setup = Setup(limits=Limits(), readable=[], scratch=str(scratch))
        self.parser = open_parser(setup)
        self.engine = Engine(Limits(), str(scratch), self.parser)

    def rows(self, sql: str) -> list[list[Any]]:
        found: list[list[Any]] = []
        run = Run(relations=[Relation(view="logs", files=[str(self.file)])])
        statement = gate.check(self.parser, sql)
        self.engine.run(statement, run, lambda page: found.extend(json.loads(page)))
        return found

    def refusal(self, sql: str) -> TraceError:
        with pytest.raises(InvalidQuery) as raised:
            self.rows(sql)
        return raised.value


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("meaning"))


@corpus(
    "condition",
    [
        f"address = '{HEX}'",
        f"'{HEX}' = address",
        f"address = '{CHECKSUM}'",
        f"address = '0X{ADDRESS.hex().upper()}'",
        f"address IN ('0x00', '{HEX}')",
        f"NOT address <> '{HEX}'",
        f"address BETWEEN '{HEX}' AND '{HEX}'",
        "address >= '0xd8' AND address < '0xd9'",
        f"CASE address WHEN '{HEX}' THEN true ELSE false END",
        f"CASE WHEN true THEN '{HEX}' ELSE address END = address",
        f"coalesce(address, '0x00') = '{HEX}'",
        f"list_contains([address], '{HEX}')",
        f"address = ANY(['{HEX}'])",
        f"address = ANY(['{CHECKSUM}', '0x00'])",
        f"address = SOME(['{HEX}'])",
        f"NOT address <> ALL(['{HEX}'])",
        f"address IN ['{HEX}', '0X00']",
        f"list_contains(list_value('{HEX}'), address)",
        f"array_has(['{HEX}'], address)",
        f"list_has_any([address], ['{HEX}'])",
        f"list_position(['{HEX}'], address) = 1",
        f"address IS NOT DISTINCT FROM '{HEX}'",
        f"address = '{HEX}'::BLOB",
        f"address = unhex('{HEX}')",
        f"address = from_hex('{HEX[2:]}')",
        "address = unhex(owner) AND owner LIKE '0xd8%'",
        f"address = (SELECT max(address) FROM logs WHERE address = '{HEX}')",
        "to_0x(address) = '" + HEX + "'",
    ],
)
def test_hex_beside_bytes_means_those_bytes(desk: Desk, condition: str) -> None:
    assert desk.rows(f"SELECT address FROM logs WHERE {condition};") == [[HEX]]


@corpus(
    ("expression", "bytes_"),
    [
        ("hex('0x05'::BLOB)", "05"),
        ("hex(CAST('0x05' AS BLOB))", "05"),
        ("hex('0x05' :: BLOB)", "05"),
        ("'é' || hex('0x05'::BLOB)", "é05"),
        ("upper(to_0x('0xab'::BLOB))", "0XAB"),
        ("to_0x('0xab'::BLOB)", "0xab"),
        ("'0x01'::BLOB || '0x02'::BLOB", "0x0102"),
        ("upper(to_base64('0x05'))", "BQ=="),
        ("hex(coalesce('0x05', unhex('00')))", "05"),
        ("octet_length('0x05'::BLOB)", 1),
        ("octet_length('vitalik'::BLOB)", 7),
        ("hex(unhex('0x05'))", "05"),
        ("upper('0xab')", "0XAB"),
        # Places of a macro's text are none of this one.
        (f"to_0x(unhex('05')) || '{'é' * 60}'", f"0x05{'é' * 60}"),
        (f"to_0x(unhex('05')) || 'x{'é' * 60}'", f"0x05x{'é' * 60}"),
    ],
)
def test_hex_that_a_function_is_given_means_bytes(
    desk: Desk, expression: str, bytes_: str | int
) -> None:
    assert desk.rows(f"SELECT {expression}") == [[bytes_]]


@pytest.mark.parametrize(
    "condition",
    [
        f"list_contains([address], '{HEX}'::BLOB)",
        f"list_contains(['{HEX}'::BLOB, '0x00'::BLOB], address)",
        f"list_has_any([address], ['{HEX}'::BLOB])",
        f"hex(address) = hex('{CHECKSUM}'::BLOB)",
        f"to_0x(address) = to_0x('{CHECKSUM}'::BLOB)",
    ],
)
def test_hex_that_a_function_is_given_finds_rows(desk: Desk, condition: str) -> None:
    assert desk.rows(f"SELECT address FROM logs WHERE {condition}") == [[HEX]]


@corpus(
    "expression",
    [
        f"list_contains(['{HEX}', '0x00']::BLOB[], address)",
        "hex('05'::BLOB)",
        "hex('0xabc'::BLOB)",
        "hex(('0x' || '05')::BLOB)",
        "hex(lower('0X05')::BLOB)",
        "octet_length(BLOB '0x05')",
    ],
)
def test_text_that_a_function_is_given_for_bytes_is_refused(desk: Desk, expression: str) -> None:
    assert "unhex" in str(desk.refusal(f"SELECT {expression} FROM logs").hint)


@corpus(
    "call",
    ["uint_to_bytes(x)", "mul_exact(x, 2)", "mod_exact(7, x)", "sum_exact(x)", "from_wei(x)"],
)
@corpus("length", [0, 200])
def test_bytes_are_no_digits(desk: Desk, call: str, length: int) -> None:
    refused = desk.refusal(f"SELECT {call} FROM (SELECT unhex('31') AS x){' ' * length}")
    assert "bytes_to_uint" in str(refused.hint)


def test_a_sum_of_unsigned_and_signed_is_not_rounded(desk: Desk) -> None:
    most = f"{2**128 - 1}::UHUGEINT"
    for sign in "+-":
        refused = desk.refusal(f"SELECT {most} {sign} 1::HUGEINT")
        assert f"::BIGNUM {sign} b" in str(refused.hint)
    assert desk.rows(f"SELECT {most}::BIGNUM + 1::HUGEINT") == [[str(2**128)]]


def test_hex_in_a_join_means_bytes(desk: Desk) -> None:
    sql = (
        f"SELECT count(*) FROM logs a JOIN logs b ON a.address = b.address AND b.address = '{HEX}'"
    )
    assert desk.rows(sql) == [[1]]


def test_hex_beside_text_stays_text(desk: Desk) -> None:
    assert desk.rows(f"SELECT count(*) FROM logs WHERE owner = '{HEX}'") == [[1]]
    assert desk.rows(f"SELECT '{HEX}'") == [[HEX]]


@corpus(
    "condition",
    [
        f"address = '{HEX[2:]}'",
        "address = '0xabc'",
        "address = 'vitalik.eth'",
        "address = owner",
        "address = lower(owner)",
        "owner::BLOB = address",
        "address IN (SELECT owner FROM logs)",
        "[address] = [owner]",
        f"address IN (SELECT '{HEX}')",
        f"address IN (VALUES ('{HEX}'))",
        f"address = ANY(['{HEX[2:]}'])",
        f"address = ANY(['{HEX}', 'vitalik'])",
        f"address IN ['{HEX}'] AND owner IN ['{HEX}']",
        f"address = ANY(SELECT '{HEX}')",
        f"(address, 1) = ('{HEX}', 1)",
        f"(address, 1) IN (('{HEX}', 1))",
        f"struct_pack(a := address) = struct_pack(a := '{HEX}')",
        f"address = lower('{HEX}')",
        "keccak256(owner) IS NULL",
        "to_0x(owner) IS NULL",
        f"to_0x('{HEX}') IS NULL",
    ],
)
def test_other_text_beside_bytes_is_refused_with_the_cure(desk: Desk, condition: str) -> None:
    refused = desk.refusal(f"SELECT 1 FROM logs\nWHERE {condition}")
    assert "unhex" in str(refused.hint)
    assert refused.facts.get("line") == 2


@pytest.mark.parametrize(
    "join",
    [
        "JOIN logs b ON a.address = b.owner",
        "JOIN (SELECT owner AS address FROM logs) b USING (address)",
        "NATURAL JOIN (SELECT owner AS address FROM logs) b",
        f", (VALUES ('{HEX}', 'vitalik')) t(a, name) WHERE address = t.a",
    ],
)
def test_bytes_and_text_are_not_joined(desk: Desk, join: str) -> None:
    assert "unhex" in str(desk.refusal(f"SELECT count(*) FROM logs a {join}").hint)


@corpus(
    "condition",
    [
        "address LIKE '0xd8%'",
        "address NOT ILIKE '0xd8%'",
        "address SIMILAR TO '0xd8.*'",
        "address ^@ '0xd8'",
        "starts_with(address, '0xd8')",
        "regexp_matches(address, '^0xd8')",
        "left(address, 4) = '0xd8'",
        f"address::VARCHAR = '{HEX}'",
        "CAST(address AS VARCHAR) LIKE '0xd8%'",
        "'0x' || address IS NULL",
        "concat('0x', address) IS NULL",
        "[address]::VARCHAR[] IS NULL",
        "[address]::VARCHAR IS NULL",
        "{'a': [address]}::VARCHAR IS NULL",
        "map([1], [address])::VARCHAR IS NULL",
        "address::JSON IS NULL",
        "[address]::JSON IS NULL",
        "format('{}', [address]) IS NULL",
        "to_json(address) IS NULL",
        "to_json(logs) IS NULL",
        "array_to_json([address]) IS NULL",
        "row_to_json({'a': address}) IS NULL",
        "json_array(owner, address) IS NULL",
        "json_object('a', address) IS NULL",
        "json_quote(address) IS NULL",
    ],
)
def test_bytes_are_not_read_as_text(desk: Desk, condition: str) -> None:
    refused = desk.refusal(f"SELECT 1 FROM logs WHERE {condition}")
    assert "to_0x(column)" in str(refused.hint)
    assert refused.facts["line"] == 1


@pytest.mark.parametrize("made", ["json_group_array(address)", "json_group_object(owner, address)"])
def test_json_of_many_rows_has_no_bytes_as_text(desk: Desk, made: str) -> None:
    assert "to_0x(column)" in str(desk.refusal(f"SELECT {made} FROM logs").hint)


def test_json_has_hex_where_it_is_asked_for(desk: Desk) -> None:
    sql = f"SELECT json_object('a', to_0x(address))::VARCHAR FROM logs WHERE address = '{HEX}'"
    assert desk.rows(sql) == [[f'{{"a":"{HEX}"}}']]


@corpus(
    "condition",
    [
        "address[1:2] = '0xd8da'",
        "address >= '0xd8' AND address < '0xd9'",
        "starts_with(to_0x(address), '0xd8')",
        f"to_0x(address) = '{HEX}'",
        f"checksum_address(address) = '{CHECKSUM}'",
        f"hex(address) = '{HEX[2:].upper()}'",
        f"lower(hex(address)) IN ('{HEX[2:]}')",
    ],
)
def test_prefixes_and_hex_as_text_find_what_they_say(desk: Desk, condition: str) -> None:
    assert desk.rows(f"SELECT address FROM logs WHERE {condition}") == [[HEX]]


@corpus(
    "condition",
    [
        f"hex(address) = '{HEX}'",
        f"hex(address) = '{HEX[2:]}'",
        f"hex(address) IN ('00', '{HEX}')",
        f"lower(hex(address)) = '{HEX}'",
        f"to_0x(address) = '{CHECKSUM}'",
        f"'{HEX}' = checksum_address(address)",
    ],
)
def test_hex_in_another_writing_is_refused_rather_than_not_found(
    desk: Desk, condition: str
) -> None:
    refused = desk.refusal(f"SELECT 1 FROM logs WHERE {condition}")
    assert "compare the bytes themselves" in str(refused.hint)


@pytest.mark.parametrize("value", ["0x634541…77d8bd", "0x634541...77d8bd", "634541…77d8bd"])
def test_a_value_that_was_shortened_on_screen_says_where_all_of_it_is(
    desk: Desk, value: str
) -> None:
    assert "--format csv" in str(desk.refusal(f"SELECT 1 FROM logs WHERE address = '{value}'").hint)


@pytest.mark.parametrize(
    ("sql", "cure"),
    [
        (f"SELECT 1 FROM logs WHERE address = {CHECKSUM}", "single quotes"),
        (f'SELECT 1 FROM logs WHERE address = "{CHECKSUM}"', "single quotes"),
        ("SELECT length(data) FROM logs", "octet_length(column)"),
        ("SELECT sum(value) FROM logs", "value_string::BIGNUM"),
        ("SELECT avg(value) FROM logs", "value_string::BIGNUM"),
        ("SELECT value + 1 + 'x'::BIGNUM FROM logs WHERE value * 2 > 1", "value_string::BIGNUM"),
        ("SELECT data::BIGNUM FROM logs", "bytes_to_uint(column)"),
        ("SELECT data::UHUGEINT FROM logs", "bytes_to_uint(column)"),
        ("SELECT sum(data) FROM logs", "bytes_to_uint(column)"),
        ("SELECT 1 FROM range(3) WHERE range > '2026-01-31'", "to_timestamp(timestamp)"),
        ("SELECT date_trunc('day', range) FROM range(3)", "to_timestamp(timestamp)"),
    ],
)
def test_what_is_often_written_otherwise_has_its_cure(desk: Desk, sql: str, cure: str) -> None:
    assert cure in str(desk.refusal(sql).hint)


def test_looking_at_bytes_needs_no_cure(desk: Desk) -> None:
    assert len(desk.rows("SUMMARIZE logs")) == 4
    assert len(desk.rows("DESCRIBE logs")) == 4


def test_hex_skips_the_row_groups_that_cannot_hold_it(desk: Desk) -> None:
    """By the least and greatest value of each, as for any other type."""
    rows = {"address": [bytes([n // 100]) + bytes([n % 100]) * 19 for n in range(400)]}
    file = desk.file.with_name("groups.parquet")
    pq.write_table(pa.table(rows), file, row_group_size=100)
    run = Run(relations=[Relation(view="logs", files=[str(file)])])
    found: list[list[str]] = []
    wanted = "0x02" + "07" * 19
    sql = f"EXPLAIN ANALYZE SELECT address FROM logs WHERE address = '{wanted}'"
    desk.engine.run(gate.check(desk.parser, sql), run, lambda page: found.extend(json.loads(page)))
    assert any("1 of 4 row groups" in line and "1 rows" in line for (line,) in found), found


def test_an_error_after_hex_names_the_callers_place(desk: Desk) -> None:
    refused = desk.refusal(f"SELECT 1 FROM logs WHERE address = '{HEX}' AND address = owner")
    assert refused.facts["column"] == len(f"SELECT 1 FROM logs WHERE address = '{HEX}' AND ") + 11


def test_a_plan_shows_bytes_as_they_were_written(desk: Desk) -> None:
    for sql in (f"EXPLAIN FROM logs WHERE address = '{CHECKSUM}'", f"EXPLAIN SELECT '{HEX}'::BLOB"):
        assert any(f"'{HEX}'::BLOB" in line for (line,) in desk.rows(sql)), sql


@pytest.mark.parametrize(
    ("condition", "filters"),
    [
        (f"address = '{CHECKSUM}'", [("=", [HEX])]),
        (f"address IN ('{HEX}', '0x00')", [("in", ["0x00", HEX])]),
        ("address >= '0xd8' AND address < '0xd9'", [("<", ["0xd9"]), (">=", ["0xd8"])]),
    ],
)
def test_hex_reaches_the_scan_of_hot_rows_as_bytes(
    desk: Desk, condition: str, filters: list[tuple[str, list[str]]]
) -> None:
    columns = [Column("block_number", "BIGINT"), Column("address", "BLOB")]
    relation = Relation(view="logs", columns=columns, hot_columns=columns, seam=0)
    statement = gate.check(desk.parser, f"SELECT 1 FROM logs WHERE {condition}")
    meant = understood(desk.parser, statement, {"logs": columns})
    explained = Explained([relation], Limits(), 1, "scratch")
    (scan,) = plan(desk.parser, meant, [relation], explained).values()
    found = sorted((each.comparison, sorted(map(str, each.values))) for each in scan.filters)
    assert found == filters
    written = conditions(scan.filters, [{"name": "address", "type": "bytea"}])
    assert len(written) == len(filters)
    assert all("decode('" in each for each in written)


def test_columns_that_differ_in_their_case_alone_are_told_apart_as_in_a_view(desk: Desk) -> None:
    columns = [Column("a", "BIGINT"), Column("A", "BLOB"), Column("a_1", "BLOB")]
    statement = gate.check(desk.parser, "SELECT 1 FROM logs WHERE a_1 = '0x00' AND a = 1")
    meant = understood(desk.parser, statement, {"logs": columns})
    assert meant.sql.endswith(r"WHERE a_1 = '\x00' AND a = 1")


@pytest.mark.parametrize("written", ["json", "csv", "arrow", "parquet"])
def test_an_error_on_a_row_names_the_callers_place_in_every_format(
    desk: Desk, written: Literal["json", "csv", "arrow", "parquet"]
) -> None:
    statement = gate.check(desk.parser, "SELECT 1,\n       CAST(owner || 'x' AS INT) FROM logs")
    run = Run(relations=[Relation(view="logs", files=[str(desk.file)])], format=written)
    with pytest.raises(InvalidQuery) as raised:
        desk.engine.run(statement, run, lambda page: None)
    assert (raised.value.facts["line"], raised.value.facts["column"]) == (2, 8)


@corpus(
    ("expression", "expected"),
    [
        ("to_0x(address)", HEX),
        ("checksum_address(address)", CHECKSUM),
        ("bytes_to_uint(data)", str(MAX)),
        ("bytes_to_int(data)", "-1"),
        ("uint_to_bytes(value::BIGNUM)", "0x" + "ff" * 32),
        ("mul_exact(value, value)", str(MAX * MAX)),
        ("div_exact(value::BIGNUM, 10)", str(MAX // 10)),
        ("mod_exact(value, 1000)", str(MAX % 1000)),
        ("value::BIGNUM + 1", str(MAX + 1)),
        ("to_0x(selector('transfer(address,uint256)'))", "0xa9059cbb"),
        (
            "topic('Transfer(address,address,uint256)')",
            "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        ),
        (
            "keccak256('0x')",
            "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
        ),
        ("to_0x(selector('f((uint256,(bool,bytes32[])[2])[],address)'))", "0xbad364fd"),
        ("from_wei(1500000000000000000)", "1.500000000000000000"),
        ("from_wei('-1')", "-0.000000000000000001"),
        ("from_units(2500000, 6)", "2.500000000000000000"),
        ("checksum_address(NULL)", None),
    ],
)
def test_functions_of_chain_data_are_exact(
    desk: Desk, expression: str, expected: str | None
) -> None:
    assert desk.rows(f"SELECT {expression} FROM logs WHERE address = '{HEX}'") == [[expected]]


def test_sums_of_wide_integers_are_exact(desk: Desk) -> None:
    assert desk.rows("SELECT sum_exact(value), sum_exact(bytes_to_uint(data)) FROM logs") == [
        [str(MAX + 1500000000000000000), str(MAX + 7)]
    ]
    uhugeint = "(2::UHUGEINT ** 0)::UHUGEINT + 340282366920938463463374607431768211454::UHUGEINT"
    assert desk.rows(f"SELECT sum_exact({uhugeint}) FROM range(2)") == [[str(2 * (2**128 - 1))]]


@corpus(
    ("expression", "cure"),
    [
        ("value::BIGNUM * value::BIGNUM", "mul_exact"),
        ("2 * value::BIGNUM", "mul_exact"),
        # Constants that DuckDB works out before it shows its plan.
        ("value::BIGNUM * 2::BIGNUM", "mul_exact"),
        ("CAST('2' AS BIGNUM) * value::BIGNUM", "mul_exact"),
        ("value::BIGNUM + 3::BIGNUM * (-2)::HUGEINT::BIGNUM", "mul_exact"),
        ("value::BIGNUM + (1 + 2)::BIGNUM * 2::BIGNUM", "plain numbers"),
        ("abs(bytes_to_int(data))", "greatest"),
        ("round(value::BIGNUM)", "whole"),
        ("value::BIGNUM // 2", "div_exact"),
        ("value::BIGNUM % 2", "mod_exact"),
        ("sum(1::UHUGEINT)", "sum_exact"),
        ("sum(1::UHUGEINT) OVER ()", "sum_exact"),
        ("value::BIGNUM ** 2", "mul_exact(a, a)"),
        ("2::BIGNUM ^ value::BIGNUM", "mul_exact(a, a)"),
        ("pow(value::BIGNUM, 2)", "mul_exact(a, a)"),
        ("power(5::BIGNUM, 3)", "mul_exact(a, a)"),
        ("product(value::BIGNUM)", "list_reduce"),
    ],
)
def test_what_would_be_rounded_is_refused_by_name(desk: Desk, expression: str, cure: str) -> None:
    assert cure in str(desk.refusal(f"SELECT {expression} FROM logs").hint)


@pytest.mark.parametrize("values", [f"'{HEX}'", f"'{HEX}'::BLOB"])
def test_bytes_are_not_pivoted_by_their_letters(desk: Desk, values: str) -> None:
    for pivot in (
        "PIVOT logs ON address IN ({}) USING count(*)",
        "FROM logs PIVOT (count(*) FOR address IN ({}))",
    ):
        assert "to_0x(column)" in str(desk.refusal(pivot.format(values)).hint)
    by_hex = f"PIVOT (SELECT address FROM logs) ON to_0x(address) IN ('{HEX}') USING count(*)"
    assert desk.rows(by_hex) == [[1]]


def test_constants_of_256_bits_are_what_they_are_and_hide_nothing(desk: Desk) -> None:
    """DuckDB has no JSON for them, and so none of the plan that holds one."""
    assert desk.rows(f"SELECT value FROM logs WHERE bytes_to_uint(data) = {MAX}") == [[str(MAX)]]
    assert desk.rows(f"SELECT value FROM logs WHERE value::BIGNUM >= {MAX - 1}") == [[str(MAX)]]
    refused = desk.refusal(f"SELECT value::BIGNUM * {MAX} FROM logs")
    assert "mul_exact" in str(refused.hint)
    refused = desk.refusal(
        f"SELECT 1 FROM logs WHERE bytes_to_uint(data) = {MAX} AND address = owner"
    )
    assert "is not bytes" in refused.message
    kept = "value::BIGNUM > -1::BIGNUM"
    assert desk.rows(f"SELECT -1::BIGNUM FROM logs WHERE {kept} AND address = '{HEX}'") == [["-1"]]
    refused = desk.refusal(f"SELECT 1 FROM logs WHERE {kept} AND address = 'hello'")
    assert "is not bytes" in refused.message
    assert refused.facts["column"] == len(f"SELECT 1 FROM logs WHERE {kept} AND address = ") + 1


@pytest.mark.parametrize(
    "expression",
    ["bytes_to_uint(data)::BIGINT", "TRY_CAST(value::BIGNUM AS HUGEINT)", "[value::BIGNUM]::INT[]"],
)
def test_numbers_that_would_lose_their_highest_digits_are_refused(
    desk: Desk, expression: str
) -> None:
    refused = desk.refusal(f"SELECT {expression} FROM logs")
    assert "highest digits" in refused.message
    assert "AS VARCHAR) AS" in str(refused.hint)


@pytest.mark.parametrize("given", ["0.4::DECIMAL(3, 1)", "'0.4'", "1 / 2", "'1_0'", "' 7'"])
def test_a_sum_of_what_is_no_whole_number_is_refused(desk: Desk, given: str) -> None:
    assert "is no whole number" in desk.refusal(f"SELECT sum_exact({given})").message


def test_rounding_that_is_asked_for_is_allowed(desk: Desk) -> None:
    said = "value::BIGNUM::DOUBLE * 2::DOUBLE, value::BIGNUM * 1e-18, sum(1::BIGINT) OVER ()"
    assert len(desk.rows(f"SELECT {said} FROM logs")) == 3
    # Of other integers everybody knows it; and this is how a unit is written.
    known = "sum(1) ** 2, pow(10, 18), product(2), sum(value::BIGNUM) / 10 ** 18"
    assert desk.rows(f"SELECT {known} FROM logs WHERE value = '1500000000000000000'") == [
        [1.0, 1e18, 2.0, 1.5]
    ]


def test_the_product_that_a_refusal_names_is_exact(desk: Desk) -> None:
    said = "list_reduce(list(x) FILTER (x IS NOT NULL), lambda a, b: mul_exact(a, b))"
    assert said in str(desk.refusal("SELECT product(value::BIGNUM) FROM logs").hint)
    assert desk.rows(f"SELECT {said} FROM (SELECT value::BIGNUM AS x FROM logs)") == [
        [str(MAX * 1500000000000000000)]
    ]


@corpus(
    "written",
    [
        "transfer",
        "transfer(address, uint256)",
        "transfer(address to,uint256 value)",
        "Transfer(address indexed,uint256)",
        "transfer(address,uint)",
        "transfer(address,uint256",
        "transfer(address,uint256))",
        "transfer(address,)",
        "transfer(adress,uint256)",
        "transfer()[]",
        "",
        "f" + "(" * 3000,
    ],
)
def test_a_signature_that_no_contract_has_is_refused(desk: Desk, written: str) -> None:
    for function in ("topic", "selector"):
        refused = desk.refusal(f"SELECT {function}('{written}')")
        assert "transfer(address,uint256)" in refused.message


def test_amounts_beyond_what_a_decimal_holds_say_what_is_exact(desk: Desk) -> None:
    refused = desk.refusal("SELECT sum(from_wei(value)) FROM logs")
    assert "div_exact(…, '1000000000000000000')" in refused.message
    assert "Python" not in refused.message


@pytest.mark.parametrize(
    "expression",
    [
        "checksum_address('0x00')",
        "bytes_to_uint(unhex(repeat('00', 33)))",
        "uint_to_bytes(-1)",
        "mul_exact(repeat('9', 5000), 2)",
        "from_units(1, 19)",
    ],
)
def test_functions_refuse_what_does_not_fit(desk: Desk, expression: str) -> None:
    assert "Traceback" not in desk.refusal(f"SELECT {expression}").message


def test_what_the_functions_are_made_of_cannot_be_called(desk: Desk) -> None:
    with pytest.raises(InvalidQuery):
        gate.check(desk.parser, "SELECT __trace_mul('1', '2')")
