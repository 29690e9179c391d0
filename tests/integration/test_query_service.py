"""The query service as a real process over TLS, on real Parquet files.

Only the Dispatcher is a stand-in: tests/support/query_service.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.authorization import READINGS
from tests.support.query_service import QueryService, query_service
from trace_platform.app.api_client.query_client import run_query
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.query_users import QueryUsers
from trace_platform.domain.errors import (
    BadInput,
    DispatcherUnreachable,
    InvalidQuery,
    NotFound,
    QueryTooLarge,
    Unavailable,
)
from trace_platform.query.service.dispatcher_client import DispatcherClient
from trace_platform.wire.query import QueryRecord

UINT256_MAX = 2**256 - 1
ENDLESS = "select count(*) from range(1000000) a, range(1000000) b, range(1000) c"

ROWS = pa.table(
    {
        "block_number": pa.array([1, 2, 3], pa.uint32()),
        "gas": pa.array([0, 7, 2**64 - 1], pa.uint64()),
        "block_hash": pa.array([bytes([i]) * 32 for i in (0, 1, 255)], pa.binary(32)),
        "fee": pa.array([Decimal(0), Decimal(5), Decimal(10) ** 37], pa.decimal128(38, 0)),
        "value_string": pa.array(["0", "1", str(UINT256_MAX)]),
        "value_binary": pa.array([None, b"\x01", b"\xff" * 32], pa.binary()),
        "value_f64": pa.array([0.0, 1.5, float("nan")], pa.float64()),
        "at": pa.array([0, 1, 1_700_000_000_000_000], pa.timestamp("us", "UTC")),
        "note": pa.array(["plain", "\x1b[31mred", "é"]),
    }
)
PEOPLE = pa.table(
    {"address": ["0xa", "0xb"], "person": ["Ann", "Bob"], "age": pa.array([31, 42], pa.int64())}
)
PARTS = [ROWS.slice(0, 2), ROWS.slice(2)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryService]:
    config = "[query]\nconcurrency = 1\nmemory_mb = 256\ntimeout_seconds = 30\nper_user = 4\n"
    files = tmp_path_factory.mktemp("files")
    with query_service(tmp_path_factory.mktemp("home"), config) as running:
        parts = [write(files / f"part-{n}.parquet", part) for n, part in enumerate(PARTS)]
        running.publish("blocks", parts, row_count=3)
        running.publish("labels", parts[:1], row_count=2)
        running.publish("empty", [])
        running.publish("people", [write(files / "people.parquet", PEOPLE)], pii=["person", "age"])
        purged = running.publish("purged", parts[:1])
        gone = [uri.replace("part-0", "gone") for uri in purged.files]
        running.dispatcher.datasets["purged"] = purged.model_copy(update={"files": gone})
        yield running


def write(path: Path, rows: pa.Table) -> Path:
    pq.write_table(rows, path)
    return path


def children_of(service: QueryService) -> set[psutil.Process]:
    return set(psutil.Process(service.pid).children())


def settled_children(service: QueryService, eventually: Any) -> set[psutil.Process]:
    """One of them stands ready. Those that earlier tests had killed are replaced by now."""
    run_query(service.home, "select 1")
    eventually(lambda: len(children_of(service)) == 3, "all children are there")
    return children_of(service)


def gone_from(before: set[psutil.Process], service: QueryService, eventually: Any) -> None:
    """One of them was killed, and there are as many again."""
    eventually(lambda: len(before - children_of(service)) == 1, "a child was killed")
    eventually(lambda: len(children_of(service)) == len(before), "another took its place")


def ask(service: QueryService, sql: str, token: str | None = None, **more: Any) -> httpx.Response:
    with service.client(token=token) as client:
        return client.post("/v1/query", json={"sql": sql, **more})


def running_ids(client: httpx.Client) -> list[str]:
    return [each["query_id"] for each in client.get("/v1/query").json()["queries"]]


def test_every_value_arrives_exactly(service: QueryService) -> None:
    answer = run_query(service.home, "select * from blocks order by block_number")
    assert {c.name: c.type for c in answer.columns} == {
        "block_number": "UINTEGER",
        "gas": "UBIGINT",
        "block_hash": "BLOB",
        "fee": "DECIMAL(38,0)",
        "value_string": "VARCHAR",
        "value_binary": "BLOB",
        "value_f64": "DOUBLE",
        "at": "TIMESTAMP WITH TIME ZONE",
        "note": "VARCHAR",
    }
    assert answer.rows == [
        [1, 0, "0x" + "00" * 32, "0", "0", None, 0.0, "1970-01-01T00:00:00+00:00", "plain"],
        [
            *(2, 7, "0x" + "01" * 32, "5", "1", "0x01", 1.5),
            *("1970-01-01T00:00:00.000001+00:00", "\x1b[31mred"),
        ],
        [
            *(3, 2**64 - 1, "0x" + "ff" * 32, str(10**37), str(UINT256_MAX), "0x" + "ff" * 32),
            *("NaN", "2023-11-14T22:13:20+00:00", "é"),
        ],
    ]
    blocks = service.dispatcher.datasets["blocks"]
    assert [(d.name, d.dataset_version) for d in answer.datasets] == [
        ("blocks", blocks.dataset_version)
    ]
    assert not answer.truncated
    assert answer.elapsed_ms > 0


def test_wide_integers_and_nested_values_stay_exact(service: QueryService) -> None:
    sql = (
        "select sum(gas) s, max(value_string::bignum) m, 1.50::decimal(9,2) d,"
        " [max(gas)::hugeint * 4] l, {'h': from_hex('ab')} t, date '2024-02-29' dt from blocks"
    )
    answer = run_query(service.home, sql)
    assert answer.rows == [
        [
            *(str(2**64 + 6), str(UINT256_MAX), "1.50", [str((2**64 - 1) * 4)]),
            *({"h": "0xab"}, "2024-02-29"),
        ]
    ]


@pytest.mark.parametrize(("limit", "truncated"), [(2, True), (3, False), (4, False)])
@pytest.mark.parametrize("format", ["json", "arrow", "csv", "parquet"])
def test_truncated_is_true_only_when_there_is_more(
    service: QueryService, limit: int, truncated: bool, format: str
) -> None:
    answer = ask(service, "select block_number from blocks", limit=limit, format=format)
    said = answer.json() if format in ("json", "parquet") else {}
    rows = said.get("row_count", answer.headers.get("X-Trace-Rows"))
    more = said.get("truncated", answer.headers.get("X-Trace-Truncated") == "true")
    assert (int(rows), more) == (min(limit, 3), truncated)


def test_datasets_join_and_are_named(service: QueryService) -> None:
    sql = "select count(*) from blocks b join labels l using (block_number)"
    answer = run_query(service.home, sql)
    assert (answer.rows, [d.name for d in answer.datasets]) == ([[2]], ["blocks", "labels"])


def test_arrow_has_the_rows_of_json_and_more_than_its_default_limit(service: QueryService) -> None:
    answer = ask(service, "select i, i::varchar t from range(3000) r(i)", format="arrow")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pydict() == {"i": list(range(3000)), "t": [str(i) for i in range(3000)]}
    assert answer.headers["X-Trace-Rows"] == "3000"
    assert UUID(answer.headers["X-Trace-Query-Id"])


def test_csv_is_csv(service: QueryService) -> None:
    answer = ask(service, "select block_hash h, 'a,b' t, null n from blocks limit 1", format="csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.text.splitlines() == ["h,t,n", "0x" + "00" * 32 + ',"a,b",']


def test_parquet_is_a_file_behind_a_link_of_its_caller(service: QueryService) -> None:
    other = QueryUsers(service.home).add("stranger")
    export = ask(service, "select block_number, fee from blocks", format="parquet").json()
    with service.client() as client:
        file = client.get(export["link"])
    assert hashlib.sha256(file.content).hexdigest() == export["sha256"]
    assert len(file.content) == export["bytes"]
    assert pq.read_table(io.BytesIO(file.content)).to_pydict() == {
        "block_number": [1, 2, 3],
        "fee": ROWS["fee"].to_pylist(),
    }
    with service.client(token=other) as client:
        assert client.get(export["link"]).status_code == 404


def test_pages_hold_all_rows_once(service: QueryService) -> None:
    other = QueryUsers(service.home).add("pager")
    body = {"sql": "select i from range(25) r(i)", "page_rows": 10, "limit": 24}
    with service.client() as client, service.client(token=other) as stranger:
        answer = client.post("/v1/query", json=body).json()
        assert (answer["row_count"], answer["truncated"]) == (24, True)
        rows, following = answer["rows"], answer["next"]
        while following is not None:
            assert stranger.get(following).status_code == 404
            page = client.get(following).json()
            rows, following = rows + page["rows"], page["next"]
        assert rows == [[i] for i in range(24)]


def test_a_hundred_thousand_rows(service: QueryService) -> None:
    body = {"limit": 100_000, "page_rows": 100_000}
    answer = ask(service, "select i, i * 2 from range(200000) r(i)", **body).json()
    assert (answer["row_count"], answer["truncated"], answer["next"]) == (100_000, True, None)
    assert answer["rows"][-1] == [99_999, 199_998]


def test_a_dataset_without_files_says_so(service: QueryService) -> None:
    with pytest.raises(NotFound, match="'empty' has no committed data yet"):
        run_query(service.home, "select * from empty")


def test_a_dataset_whose_files_are_gone_says_so_without_paths(service: QueryService) -> None:
    with pytest.raises(Unavailable, match="a file of purged is gone") as gone:
        run_query(service.home, "select * from purged")
    assert str(service.home.root) not in gone.value.message


def test_an_unknown_dataset_has_its_place(service: QueryService) -> None:
    with pytest.raises(InvalidQuery, match="no dataset 'block'") as refused:
        run_query(service.home, "select *\nfrom block")
    assert (refused.value.facts["line"], refused.value.facts["column"]) == (2, 6)


def test_an_unknown_column_keeps_the_candidates(service: QueryService) -> None:
    with pytest.raises(InvalidQuery, match="block_numbr") as refused:
        run_query(service.home, "select\n  block_numbr from blocks")
    assert "block_number" in str(refused.value.facts["suggestions"])
    assert (refused.value.facts["line"], refused.value.facts["column"]) == (2, 3)


def test_a_syntax_error_has_its_position(service: QueryService) -> None:
    with pytest.raises(InvalidQuery, match=r"line 2, column 1\b"):
        run_query(service.home, "select 1 from\nwhere")


def test_requests_that_cannot_be_right_are_named(service: QueryService) -> None:
    with pytest.raises(BadInput, match="not valid") as refused:
        run_query(service.home, "select 1", 1_000_001)
    assert "body.limit" in str(refused.value.facts)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic é"}]
)
def test_only_a_valid_token_is_served(service: QueryService, headers: dict[str, str]) -> None:
    with service.client() as client:
        client.headers.pop("Authorization")
        sent = {name.encode(): value.encode() for name, value in headers.items()}
        paths = ["/v1/datasets", "/v1/query", "/v1/queries", f"/v1/exports/{uuid4()}", "/metrics"]
        answers = [
            client.post("/v1/query", json={"sql": "select 1"}, headers=sent),
            client.post("/v1/task/query", json={"sql": "select 1"}, headers=sent),
            client.delete(f"/v1/query/{uuid4()}", headers=sent),
            *(client.get(path, headers=sent) for path in paths),
        ]
        for answer in answers:
            # No key of tasks is known here: whether a token is one cannot be told.
            assert answer.status_code in (401, 503)
            assert answer.headers["content-type"] == "application/problem+json"
        assert client.get("/healthz").json() == {"status": "ok"}


def test_a_users_token_is_sent_as_bearer(service: QueryService) -> None:
    token = service.home.secret("user_token")
    with service.client() as client:
        for written, opens in READINGS:
            sent = {"Authorization": written.format(token)}
            answer = client.get("/v1/query", headers=sent)
            assert answer.status_code == (200 if opens else 401), written


def test_a_user_who_is_removed_is_a_stranger_at_once(service: QueryService) -> None:
    users = QueryUsers(service.home)
    token = users.add("leaver")
    assert ask(service, "select 1", token).status_code == 200
    users.remove("leaver")
    assert ask(service, "select 1", token).status_code == 401


def test_personal_columns_are_masked_unless_granted(service: QueryService) -> None:
    users = QueryUsers(service.home)
    granted, other = users.add("doctor", pii=["people"]), users.add("clerk", pii=["blocks"])
    sql = "select address, person, age from people order by address"
    shown = ask(service, sql, granted).json()
    assert shown["rows"] == [["0xa", "Ann", 31], ["0xb", "Bob", 42]]
    assert shown["datasets"][0]["masked"] == []
    for token in (other, None):
        hidden = ask(service, sql, token).json()
        assert hidden["rows"] == [["0xa", "***", None], ["0xb", "***", None]]
        assert hidden["datasets"][0]["masked"] == ["person", "age"]
        # Neither a condition nor a join tells what is behind the mask.
        counted = "select count(*) from people where person = 'Ann' or age > 0"
        assert ask(service, counted, token).json()["rows"] == [[0]]


def test_a_misspelt_personal_column_is_shown_to_nobody_who_is_not_granted(
    service: QueryService, tmp_path: Path
) -> None:
    granted = QueryUsers(service.home).add("speller", pii=["misspelt"])
    files = [write(tmp_path / "misspelt.parquet", PEOPLE)]
    service.publish("misspelt", files, pii=["persn", "AGE"], pii_missing=["persn"])
    refused = ask(service, "select person from misspelt")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "did you mean person?" in refused.json()["hint"]
    assert ask(service, "select person from misspelt", granted).json()["rows"] == [["Ann"], ["Bob"]]
    # Where only the files tell, such as of an older generation: what nobody knows about is masked.
    service.publish("misspelt", files, pii=["persn", "AGE"], not_personal=["Address"])
    masked = ask(service, "from misspelt").json()
    assert masked["rows"] == [["0xa", "***", None], ["0xb", "***", None]]
    assert masked["datasets"][0]["masked"] == ["person", "age"]
    headers = ask(service, "from misspelt", format="csv").headers
    assert headers["X-Trace-Masked"] == "misspelt.person,misspelt.age"


def test_what_a_dataset_is_called_now_is_on_record_whatever_it_was_asked_for_by(
    service: QueryService, tmp_path: Path
) -> None:
    token = QueryUsers(service.home).add("renamer", pii=["customers"])
    files = [write(tmp_path / "renamed.parquet", PEOPLE)]
    service.publish("renamed", files, pii=["person"], published_as="customers", label="customers")
    answer = ask(service, "select person from renamed", token).json()
    assert [each["name"] for each in answer["datasets"]] == ["renamed"]
    [record] = [r for r in service.dispatcher.history if str(r.query_id) == answer["query_id"]]
    assert (record.pii, record.datasets[0].name) == ({"customers": ["person"]}, "customers")


def test_who_saw_personal_columns_is_on_record_before_the_answer(service: QueryService) -> None:
    token = QueryUsers(service.home).add("nurse", pii=["*"])
    answer = ask(service, "select person from people", token).json()
    [record] = [r for r in service.dispatcher.history if str(r.query_id) == answer["query_id"]]
    assert (record.caller, record.kind) == ("nurse", "user")
    assert record.pii == {"people": ["age", "person"]}


@pytest.mark.parametrize(
    "sql",
    [
        "select error(string_agg(person, ',')) from people",
        "select cast(string_agg(person, ',') as int) from people",
    ],
)
def test_an_error_that_shows_personal_values_is_on_record_before_it_is_seen(
    service: QueryService, sql: str
) -> None:
    token = QueryUsers(service.home).add(f"prober{len(sql)}", pii=["people"])
    seen = len(service.dispatcher.history)
    answer = ask(service, sql, token)
    assert answer.status_code == 422
    assert "Ann" in answer.text
    [record] = [r for r in service.dispatcher.history[seen:] if r.caller == f"prober{len(sql)}"]
    assert (record.error, record.pii) == ("invalid_query", {"people": ["age", "person"]})
    assert "Ann" not in ask(service, sql).text


def test_what_was_kept_opens_to_no_other_token_or_grant(service: QueryService) -> None:
    users = QueryUsers(service.home)
    token = users.add("keeper", pii=["people"])
    export = ask(service, "select person from people", token, format="parquet").json()
    paged = ask(service, "select person from people", token, page_rows=1).json()

    def statuses(token: str) -> list[int]:
        with service.client(token=token) as client:
            return [client.get(link).status_code for link in (export["link"], paged["next"])]

    assert statuses(token) == [200, 200]
    users.grant("keeper", [])
    assert statuses(token) == [404, 404], "a grant that is gone"
    users.grant("keeper", ["people"])
    assert statuses(token) == [200, 200]
    users.remove("keeper")
    assert statuses(users.add("keeper", pii=["people"])) == [404, 404], "another of that name"


def test_odd_names_and_moments_are_refused_and_cost_no_child(
    service: QueryService, eventually: Any
) -> None:
    before = settled_children(service, eventually)
    for sql in (
        f"select * from {'a' * 600}",
        "from blocks at (timestamp => timestamp '0001-01-01 00:00:00+10:00')",
        "from blocks at (timestamp => '9999-12-31T23:59:59-10:00')",
    ):
        assert ask(service, sql).status_code == 422, sql
    with service.client() as client:
        for name in ("%2e%2e", "a%20b", "Ünïcode", "a" * 600):
            assert client.get(f"/v1/datasets/{name}").status_code in (404, 405, 422), name
    assert children_of(service) == before


def test_masked_columns_are_named_in_headers_whatever_their_letters(
    service: QueryService, tmp_path: Path
) -> None:
    rows = pa.table({"имя": ["x"], "n": [1]})
    service.publish("odd", [write(tmp_path / "odd.parquet", rows)], pii=["имя"])
    answer = ask(service, "from odd", format="csv")
    assert answer.headers["X-Trace-Masked"] == "odd.%D0%B8%D0%BC%D1%8F"
    assert answer.text.splitlines() == ["имя,n", "***,1"]


def test_answers_that_nobody_reads_to_the_end_leave_nothing_open(
    service: QueryService, eventually: Any
) -> None:
    process = psutil.Process(service.pid)
    sql = "select repeat('x', 1000) || i from range(40000) r(i)"
    ask(service, sql, format="csv")
    open_files = process.num_fds()
    for _ in range(5):
        with (
            service.client() as client,
            client.stream("POST", "/v1/query", json={"sql": sql, "format": "csv"}) as answer,
        ):
            assert answer.status_code == 200
    eventually(lambda: process.num_fds() <= open_files, "their files are closed")


def test_history_has_the_hash_and_never_the_statement(
    service: QueryService, eventually: Any
) -> None:
    sql = "select 'a private literal' from blocks"
    answer = ask(service, sql).json()
    refused = "select 'another one' from nowhere"
    assert ask(service, refused).status_code == 422
    digests = {hashlib.sha256(text.encode()).hexdigest() for text in (sql, refused)}

    def records() -> list[QueryRecord]:
        return [r for r in service.dispatcher.history if r.sql_sha256 in digests]

    eventually(lambda: len(records()) == 2, "both queries are on record")
    assert {r.error for r in records()} == {None, "invalid_query"}
    [good] = [r for r in records() if r.error is None]
    assert str(good.query_id) == answer["query_id"]
    assert (good.caller, good.row_count, good.pii) == ("owner", 3, {})
    assert [d.name for d in good.datasets] == ["blocks"]
    assert good.bytes > 0
    everything = service.log.read_text() + str(service.dispatcher.history)
    assert "private literal" not in everything
    assert "another one" not in everything


def test_a_query_is_cancelled_by_its_id(service: QueryService, eventually: Any) -> None:
    other = QueryUsers(service.home).add("meddler")
    query_id, before = str(uuid4()), settled_children(service, eventually)
    answers: list[httpx.Response] = []
    thread = threading.Thread(
        target=lambda: answers.append(ask(service, ENDLESS, query_id=query_id))
    )
    thread.start()
    with service.client() as client, service.client(token=other) as meddler:
        eventually(lambda: running_ids(client) == [query_id], "it runs")
        assert meddler.get("/v1/query").json()["queries"] == []
        assert meddler.delete(f"/v1/query/{query_id}").status_code == 404
        assert client.delete(f"/v1/query/{query_id}").status_code == 204
        thread.join(60)
        [answer] = answers
        assert (answer.status_code, answer.json()["code"]) == (409, "query_canceled")
        gone_from(before, service, eventually)
        assert client.delete(f"/v1/query/{query_id}").status_code == 404
    assert run_query(service.home, "select count(*) from blocks").rows == [[3]]


def test_beyond_their_share_a_user_is_told_when_to_come_back(
    service: QueryService, eventually: Any
) -> None:
    held = [threading.Thread(target=ask, args=(service, ENDLESS)) for _ in range(4)]
    for thread in held:
        thread.start()
    with service.client() as client:
        eventually(lambda: len(running_ids(client)) == 4, "all are under way")
        refused = client.post("/v1/query", json={"sql": "select 1"})
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_queries")
        assert int(refused.headers["Retry-After"]) >= 1
        for query_id in running_ids(client):
            client.delete(f"/v1/query/{query_id}")
    for thread in held:
        thread.join(60)


def test_metrics_count_what_happened(service: QueryService) -> None:
    ask(service, "select 1")
    with service.client() as client:
        figures = client.get("/metrics").text
    assert 'trace_queries_total{kind="user",outcome="answered"}' in figures
    assert "trace_queries_running 0.0" in figures


def test_a_dispatcher_that_stays_away_is_named() -> None:
    async def scenario() -> None:
        client = DispatcherClient("http://127.0.0.1:1", "t", patience_s=0.2)
        try:
            with pytest.raises(DispatcherUnreachable, match="does not answer"):
                await client.datasets()
        finally:
            await client.close()

    asyncio.run(scenario())


def test_a_restarting_dispatcher_is_a_delay_not_an_error(service: QueryService) -> None:
    service.dispatcher.failures = ["503", "drop", "503", "drop"]
    assert run_query(service.home, "select count(*) from blocks").rows == [[3]]
    assert service.dispatcher.failures == []


def test_a_client_that_disconnects_stops_its_query(service: QueryService, eventually: Any) -> None:
    before = settled_children(service, eventually)
    trusted = ssl.create_default_context(cafile=service.home.tls / "ca.pem")
    leaving = HTTPSConnection(service.url.removeprefix("https://"), context=trusted)
    headers = {"Authorization": f"Bearer {service.home.secret('user_token')}"}
    headers["Content-Type"] = "application/json"
    leaving.request("POST", "/v1/query", json.dumps({"sql": ENDLESS}), headers)
    with service.client() as client:
        eventually(lambda: running_ids(client), "it runs")
    leaving.close()
    gone_from(before, service, eventually)
    assert run_query(service.home, "select count(*) from blocks").rows == [[3]]


def test_killed_children_are_replaced(service: QueryService, eventually: Any) -> None:
    killed = children_of(service)
    for child in killed:
        child.kill()
        child.wait(60)
    assert run_query(service.home, "select count(*) from blocks").rows == [[3]]
    eventually(lambda: len(children_of(service) - killed) >= 1, "there are others")


def test_a_result_that_is_too_large_is_refused_whole(service: QueryService) -> None:
    sql = "select repeat('x', 1000) || i from range(500000) r(i)"
    with pytest.raises(QueryTooLarge, match="larger than"):
        run_query(service.home, sql, 500_000)
    assert run_query(service.home, "select 1").rows == [[1]]


def test_nothing_is_left_in_the_scratch_folder(service: QueryService) -> None:
    run_query(service.home, "select count(*) from blocks")
    files = [path for path in service.home.query.rglob("*") if path.is_file()]
    assert files == []


def test_sigterm_stops_cleanly_and_takes_the_children_along(service: QueryService) -> None:
    children = psutil.Process(service.pid).children()
    assert service.stop() == 0
    assert children
    assert not any(child.is_running() for child in children)
    assert list(service.home.query.iterdir()) == []
    with pytest.raises(Unavailable, match="no running instance") as refused:
        run_query(service.home, "select 1")
    assert "trace up" in (refused.value.hint or "")
    service.start()


def test_an_orderly_stop_tells_queries_to_come_back(service: QueryService, eventually: Any) -> None:
    """Both of them: the one that runs, and the one that waits for its place."""
    with service.client() as client, ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(ask, service, ENDLESS) for _ in range(2)]
        eventually(lambda: len(running_ids(client)) == 2, "both are under way")
        assert service.stop() == 0
        answers = [each.result(60) for each in asked]
    service.start()
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["content-type"] == "application/problem+json"
        assert int(answer.headers["Retry-After"]) >= 1


def test_sigkill_leaves_no_child_behind(service: QueryService) -> None:
    children = children_of(service)
    service.kill()
    for child in children:
        child.wait(60)
    service.start()


def test_a_home_that_never_ran_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no running instance") as refused:
        run_query(Home(tmp_path), "select 1")
    assert "trace up" in (refused.value.hint or "")
    assert list(tmp_path.iterdir()) == []
