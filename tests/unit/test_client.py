"""`trace_platform.client` against a scripted service: what arrives, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.support.scripted_query_api import (
    VERSION,
    Reply,
    ScriptedApi,
    arrow_reply,
    facts,
    refusal,
    rows_reply,
    scripted_api,
)
from trace_platform.app.api_client.query_client import ask_rows, connect, pages, whole
from trace_platform.cli import app
from trace_platform.client import Client
from trace_platform.client.whole_file import whole_file
from trace_platform.domain.errors import (
    BadInput,
    InvalidQuery,
    NotFound,
    QueryCanceled,
    SetupError,
    TooManyQueries,
    Unauthenticated,
    Unavailable,
    UnknownDataset,
)

TABLE = pa.table({"n": pa.array(range(5_000), pa.uint32()), "text": ["é"] * 5_000})
SQL = "select n, text from blocks"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ScriptedApi]:
    with scripted_api(tmp_path / "home") as server:
        server.queries = [arrow_reply(TABLE)]
        yield server


@pytest.fixture
def client(api: ScriptedApi) -> Iterator[Client]:
    with Client.local(api.home.root) as found:
        yield found


def test_rows_arrive_as_arrow_pandas_and_dicts(client: Client, api: ScriptedApi) -> None:
    result = client.query(SQL, limit=7, at="2026-01-31T12:00:00Z")
    [asked] = api.asked
    assert {name: asked[name] for name in ("sql", "limit", "at", "format")} == {
        "sql": SQL,
        "limit": 7,
        "at": "2026-01-31T12:00:00Z",
        "format": "arrow",
    }
    assert result.to_arrow().equals(TABLE)
    assert result.to_pandas()["n"].sum() == sum(range(5_000))
    assert result.rows()[4_999] == {"n": 4_999, "text": "é"}
    assert len(result) == 5_000
    assert result.datasets == [f"blocks@{VERSION}"]
    assert (result.truncated, result.elapsed_ms) == (False, 1.25)
    assert len(result.query_id) == 36
    assert repr(result) == f"<Result: 5,000 rows of 2 columns from blocks@{VERSION}>"


def test_what_was_masked_and_at_which_moment_it_was_read_is_told(
    client: Client, api: ScriptedApi
) -> None:
    moment = "blocks@2026-01-31T12:00:00+00:00"
    said = {"X-Trace-Masked": "people.%D0%B8%2C,people.age", "X-Trace-Moments": moment}
    api.queries = [arrow_reply(TABLE), arrow_reply(TABLE, **said)]
    plain, result = client.query(SQL), client.query(SQL)
    assert (plain.masked, plain.moments) == ([], [])
    assert (result.masked, result.moments) == (["people.и,", "people.age"], [moment])


def test_what_is_not_given_is_not_sent(client: Client, api: ScriptedApi) -> None:
    client.query(SQL)
    assert set(api.asked[0]) == {"sql", "format", "query_id"}


def test_no_rows_keep_their_columns(client: Client, api: ScriptedApi) -> None:
    api.queries = [arrow_reply(TABLE.slice(0, 0), **{"X-Trace-Datasets": ""})]
    result = client.query("select 1 where false")
    assert (len(result), result.datasets) == (0, [])
    assert result.to_arrow().schema == TABLE.schema


def test_a_column_never_hides_another(client: Client, api: ScriptedApi) -> None:
    api.queries = [arrow_reply(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]))]
    assert client.query("select 1 x, 2 x").rows() == [{"x": 1, "x_1": 2}]


def test_uint256_stays_exact_in_pandas(client: Client, api: ScriptedApi) -> None:
    values = [str(2**256 - 1), "1"]
    api.queries = [arrow_reply(pa.table({"value_string": values}))]
    frame = client.query("select value_string from transactions").to_pandas()
    assert sum(map(int, frame["value_string"])) == 2**256


def test_what_may_be_missing_is_not_rounded_in_pandas(client: Client, api: ScriptedApi) -> None:
    """NumPy has no integer that may be missing: it would be a double."""
    table = pa.table(
        {
            "signed": pa.array([2**53 + 1, None], pa.int64()),
            "unsigned": pa.array([2**64 - 1, None], pa.uint64()),
            "decimal": pa.array([Decimal(10**38 - 1), None], pa.decimal128(38, 0)),
            "day": pa.array([date(9999, 12, 31), None], pa.date32()),
            "moment": pa.array(
                [datetime(9999, 12, 31, tzinfo=UTC), None], pa.timestamp("us", "UTC")
            ),
            "flag": pa.array([True, None], pa.bool_()),
            "hash": pa.array([b"\xff", None], pa.binary()),
            "list": pa.array([[2**53 + 1, None], None], pa.list_(pa.int64())),
        }
    )
    api.queries = [arrow_reply(table)]
    frame = client.query(SQL).to_pandas()
    assert pa.Table.from_pandas(frame, table.schema, preserve_index=False).equals(table)
    assert frame["signed"][0] == 2**53 + 1
    assert frame["signed"].sum() == 2**53 + 1


def test_polars_is_asked_for_only_when_it_is_wanted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SetupError, match="polars is not installed") as refused:
        client.query(SQL).to_polars()
    assert refused.value.hint == "pip install polars"


@pytest.mark.parametrize("cut", [0, 1, 1_000, -1])
def test_an_answer_that_breaks_off_is_no_answer(client: Client, api: ScriptedApi, cut: int) -> None:
    api.queries = [arrow_reply(TABLE, cut)]
    with pytest.raises(Unavailable, match="broke off"):
        client.query(SQL)


def test_fewer_rows_than_were_promised_are_no_answer(client: Client, api: ScriptedApi) -> None:
    api.queries = [arrow_reply(TABLE, **{"X-Trace-Rows": "5001"})]
    with pytest.raises(Unavailable, match="5,000 of 5,001 rows"):
        client.query(SQL)


def test_another_server_is_named_as_such(client: Client, api: ScriptedApi) -> None:
    api.queries = [lambda _: Reply(200, b"<html>")]
    with pytest.raises(Unavailable, match="not Trace's query service"):
        client.query(SQL)


def test_errors_are_those_that_the_service_named(client: Client, api: ScriptedApi) -> None:
    api.queries = [refusal(InvalidQuery("no column x", hint="did you mean n?", line=1, column=8))]
    with pytest.raises(InvalidQuery, match="no column x") as refused:
        client.query("select x from blocks")
    assert refused.value.hint == "did you mean n?"
    assert refused.value.facts == {"line": 1, "column": 8}
    assert api.canceled == []


def test_a_busy_service_is_asked_again_under_another_id(client: Client, api: ScriptedApi) -> None:
    busy = refusal(TooManyQueries("busy", retry_after_s=0.01))
    away = refusal(Unavailable("starting", retry_after_s=0.01))
    api.queries = [busy, away, busy, arrow_reply(TABLE)]
    assert len(client.query(SQL)) == 5_000
    assert len({each["query_id"] for each in api.asked}) == 4


def test_patience_ends(api: ScriptedApi) -> None:
    ca = api.home.tls / "ca.pem"
    api.queries = [refusal(TooManyQueries("busy", retry_after_s=60))]
    with (
        Client(api.url, api.token, ca, patience_s=20) as client,
        pytest.raises(TooManyQueries, match="busy"),
    ):
        client.query(SQL)
    assert len(api.asked) == 1


def test_what_waiting_does_not_mend_is_not_waited_for(client: Client, api: ScriptedApi) -> None:
    api.queries = [refusal(Unavailable("a file of blocks is gone"))]
    with pytest.raises(Unavailable, match="is gone"):
        client.query(SQL)
    assert len(api.asked) == 1


def test_a_time_out_stops_the_query_in_the_service(client: Client, api: ScriptedApi) -> None:
    api.queries = [api.until_canceled]
    with pytest.raises(QueryCanceled, match=r"after 2\.\d s .*waiting for the answer"):
        client.query(SQL, timeout=2)
    assert api.canceled == [api.asked[0]["query_id"]]


@pytest.mark.parametrize("is_full", [False, True])
def test_a_time_out_is_for_connecting_too(api: ScriptedApi, is_full: bool) -> None:
    """A server that never accepts: the handshake is not answered, or not even the connection."""
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4 if is_full else 0):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        url = f"https://localhost:{server.getsockname()[1]}"
        client = opened.enter_context(Client(url, api.token, api.home.tls / "ca.pem"))
        began = time.monotonic()
        with pytest.raises(Unavailable, match=rf"no connection to {url} after \d\.\d s .*: 0\.4 s"):
            client.query(SQL, timeout=0.4)
        assert time.monotonic() - began < 4


def test_a_time_out_ends_an_answer_that_drips(api: ScriptedApi) -> None:
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        with server.accept()[0] as caller, suppress(OSError):
            for letter in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 100:
                if not over.wait(0.05):
                    caller.send(bytes([letter]))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        began = time.monotonic()
        try:
            with (
                Client(url, api.token) as client,
                pytest.raises(QueryCanceled, match="waiting for the answer"),
            ):
                client.query(SQL, timeout=0.4)
        finally:
            over.set()
        assert time.monotonic() - began < 4


def test_a_time_out_that_is_none_is_refused(client: Client, api: ScriptedApi) -> None:
    for wrong in (0, -1, float("nan")):
        with pytest.raises(BadInput, match="time-out"):
            client.query(SQL, timeout=wrong)
    assert api.asked == []


def test_a_time_out_is_for_waiting_too(client: Client, api: ScriptedApi) -> None:
    api.queries = [refusal(TooManyQueries("busy", retry_after_s=60))]
    with pytest.raises(TooManyQueries):
        client.query(SQL, timeout=20)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("rows_were_read", [False, True])
def test_ctrl_c_stops_the_query_in_the_service(
    client: Client, api: ScriptedApi, rows_were_read: bool
) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert api.stopped.wait(60), "nobody cancelled the query"

    def answer(body: dict[str, Any]) -> Reply:
        if rows_were_read:
            return replace(arrow_reply(TABLE, 30_000)(body), then=interrupt)
        interrupt()
        return Reply(499)

    api.queries = [answer]
    with pytest.raises(KeyboardInterrupt):
        client.query(SQL)
    assert api.canceled == [api.asked[0]["query_id"]]


def test_threads_share_a_client(client: Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: client.query(SQL), range(32)))
    assert {len(result) for result in results} == {5_000}
    assert all(result.to_arrow().equals(TABLE) for result in results)


def test_queries_share_connections(client: Client, api: ScriptedApi) -> None:
    for _ in range(3):
        client.query(SQL)
        client.cancel(VERSION)
    assert api.connections == 1
    together = threading.Barrier(4)

    def answer(body: dict[str, Any]) -> Reply:
        together.wait(60)
        return arrow_reply(TABLE)(body)

    api.queries = [answer]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: client.query(SQL), range(12)))
    assert api.connections == 4


def test_a_process_does_not_use_the_connection_of_its_parent(api: ScriptedApi) -> None:
    code = f"""
import os
from trace_platform.client import Client
client = Client.local({str(api.home.root)!r})
assert len(client.query("select 1")) == 5_000
child = os.fork()
assert len(client.query("select 2")) == 5_000
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert len(client.query("select 3")) == 5_000
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(api.asked) == 4
    assert api.connections == 2


def test_an_export_arrives_whole(client: Client, api: ScriptedApi, tmp_path: Path) -> None:
    content = bytes(range(256)) * 5_000
    export(api, content, hashlib.sha256(content).hexdigest())
    done = client.export(SQL, tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").read_bytes() == content
    assert (done.bytes, done.row_count) == (len(content), 3)
    assert api.asked[0]["format"] == "parquet"


def test_a_damaged_export_leaves_what_was_there(
    client: Client, api: ScriptedApi, tmp_path: Path
) -> None:
    target = tmp_path / "rows.parquet"
    target.write_bytes(b"before")
    export(api, b"damaged", "0" * 64)
    with pytest.raises(Unavailable, match="not what the service exported"):
        client.export(SQL, target)
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["rows.parquet"]


def test_a_time_out_is_for_fetching_an_export_too(
    client: Client, api: ScriptedApi, tmp_path: Path
) -> None:
    content, over = b"rows", threading.Event()
    export(api, content, hashlib.sha256(content).hexdigest())
    api.gets["/v1/exports/1"] = Reply(200, content, cut=2, then=lambda: over.wait(30))
    try:
        with pytest.raises(QueryCanceled, match=r"after 0\.\d s .*waiting for the rest"):
            client.export(SQL, tmp_path / "rows.parquet", timeout=0.5)
    finally:
        over.set()
    assert not (tmp_path / "rows.parquet").exists()


@pytest.mark.parametrize("link", ["https://example.org/x", "//example.org/x", "x"])
def test_the_token_goes_to_the_service_alone(
    client: Client, api: ScriptedApi, tmp_path: Path, link: str
) -> None:
    export(api, b"", "0" * 64, link=link)
    with pytest.raises(Unavailable, match="not its own"):
        client.export(SQL, tmp_path / "rows.parquet")


def export(api: ScriptedApi, content: bytes, sha256: str, link: str = "/v1/exports/1") -> None:
    more = {
        "link": link,
        "bytes": len(content),
        "sha256": sha256,
        "expires_at": datetime.now(UTC).isoformat(),
    }
    answer = facts({"n": "BIGINT"}, 3) | more
    api.queries = [lambda _: Reply(200, json.dumps(answer).encode())]
    api.gets["/v1/exports/1"] = Reply(200, content)


def test_datasets_history_and_running_queries(client: Client, api: ScriptedApi) -> None:
    summary = {
        "name": "blocks",
        "dataset_uuid": str(VERSION),
        "dataset_version": str(VERSION),
        "columns": None,
        "row_count": 3,
        "state": "fresh",
        "newest_at": None,
    }
    record = {
        "query_id": str(VERSION),
        "caller": "owner",
        "kind": "user",
        "sql_sha256": "0" * 64,
        "format": "arrow",
        "datasets": [],
        "row_count": 1,
        "bytes": 2,
        "elapsed_ms": 3.0,
        "started_at": "2026-01-31T12:00:00Z",
    }
    api.gets["/v1/datasets"] = Reply(200, json.dumps({"datasets": [summary]}).encode())
    api.gets["/v1/queries?limit=5"] = Reply(200, json.dumps({"queries": [record]}).encode())
    api.gets["/v1/query"] = Reply(200, b'{"queries": []}')
    assert [each.name for each in client.datasets()] == ["blocks"]
    assert [each.caller for each in client.history(limit=5)] == ["owner"]
    assert client.running() == []
    client.cancel(VERSION)
    assert api.canceled == [str(VERSION)]


def test_a_dataset_that_is_not_there(client: Client, api: ScriptedApi) -> None:
    with pytest.raises(NotFound):
        client.dataset("no/such")
    body = b'{"code": "unknown_dataset", "detail": "there is no dataset"}'
    api.gets["/v1/datasets/no%2Fsuch"] = Reply(404, body)
    with pytest.raises(UnknownDataset, match="there is no dataset"):
        client.dataset("no/such")


def test_a_wrong_token_is_refused(api: ScriptedApi) -> None:
    with Client(api.url, "wrong", api.home.tls / "ca.pem") as client:
        with pytest.raises(Unauthenticated):
            client.query(SQL)
        assert "wrong" not in repr(client)


def test_a_token_is_never_shown_and_has_no_line_end(api: ScriptedApi) -> None:
    with Client(api.url, f"{api.token}\n", api.home.tls / "ca.pem") as client:
        assert len(client.query(SQL)) == 5_000
    for wrong in ("", "two\nlines", "clé"):
        with pytest.raises(BadInput) as refused:
            Client(api.url, wrong)
        assert "lines" not in str(refused.value)


def test_what_is_no_url_is_named() -> None:
    for wrong in ("localhost:7701", "ftp://localhost", "https://", "https://localhost:x", ""):
        with pytest.raises(BadInput, match="no URL of a service"):
            Client(wrong, "token")


def test_a_token_is_not_sent_where_others_can_read_it(api: ScriptedApi) -> None:
    for wrong in ("http://trace.example:7701", "http://10.0.0.5", "http://127.0.0.1@trace.example"):
        with pytest.raises(BadInput, match="shows your token") as refused:
            Client(wrong, "hunter2")
        assert "hunter2" not in str(refused.value)
    for right in ("http://localhost:7701", "http://127.0.0.1:7701", "https://trace.example"):
        Client(right, "hunter2").close()


def test_a_certificate_that_is_not_trusted_is_named(api: ScriptedApi) -> None:
    with Client(api.url, api.token) as client, pytest.raises(Unavailable, match="not trusted"):
        client.query(SQL)


def test_a_ca_that_is_no_certificate_is_named(api: ScriptedApi) -> None:
    with pytest.raises(SetupError, match="CA certificate"):
        Client(api.url, api.token, api.home.instance_file)


def test_an_instance_that_does_not_run_is_named(api: ScriptedApi) -> None:
    with Client.local(api.home.root) as client:
        api.shutdown()
        api.server_close()
        with pytest.raises(Unavailable, match="not running") as refused:
            client.query(SQL)
    assert "trace up" in (refused.value.hint or "")


def test_a_copy_of_a_home_does_not_reach_its_instance(api: ScriptedApi, tmp_path: Path) -> None:
    """It has the port, the certificate, the token and all marks of the one that runs."""
    copy = shutil.copytree(api.home.root, tmp_path / "copy")
    with pytest.raises(Unavailable, match="no running instance"):
        Client.local(copy)
    refused = CliRunner().invoke(app, ["query", SQL, "--home", str(copy)])
    assert isinstance(refused.exception, Unavailable), refused.output
    assert refused.exception.message == f"there is no running instance at {copy}"
    assert api.asked == []


def test_a_home_that_never_ran_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no running instance"):
        Client.local(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_home_is_found_as_the_command_finds_it(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_HOME", str(api.home.root))
    with Client.local() as client:
        assert len(client.query(SQL)) == 5_000


def test_importing_it_loads_no_service_and_no_engine() -> None:
    heavy = ["fastapi", "starlette", "pyspark", "duckdb", "psycopg", "pyarrow", "pandas"]
    code = f"import sys, trace_platform.client; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_whole_file_replaces_what_a_link_points_to(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    with whole_file(link) as file:
        file.write(b"after")
        assert target.read_text() == "before"
    assert (target.read_text(), link.is_symlink()) == ("after", True)
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400])
def test_a_file_in_the_place_of_another_is_never_open_to_more(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "rows"
    target.write_text("before")
    target.chmod(mode)
    before = os.umask(0)
    try:
        with whole_file(target) as file:
            file.write(b"after")
            modes = [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()]
    finally:
        os.umask(before)
    assert len(modes) == 2
    assert all(each & ~mode == 0 for each in modes)
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("after", mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_in_the_place_of_another_stays_its_owners(tmp_path: Path) -> None:
    target = tmp_path / "rows"
    target.touch(0o600)
    os.chown(target, 12345, 23456)
    with whole_file(target) as file:
        file.write(b"after")
    assert (target.stat().st_uid, target.stat().st_gid) == (12345, 23456)


def test_a_name_may_be_as_long_as_a_name_can_be(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 255)
    with whole_file(target) as file:
        file.write(b"rows")
    assert target.read_bytes() == b"rows"


def test_writers_of_the_same_file_do_not_mix(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with whole_file(target) as first:
        first.write(b"first")
        with whole_file(target) as second:
            second.write(b"the second")
        assert target.read_bytes() == b"the second"
    assert target.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [target]
    umask = os.umask(0o022)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with whole_file(tmp_path / "x") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_not_replaced() -> None:
    ours, device = os.openpty()
    path = os.ttyname(device)
    with whole_file(path) as file:
        file.write(b"rows")
    assert os.read(ours, 4) == b"rows"
    assert Path(path).is_char_device()
    os.close(ours)
    os.close(device)


def test_a_stream_that_was_redirected_to_a_file_goes_on_in_it(tmp_path: Path) -> None:
    target = tmp_path / "log"
    target.write_text("before\n")
    inode = target.stat().st_ino
    with target.open("ab") as log, whole_file(f"/dev/fd/{log.fileno()}") as file:
        file.write(b"rows\n")
    assert (target.read_text(), target.stat().st_ino) == ("before\nrows\n", inode)


def test_pages_follow_each_other(api: ScriptedApi) -> None:
    api.gets["/v1/query/x/pages/2"] = Reply(200, b'{"rows": [[3]], "next": null}')
    api.queries = [rows_reply({"n": "BIGINT"}, [[1], [2]], next="/v1/query/x/pages/2")]
    with connect(api.home) as connection:
        first = ask_rows(connection, {"sql": SQL})
        assert list(pages(connection, first)) == [[[1], [2]], [[3]]]
        assert whole(connection, first).rows == [[1], [2], [3]]
