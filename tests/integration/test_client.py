"""The Python client and the commands against the real query service, on real files."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.support.query_service import QueryService, query_service
from trace_platform.app.instance.query_users import QueryUsers
from trace_platform.client import Client
from trace_platform.domain.errors import (
    BadInput,
    InvalidQuery,
    NotFound,
    QueryCanceled,
    TraceError,
    Unauthenticated,
)

UINT256_MAX = 2**256 - 1
ENDLESS = "select count(*) from range(1000000) a, range(1000000) b, range(1000) c"
COUNT = 25_000
BLOCKS = pa.table(
    {
        "block_number": pa.array(range(COUNT), pa.uint32()),
        "gas": pa.array([2**64 - 1 - n for n in range(COUNT)], pa.uint64()),
        "block_hash": pa.array([n.to_bytes(32, "big") for n in range(COUNT)], pa.binary(32)),
        "fee": pa.array([Decimal(n) for n in range(COUNT)], pa.decimal128(38, 0)),
        "value_string": [str(UINT256_MAX - n) for n in range(COUNT)],
    }
)
PEOPLE = pa.table({"address": ["0xa", "0xb"], "person": ["Ann", "Bob"], "age": [31, 42]})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryService]:
    files = tmp_path_factory.mktemp("files")
    pq.write_table(BLOCKS, files / "blocks.parquet")
    pq.write_table(PEOPLE, files / "people.parquet")
    config = "[query]\nconcurrency = 1\nmemory_mb = 256\ntimeout_seconds = 30\nper_user = 1\n"
    with query_service(tmp_path_factory.mktemp("home"), config) as running:
        running.home.secret("user_token")
        running.publish("blocks", [files / "blocks.parquet"], row_count=COUNT)
        running.publish("people", [files / "people.parquet"], row_count=2, pii=["person", "age"])
        yield running


@pytest.fixture(scope="module")
def client(service: QueryService) -> Iterator[Client]:
    with Client.local(service.home.root) as found:
        yield found


def test_every_value_arrives_exactly(service: QueryService, client: Client) -> None:
    result = client.query("select * from blocks order by block_number")
    table = result.to_arrow()
    assert table.column_names == BLOCKS.column_names
    for name in BLOCKS.column_names:
        assert table[name].to_pylist() == BLOCKS[name].to_pylist()
    version = service.dispatcher.datasets["blocks"].dataset_version
    assert result.datasets == [f"blocks@{version}"]
    assert (len(result), result.truncated) == (COUNT, False)
    assert result.elapsed_ms > 0


def test_what_was_read_is_told_with_its_moment_and_what_was_masked(client: Client) -> None:
    moments = ["2026-01-31T12:00:00+00:00", "2026-02-01T12:00:00+00:00"]
    then, later = (f"blocks at (timestamp => timestamp '{each[:19]}')" for each in moments)
    counts = (f"(select count(*) from {each})" for each in (then, later, "blocks", "people"))
    result = client.query(f"select {', '.join(counts)}")
    assert len(result.datasets) == 4
    assert result.moments == [f"blocks@{each}" for each in moments]
    assert result.masked == ["people.person", "people.age"]


def test_uint256_sums_exactly_here_and_there(client: Client) -> None:
    frame = client.query("select value_string from blocks limit 3").to_pandas()
    assert sum(map(int, frame["value_string"])) == 3 * UINT256_MAX - 3
    [row] = client.query("select sum(value_string::bignum) as v, sum(gas) as g from blocks").rows()
    assert int(row["v"]) == sum(UINT256_MAX - n for n in range(COUNT))
    assert int(row["g"]) == sum(2**64 - 1 - n for n in range(COUNT))


@pytest.mark.parametrize(("limit", "truncated"), [(2, True), (COUNT, False), (None, False)])
def test_a_limit_is_told(client: Client, limit: int | None, truncated: bool) -> None:
    result = client.query("select block_number from blocks", limit=limit)
    assert (len(result), result.truncated) == (limit or COUNT, truncated)


def test_no_rows_and_no_datasets(client: Client) -> None:
    result = client.query("select 1 as x where false")
    assert (result.rows(), result.datasets) == ([], [])
    assert result.to_arrow().column_names == ["x"]


def test_columns_of_one_name_stay_apart(client: Client) -> None:
    assert client.query("select 1 as x, 2 as x").rows() == [{"x": 1, "x_1": 2}]


def test_an_error_has_its_place(client: Client) -> None:
    with pytest.raises(InvalidQuery) as refused:
        client.query("select 1,\n  nonsense from blocks")
    assert (refused.value.facts["line"], refused.value.facts["column"]) == (2, 3)


def test_a_request_that_is_not_valid_names_the_field(client: Client) -> None:
    with pytest.raises(BadInput, match="limit: "):
        client.query("select 1", limit=0)


def test_an_export_is_a_file(client: Client, tmp_path: Path) -> None:
    done = client.export("select * from blocks", tmp_path / "blocks.parquet")
    assert pq.read_table(tmp_path / "blocks.parquet").num_rows == COUNT == done.row_count
    assert (tmp_path / "blocks.parquet").stat().st_size == done.bytes


def test_an_export_of_an_error_leaves_no_file(client: Client, tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery):
        client.export("select nonsense", tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_time_out_frees_the_place(service: QueryService, client: Client) -> None:
    with pytest.raises(QueryCanceled, match="time-out"):
        client.query(ENDLESS, timeout=0.5)
    assert client.query("select 1 as x").rows() == [{"x": 1}]


def test_another_thread_cancels_and_the_next_one_waits_its_turn(client: Client) -> None:
    failed: list[TraceError] = []

    def ask() -> None:
        try:
            client.query(ENDLESS)
        except TraceError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 60
    while not (running := client.running()):
        assert time.monotonic() < deadline
    # One user has one place: this one is told to come back, and does.
    waiting = threading.Timer(0.3, lambda: client.cancel(running[0].query_id))
    waiting.start()
    assert client.query("select 1 as x").rows() == [{"x": 1}]
    asking.join(60)
    assert [type(error) for error in failed] == [QueryCanceled]
    with pytest.raises(NotFound):
        client.cancel(running[0].query_id)


def test_users_see_what_they_are_granted(service: QueryService) -> None:
    users = QueryUsers(service.home)
    ca = service.home.tls / "ca.pem"
    sql = "select person, age from people where person = 'Ann' or person = '***' order by address"
    with Client(service.url, users.add("ana"), ca) as ana:
        assert ana.query(sql).rows() == [{"person": "***", "age": None}] * 2
        users.grant("ana", ["people"])
        assert ana.query(sql).rows() == [{"person": "Ann", "age": 31}]
        users.remove("ana")
        with pytest.raises(Unauthenticated):
            ana.query(sql)


def trace(
    service: QueryService, *arguments: str, input: str = ""
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trace_platform.cli", *arguments]
    return subprocess.run(
        [*command, "--home", str(service.home.root)], input=input, capture_output=True, text=True
    )


def test_the_command_follows_pages(service: QueryService) -> None:
    sql = "select block_number as n from blocks order by 1"
    shown = trace(service, "query", sql, "--json", "--limit", "25000")
    assert [row["n"] for row in json.loads(shown.stdout)] == list(range(COUNT))


def test_the_command_writes_every_format(service: QueryService, tmp_path: Path) -> None:
    for suffix in ("json", "csv", "arrow", "parquet"):
        target = tmp_path / f"rows.{suffix}"
        done = trace(service, "query", "from blocks order by 1", "--output", str(target))
        assert done.returncode == 0, done.stderr
        assert f"{target}: 25,000 rows · " in done.stderr
    assert len(json.loads((tmp_path / "rows.json").read_text())) == COUNT
    assert pa.csv.read_csv(tmp_path / "rows.csv").num_rows == COUNT
    with pa.ipc.open_stream(tmp_path / "rows.arrow") as stream:
        assert stream.read_all().num_rows == COUNT
    assert pq.read_metadata(tmp_path / "rows.parquet").num_rows == COUNT


def test_the_command_says_what_was_masked_and_where_an_error_is(
    service: QueryService, tmp_path: Path
) -> None:
    shown = trace(service, "query", "select * from people")
    assert "people: person, age masked" in shown.stdout
    for name in ("rows.csv", "rows.arrow", "rows.parquet", "rows.json"):
        wrote = trace(service, "query", "from people", "--output", str(tmp_path / name))
        assert "people: person, age masked" in wrote.stderr
    wrong = trace(service, "query", "select nonsense from blocks")
    assert wrong.returncode == 1
    assert "  1 | select nonsense from blocks\n             ^\n" in wrong.stderr


def test_statements_from_a_pipe(service: QueryService) -> None:
    script = "\\format csv\nselect 1 as a; select 2 as b;\nselect nonsense; select 3 as c;"
    done = trace(service, "sql", input=script)
    assert (done.returncode, done.stdout) == (1, "a\n1\nb\n2\n")
    assert "error [invalid_query]" in done.stderr
