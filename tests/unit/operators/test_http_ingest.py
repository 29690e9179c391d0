"""An HTTP endpoint's answer becomes a dataset: whole, or not at all; what does not fit is kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import Asked, HttpServer, Reply, http_server
from tests.support.ingested import Ingest
from trace_platform.domain.errors import EndpointRefused, EndpointUnreachable, IncompatibleSchema
from trace_platform.operators.http.config import Config


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as running:
        yield running


@pytest.fixture
def ingest(tmp_path: Path) -> Ingest:
    return Ingest(tmp_path)


TYPES = {"id": "int64", "name": "string"}


def config(server: HttpServer, **more: Any) -> Config:
    return Config(**{"url": f"{server.url}/v1/items", "types": TYPES} | more)


def items(*ids: int) -> list[dict[str, Any]]:
    return [{"id": each, "name": f"n{each}"} for each in ids]


# Values.


def test_values_are_those_of_the_declared_types_exactly(server: HttpServer, ingest: Ingest) -> None:
    server.says(
        '{"data": {"items": [{"ok": true, "n": "9223372036854775807", "f": 0.5, '
        '"price": 123456789012345678.99, "address": "0x00Ff", "day": "2026-01-31", '
        '"at": "2026-01-31T12:00:00+02:00", "quote": {"usd": 1.50}, "tags": [1.10, "x"]}, '
        '{"ok": null, "price": "1e3"}]}}'
    )
    types = {
        "ok": "bool",
        "n": "int64",
        "f": "float64",
        "price": "decimal(20,2)",
        "address": "binary(2)",
        "day": "date",
        "at": "timestamp",
        "usd": "decimal(9,4)",
        "tags": "string",
    }
    rows, rejected = ingest.rows(
        config(server, types=types, records="data.items", paths={"usd": "quote.usd"})
    )
    assert rejected == []
    assert rows[0] == {
        "ok": True,
        "n": 2**63 - 1,
        "f": 0.5,
        "price": Decimal("123456789012345678.99"),
        "address": b"\x00\xff",
        "day": date(2026, 1, 31),
        "usd": Decimal("1.5"),
        "at": datetime(2026, 1, 31, 10, tzinfo=UTC),
        "tags": '[1.10, "x"]',
    }
    assert rows[1] == dict.fromkeys(types) | {"price": Decimal(1000)}


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("int64", "1.5", "a number with decimals"),
        ("int8", 128, "a larger number"),
        ("int64", 10**400, "a larger number"),
        ("int64", True, "true or false"),
        ("float32", 1e39, "a larger number"),
        ("decimal(4,2)", "100", "a larger number"),
        ("decimal(4,2)", 0.125, "a number with more decimals"),
        ("bool", "yes", "text"),
        ("binary(2)", "0x00", "1 bytes"),
        ("binary", "00ff", "text that is not 0x"),
        ("date", "31.01.2026", "text that is no date"),
        ("timestamp", 1_700_000_000, "a number that is no time"),
        ("timestamp", "2026-01-31T12:00:00.123456700Z", "more than microseconds"),
        ("string", "\ud800", "half a character"),
    ],
)
def test_a_value_that_does_not_fit_rejects_its_record_with_the_reason(
    server: HttpServer, ingest: Ingest, kind: str, value: Any, said: str
) -> None:
    server.says([{"v": None}, {"v": value}])
    rows, (rejected,) = ingest.rows(config(server, types={"v": kind}))
    assert rows == [{"v": None}]
    assert rejected["reason"].startswith("column v is ")
    assert said in rejected["reason"]
    assert rejected["reason"].endswith(f", not {kind}")
    assert (rejected["page"], rejected["record"]) == (1, 2)
    assert rejected["row"].startswith('{"v": ')


def test_what_is_nested_without_end_rejects_its_record(server: HttpServer, ingest: Ingest) -> None:
    deep = "[" * 700 + "]" * 700
    server.says(f'[{{"v": "flat"}}, {{"v": {deep}}}]')
    rows, (rejected,) = ingest.rows(config(server, types={"v": "string"}))
    assert rows == [{"v": "flat"}]
    assert "nested too deep" in rejected["reason"]


def test_csv_and_lines_of_json_give_the_same_rows(server: HttpServer, ingest: Ingest) -> None:
    server.says('\ufeffname;id;more\n"a ""quoted""\nname";1;x\n;2;\n')
    csv = config(server, format="csv", delimiter=";")
    rows, _ = ingest.rows(csv)
    assert rows == [{"id": 1, "name": 'a "quoted"\nname'}, {"id": 2, "name": None}]
    server.says('{"id": 1, "name": "a \\"quoted\\"\\nname"}\n\n{"id": 2}\n')
    assert ingest.rows(config(server, format="jsonl"))[0] == rows


# The contract.

MORE = [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "24h": 1.5, "meta": {"x": 1}}]


def test_fields_that_are_no_columns_go_the_way_of_the_contract(
    server: HttpServer, ingest: Ingest
) -> None:
    server.says(MORE)
    rows, rejected = ingest.rows(config(server))
    assert (len(rows), rejected) == (2, [])
    contract = {"columns": "discard_row"}
    (row,), (reject,) = ingest.rows(config(server, schema_contract=contract), again=True)
    assert row["id"] == 1
    assert reject["reason"] == "the field 24h, meta is no column"
    assert reject["row"] == '{"id": 2, "name": "b", "24h": 1.5, "meta": {"x": 1}}'
    contract = {"columns": "freeze"}
    with pytest.raises(IncompatibleSchema, match="record 2 of page 1: the field 24h, meta"):
        ingest.tick(config(server, schema_contract=contract), again=True)


def test_columns_that_an_answer_brought_stay_with_their_types(
    server: HttpServer, ingest: Ingest
) -> None:
    evolving = config(server, schema_contract={"columns": "evolve"})
    server.says(MORE)
    rows, _ = ingest.rows(evolving)
    assert [row["_24h"] for row in rows] == [None, 1.5]
    assert rows[1]["meta"] == '{"x": 1}'
    server.says([{"id": 3, "name": "c", "24h": 2, "new": 2**70}, {"id": 4, "24h": "none"}])
    (row,), (reject,) = ingest.rows(evolving)
    assert row == {"id": 3, "name": "c", "_24h": 2.0, "meta": None, "new": str(2**70)}
    assert reject["reason"] == "column _24h is text, not float64"
    server.says([{"id": 5, "name": "d", "later": None}])
    assert "later" not in ingest.rows(evolving)[0][0]
    server.says([{"id": 5, "name": "d", "Name": "e"}])
    with pytest.raises(IncompatibleSchema, match="the column Name, beside name"):
        ingest.tick(evolving)


def test_values_of_another_type_go_the_way_of_the_contract(
    server: HttpServer, ingest: Ingest
) -> None:
    server.says([{"id": 1, "name": "a"}, {"id": "many", "name": "b"}])
    rows, rejected = ingest.rows(config(server, schema_contract={"data_type": "discard_value"}))
    assert (rows[1], rejected) == ({"id": None, "name": "b"}, [])
    with pytest.raises(IncompatibleSchema) as caught:
        ingest.tick(config(server, schema_contract={"data_type": "freeze"}), again=True)
    assert caught.value.message == "record 2 of page 1: column id is text, not int64"
    assert caught.value.facts == {"column": "id", "page": 1, "record": 2}


@pytest.mark.parametrize(
    ("body", "said", "hint"),
    [
        ([{"id": 1, "nmae": "a"}], r"has the column name \(string\)", "did you mean nmae"),
        ([{"id": "x", "name": "a"}], "none of 1 record fits: record 1 of page 1", "shape"),
        ([1, 2], "the record is no object", "shape"),
        ({"error": "busy", "code": 3}, "is an object, and no list; the document has code", ""),
    ],
)
def test_an_answer_of_another_shape_is_refused_and_what_changed_is_named(
    server: HttpServer, ingest: Ingest, body: Any, said: str, hint: str
) -> None:
    server.says(items(1))
    ingest.tick(config(server))
    before = dict(ingest.state)
    server.says(body)
    with pytest.raises(IncompatibleSchema, match=said) as caught:
        ingest.tick(config(server))
    assert hint in (caught.value.hint or "")
    assert ingest.state == before


def test_a_column_may_be_missing_everywhere_when_it_is_said_so(
    server: HttpServer, ingest: Ingest
) -> None:
    server.says([{"id": 1}])
    rows, _ = ingest.rows(config(server, optional=["name"]))
    assert rows == [{"id": 1, "name": None}]
    server.says([])
    assert ingest.rows(config(server)) == ([], [])


@pytest.mark.parametrize(
    ("format", "body", "said"),
    [
        ("json", "<html>", "not json: Expecting value in line 1, column 1"),
        ("json", '[{"id": NaN}]', "NaN is no JSON"),
        ("json", b"\xff", "byte 0 is no UTF-8"),
        ("json", '[{"id": 1e99999999999999999999}]', "an exponent beyond all bounds"),
        ("json", "[" * 100_000, "lists in lists"),
        ("csv", "id,name\n1\n", "line 2 has 1 values, not 2"),
        ("csv", 'id,name\n1,"half', "unexpected end of data"),
    ],
)
def test_half_an_answer_or_none_of_the_format_may_be_tried_again(
    server: HttpServer, ingest: Ingest, format: str, body: Any, said: str
) -> None:
    server.says(body)
    with pytest.raises(EndpointUnreachable, match=said) as caught:
        ingest.tick(config(server, format=format))
    assert caught.value.retryable


# Pages.


def _pages(asked: Asked) -> Reply:
    """Five records in pages of two, however they are asked for."""
    query = asked.query
    start = int(query.get("offset", 0)) or (int(query.get("page", 1)) - 1) * 2
    start = int(query.get("cursor", start))
    found = items(*range(5))[start : start + 2]
    more = start + 2 < 5
    link = f"<?cursor={start + 2}&kind=a>; rel=next"
    meta = {"next": start + 2 if more else None, "link": f"?cursor={start + 2}" if more else ""}
    return Reply({"data": found, "meta": meta}, headers={"Link": link} if more else {})


@pytest.mark.parametrize(
    ("paging", "requests"),
    [
        ({"type": "next_link"}, 3),
        ({"type": "next_link", "path": "meta.link"}, 3),
        ({"type": "cursor", "path": "meta.next"}, 3),
        ({"type": "page_number"}, 4),
        # The server gives two of those at once.
        ({"type": "offset", "limit": 100}, 4),
    ],
)
def test_pages_are_read_to_the_last_one(
    server: HttpServer, ingest: Ingest, paging: dict[str, Any], requests: int
) -> None:
    server.answer = _pages
    asked = config(server, params={"kind": "a", "deep": True}, records="data", paging=paging)
    rows, _ = ingest.rows(asked)
    assert [row["id"] for row in rows] == [0, 1, 2, 3, 4]
    assert len(server.asked) == requests
    if paging["type"] != "next_link":
        assert {each.query["kind"] for each in server.asked} == {"a"}
        assert {each.query["deep"] for each in server.asked} == {"true"}


def test_pages_without_end_are_refused(server: HttpServer, ingest: Ingest) -> None:
    server.answer = lambda asked: Reply({"data": items(len(server.asked)), "next": "abc"})
    cursor = {"type": "cursor", "path": "next"}
    with pytest.raises(EndpointRefused, match="page 2 leads back"):
        ingest.tick(config(server, records="data", paging=cursor))
    numbered = {"type": "page_number"}
    with pytest.raises(EndpointRefused, match="more than 7 pages"):
        ingest.tick(config(server, records="data", paging=numbered, max_pages=7))
    server.says("[" + " " * 1_000_001 + "]")
    with pytest.raises(EndpointRefused, match=r"there was room for 1\.0 MB"):
        ingest.tick(config(server, max_mb=1))


def test_an_endpoint_that_does_not_know_the_parameter_is_refused_at_its_second_page(
    server: HttpServer, ingest: Ingest
) -> None:
    server.says(items(1, 2))
    for paging in ({"type": "page_number", "param": "p"}, {"type": "offset", "limit": 2}):
        server.asked.clear()
        with pytest.raises(EndpointRefused, match="page 2 is page 1 again"):
            ingest.tick(config(server, paging=paging))
        assert len(server.asked) == 2


# What is posted.


def _posted(asked: Asked) -> Reply:
    """The same five records, to whom says in a document which they want."""
    page = asked.body["page"]
    found = _pages(Asked(asked.path, {each: str(page[each]) for each in page}, {}))
    return Reply({"took": asked.body["chain"], **found.body})


@pytest.mark.parametrize(
    ("paging", "last"),
    [
        ({"type": "cursor", "path": "meta.next", "param": "page.cursor"}, {"cursor": 4}),
        ({"type": "page_number", "param": "page.page"}, {"page": 4}),
        (
            {
                "type": "offset",
                "limit": 2,
                "offset_param": "page.offset",
                "limit_param": "page.limit",
            },
            {"offset": 5, "limit": 2},
        ),
    ],
)
def test_what_is_posted_says_which_page(
    server: HttpServer, ingest: Ingest, paging: dict[str, Any], last: dict[str, int]
) -> None:
    server.answer = _posted
    asked = config(
        server, body={"chain": [1], "page": {}}, params={"v": 2}, records="data", paging=paging
    )
    assert [row["id"] for row in ingest.rows(asked)[0]] == [0, 1, 2, 3, 4]
    assert server.asked[-1].body == {"chain": [1], "page": last}
    assert server.asked[-1].headers["content-type"] == "application/json"
    assert {each.query["v"] for each in server.asked} == {"2"}
    # Nothing says that it is the same but its bytes.
    assert ingest.tick(asked).outputs == []


GRAPHQL = {"query": "query($first: Int, $after: String) { ... }", "variables": {"first": 2}}
CONNECTION: dict[str, Any] = {
    "graphql": GRAPHQL,
    "records": "data.tokens.nodes",
    "paging": {
        "type": "cursor",
        "path": "data.tokens.pageInfo.endCursor",
        "has_more_path": "data.tokens.pageInfo.hasNextPage",
        "param": "after",
    },
}


def _graph(asked: Asked) -> Reply:
    """As Relay has it: the last page has a cursor, too."""
    start = int(asked.body["variables"].get("after", 0))
    info = {"hasNextPage": start + 2 < 5, "endCursor": str(min(start + 2, 5))}
    nodes = items(*range(5))[start : start + 2]
    return Reply({"data": {"tokens": {"nodes": nodes, "pageInfo": info}}})


def test_a_question_of_graphql_is_asked_page_by_page(server: HttpServer, ingest: Ingest) -> None:
    server.answer = _graph
    rows, _ = ingest.rows(config(server, **CONNECTION))
    assert [row["id"] for row in rows] == [0, 1, 2, 3, 4]
    told = [each.body["variables"] for each in server.asked]
    assert told == [{"first": 2}, {"first": 2, "after": "2"}, {"first": 2, "after": "4"}]
    assert {each.body["query"] for each in server.asked} == {GRAPHQL["query"]}
    # Where there is no such word, the last record's own.
    server.answer = lambda asked: Reply(
        {"data": {"tokens": items(*range(5))[asked.body["variables"].get("above", -1) + 1 :][:2]}}
    )
    last = {"type": "cursor", "path": "data.tokens.-1.id", "param": "above"}
    more = {"records": "data.tokens", "paging": last}
    assert len(ingest.rows(config(server, **CONNECTION | more), again=True)[0]) == 5


def test_an_answer_of_graphql_with_errors_is_no_answer(server: HttpServer, ingest: Ingest) -> None:
    half = {"data": {"tokens": {"nodes": items(1)}}, "errors": [{"message": "indexing_error"}]}
    server.says(half)
    for paging in (None, CONNECTION["paging"]):
        with pytest.raises(EndpointRefused, match="answers with errors: indexing_error"):
            ingest.tick(config(server, **CONNECTION | {"paging": paging}))
    server.says({"data": {"tokens": {"nodes": items(1), "pageInfo": {}}}})
    with pytest.raises(IncompatibleSchema, match="hasNextPage is neither true nor false"):
        ingest.tick(config(server, **CONNECTION))


# The same as before.


def test_an_answer_that_is_the_same_by_its_tag_costs_no_body_and_no_commit(
    server: HttpServer, ingest: Ingest
) -> None:
    server.says(items(1), etag='"a"')
    assert ingest.tick(config(server)).outputs
    assert ingest.tick(config(server)).outputs == []
    assert [each.headers.get("if-none-match") for each in server.asked] == [None, '"a"']
    assert ingest.log[-1] == "endpoint_unchanged {'pages': 1}"
    server.says(items(1, 2), etag='"b"')
    assert len(ingest.rows(config(server))[0]) == 2
    # What is said to be wrong is made anew.
    assert ingest.tick(config(server), again=True).outputs


def test_an_answer_that_is_the_same_by_its_bytes_is_not_committed_again(
    server: HttpServer, ingest: Ingest
) -> None:
    server.says(items(1), **{"Last-Modified": "Mon, 19 Nov 2026 10:00:00 GMT"})
    assert ingest.tick(config(server)).outputs
    assert ingest.tick(config(server)).outputs == []
    asked = server.asked[-1].headers
    assert asked["if-modified-since"] == "Mon, 19 Nov 2026 10:00:00 GMT"
    server.says(items(1))
    assert ingest.tick(config(server)).outputs == []
    assert ingest.tick(config(server)).outputs == []
    assert "if-modified-since" not in server.asked[-1].headers


def test_when_a_later_page_has_changed_all_pages_are_read_anew(
    server: HttpServer, ingest: Ingest
) -> None:
    tags = {"1": "a", "2": "b", "3": "c"}

    def answer(asked: Asked) -> Reply:
        page = asked.query["page"]
        headers = {"ETag": tags[page]}
        if asked.headers.get("if-none-match") == tags[page]:
            return Reply(status=304, headers=headers)
        return Reply(items(int(page)) if page != "3" else [], headers=headers)

    server.answer = answer
    paged = config(server, paging={"type": "page_number"})
    assert len(ingest.rows(paged)[0]) == 2
    assert ingest.tick(paged).outputs == []
    assert len(server.asked) == 6
    tags["2"] = "other"
    ingest.tick(paged)
    # Two looks, the second of which told; then all three.
    assert len(server.asked) == 6 + 2 + 3
