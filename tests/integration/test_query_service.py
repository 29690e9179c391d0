"""The query service as a real process over TLS, on real Parquet files.

Only the Dispatcher is a stand-in: it answers `GET /internal/datasets` and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from trace_platform.app.home import Home
from trace_platform.app.query_client import list_datasets, run_query
from trace_platform.cli import query as query_command
from trace_platform.domain.errors import (
    BadInput,
    DispatcherUnreachable,
    InvalidQuery,
    NotFound,
    PortInUse,
    Unavailable,
)
from trace_platform.drivers.https import Listen
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.query.children import ChildPool
from trace_platform.query.dispatcher_client import DispatcherClient
from trace_platform.query.messages import Limits
from trace_platform.query.serve import serve
from trace_platform.wire.query import ResolvedDataset, ResolveResponse

UINT256_MAX = 2**256 - 1
SERVICE_TOKEN = "service-secret"
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


class FakeDispatcher(ThreadingHTTPServer):
    """Published datasets, and a list of ways to fail before the next good answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.datasets: list[ResolvedDataset] = []
        self.failures: list[str] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FakeDispatcher

    def do_GET(self) -> None:
        failure = self.server.failures.pop(0) if self.server.failures else ""
        if failure == "drop":
            self.close_connection = True
            return
        known = self.headers["X-Trace-Service-Token"] == SERVICE_TOKEN
        body = ResolveResponse(datasets=self.server.datasets).model_dump_json().encode()
        self.send_response(503 if failure else 200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def make_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def dataset(name: str, *files: str, rows: int = 0) -> ResolvedDataset:
    return ResolvedDataset(
        name=name,
        dataset_uuid=uuid.uuid4(),
        dataset_version=uuid.uuid4(),
        files=list(files),
        row_count=rows,
    )


_SERVE = """
import asyncio, json, os, sys
from pathlib import Path
from trace_platform.drivers.https import Listen
from trace_platform.drivers.https import Listen
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.query.messages import Limits
from trace_platform.query.serve import serve
port, tls, ready, objects, given = json.loads(sys.argv[1])
asyncio.run(serve(
    Listen("127.0.0.1", port, Path(tls, "ca.pem"), Path(tls, "key.pem")),
    ca=None,
    store=LocalStore(objects),
    on_ready=lambda: os.write(ready, b"r"),
    limits=Limits(timeout_s=30, memory_mb=256),
    children=1,
    **given,
))
"""


@dataclass
class Service:
    home: Home
    port: int
    dispatcher: FakeDispatcher
    log: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        read_end, write_end = os.pipe()
        given = {
            "dispatcher_url": self.dispatcher.url,
            "service_token": SERVICE_TOKEN,
            "user_token": self.home.secret("user_token"),
        }
        place = [self.port, str(self.home.tls), write_end, str(self.home.objects)]
        command = [sys.executable, "-c", _SERVE, json.dumps([*place, given])]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, pass_fds=[write_end])
        os.close(write_end)
        with os.fdopen(read_end, "rb") as ready:
            assert ready.read(1) == b"r", self.log.read_text()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    @property
    def child(self) -> psutil.Process:
        [child] = psutil.Process(self.process.pid).children()
        return child

    def client(self, timeout_s: float = 30.0) -> httpx.Client:
        token = self.home.secret("user_token")
        return httpx.Client(
            base_url=f"https://localhost:{self.port}",
            headers={"Authorization": f"Bearer {token}"},
            verify=_trusting(self.home),
            timeout=timeout_s,
            trust_env=False,
        )


def _trusting(home: Home) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=home.tls / "ca.pem")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = Home(tmp_path_factory.mktemp("home"))
    make_certificate(home.tls)
    store = LocalStore(str(home.objects))
    dispatcher = FakeDispatcher()
    dispatcher.datasets = _publish(store)
    port = free_port()
    home.instance_file.write_text(json.dumps({"ports": {"query": port}}))
    running = Service(home, port, dispatcher, home.logs / "query.jsonl")
    running.start()
    try:
        yield running
    finally:
        running.stop()
        dispatcher.stop()


def _publish(store: LocalStore) -> list[ResolvedDataset]:
    parts = [ROWS.slice(0, 2), ROWS.slice(2)]
    uris = [f"s3://trace-data/blocks/part-{i}.parquet" for i in range(len(parts))]
    for uri, part in zip(uris, parts, strict=True):
        filesystem, path = store.filesystem(uri)
        filesystem.create_dir(os.path.dirname(path))
        pq.write_table(part, path, filesystem=filesystem)
    return [
        dataset("blocks", *uris, rows=3),
        dataset("labels", uris[0], rows=2),
        dataset("empty"),
        dataset("purged", "s3://trace-data/gone/part-0.parquet", rows=1),
    ]


def test_every_value_arrives_exactly(service: Service) -> None:
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
    assert answer.datasets == ["blocks"]
    assert not answer.truncated
    assert answer.elapsed_ms > 0


def test_wide_integers_and_nested_values_stay_exact(service: Service) -> None:
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
def test_truncated_is_true_only_when_there_is_more(
    service: Service, limit: int, truncated: bool
) -> None:
    answer = run_query(service.home, "select block_number from blocks", limit)
    assert (answer.row_count, answer.truncated) == (min(limit, 3), truncated)
    assert len(answer.rows) == answer.row_count


def test_datasets_join_and_are_named(service: Service) -> None:
    sql = "select count(*) from blocks b join labels l using (block_number)"
    answer = run_query(service.home, sql)
    assert (answer.rows, answer.datasets) == ([[2]], ["blocks", "labels"])


def test_a_hundred_thousand_rows(service: Service) -> None:
    answer = run_query(service.home, "select i, i * 2 from range(200000) r(i)", 100_000)
    assert (answer.row_count, answer.truncated) == (100_000, True)
    assert answer.rows[-1] == [99_999, 199_998]


def test_a_dataset_without_files_says_so(service: Service) -> None:
    with pytest.raises(NotFound, match="'empty' has no committed data yet"):
        run_query(service.home, "select * from empty")


def test_a_dataset_whose_files_are_gone_says_so_without_paths(service: Service) -> None:
    with pytest.raises(Unavailable, match="a file of purged is gone") as gone:
        run_query(service.home, "select * from purged")
    assert str(service.home.root) not in gone.value.message


def test_an_unknown_dataset_suggests_names(service: Service) -> None:
    with pytest.raises(InvalidQuery, match="no published dataset 'block'") as refused:
        run_query(service.home, "select * from block")
    assert refused.value.hint == "did you mean blocks?"
    assert "labels" in refused.value.facts["datasets"]  # type: ignore[operator]


def test_an_unknown_column_keeps_the_candidates(service: Service) -> None:
    with pytest.raises(InvalidQuery, match=r'"block_numbr" not found[^$]*"block_number"'):
        run_query(service.home, "select block_numbr from blocks")


def test_a_syntax_error_has_its_position(service: Service) -> None:
    with pytest.raises(InvalidQuery, match=r"line 2, column 1\b"):
        run_query(service.home, "select 1 from\nwhere")


def test_requests_that_cannot_be_right_are_named(service: Service) -> None:
    with pytest.raises(BadInput, match="not valid") as refused:
        run_query(service.home, "select 1", 100_001)
    assert "body.limit" in str(refused.value.facts)


def test_files_stay_out_of_the_catalog(service: Service) -> None:
    listed = list_datasets(service.home)
    assert {d.name: (d.file_count, d.row_count) for d in listed.datasets} == {
        "blocks": (2, 3),
        "labels": (1, 2),
        "empty": (0, 0),
        "purged": (1, 1),
    }
    with service.client() as client:
        assert "s3://" not in client.get("/v1/datasets").text


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic é"}]
)
def test_only_a_valid_token_is_served(service: Service, headers: dict[str, str]) -> None:
    with service.client() as client:
        client.headers.pop("Authorization")
        sent = {name.encode(): value.encode() for name, value in headers.items()}
        answers = [
            client.post("/v1/query", json={"sql": "select 1"}, headers=sent),
            client.get("/v1/datasets", headers=sent),
        ]
        for answer in answers:
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] == "unauthenticated"
        assert client.get("/healthz").json() == {"status": "ok"}


def test_a_restarting_dispatcher_is_a_delay_not_an_error(service: Service) -> None:
    service.dispatcher.failures = ["503", "drop", "503", "drop"]
    assert run_query(service.home, "select count(*) from blocks").rows == [[3]]
    assert service.dispatcher.failures == []


def test_a_dispatcher_that_stays_away_is_named() -> None:
    async def scenario() -> None:
        client = DispatcherClient(f"http://127.0.0.1:{free_port()}", "t", patience_s=0.2)
        try:
            with pytest.raises(DispatcherUnreachable, match="does not answer"):
                await client.datasets()
        finally:
            await client.close()

    asyncio.run(scenario())


def test_a_wrong_service_token_is_not_retried() -> None:
    dispatcher = FakeDispatcher()

    async def scenario() -> None:
        client = DispatcherClient(dispatcher.url, "wrong", patience_s=60)
        try:
            with pytest.raises(Exception, match="401"):
                await client.datasets()
        finally:
            await client.close()

    try:
        asyncio.run(scenario())
    finally:
        dispatcher.stop()


def test_a_client_that_disconnects_stops_its_query(service: Service) -> None:
    child = service.child
    with service.client(timeout_s=0.5) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/query", json={"sql": ENDLESS})
    child.wait(10)
    assert run_query(service.home, "select count(*) from blocks").rows == [[3]]


def test_a_killed_child_is_replaced(service: Service) -> None:
    killed = service.child
    killed.kill()
    killed.wait(10)
    assert run_query(service.home, "select count(*) from blocks").rows == [[3]]
    assert service.child.pid != killed.pid


def test_queries_beyond_the_queue_are_told_to_retry() -> None:
    async def scenario() -> None:
        pool = ChildPool(1, Limits(memory_mb=128), max_waiting=1)
        await pool.start()
        try:
            runs = (pool.run("select 1", 1, {}, lambda _: []) for _ in range(3))
            results = await asyncio.gather(*runs, return_exceptions=True)
        finally:
            await pool.close()
        assert [isinstance(r, Unavailable) for r in results] == [False, False, True]

    asyncio.run(scenario())


def test_a_port_in_use_is_named(service: Service) -> None:
    tls = service.home.tls
    start = serve(
        Listen("127.0.0.1", service.port, tls / "ca.pem", tls / "key.pem"),
        dispatcher_url="http://localhost",
        service_token="",
        user_token="",
        ca=None,
        store=LocalStore("/"),
        on_ready=lambda: None,
    )
    with pytest.raises(PortInUse, match=str(service.port)):
        asyncio.run(start)


def test_the_log_holds_the_hash_and_not_the_sql(service: Service) -> None:
    run_query(service.home, "select 'a private literal'")
    log = service.log.read_text()
    assert "sql_sha256" in log
    assert "a private literal" not in log


def test_sigterm_stops_cleanly_and_takes_the_children_along(service: Service) -> None:
    children = psutil.Process(service.process.pid).children()
    assert service.stop() == 0
    assert children
    assert not any(child.is_running() for child in children)
    with pytest.raises(Unavailable, match="not running") as refused:
        run_query(service.home, "select 1")
    assert "trace up" in (refused.value.hint or "")
    service.start()


def test_sigkill_leaves_no_child_behind(service: Service) -> None:
    child = service.child
    service.process.kill()
    service.process.wait()
    child.wait(10)
    service.start()


def test_a_home_that_never_ran_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no running instance") as refused:
        run_query(Home(tmp_path), "select 1")
    assert "trace up" in (refused.value.hint or "")
    assert list(tmp_path.iterdir()) == []


Cli = Callable[..., str]


@pytest.fixture
def cli(service: Service) -> Cli:
    app = typer.Typer()
    app.command()(query_command.query)

    def run(*arguments: str, input: str | None = None) -> str:
        result = CliRunner().invoke(
            app, [*arguments, "--home", str(service.home.root)], input=input, catch_exceptions=False
        )
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


def test_cli_table_aligns_numbers_and_shows_escapes(cli: Cli) -> None:
    shown = cli("select gas, note, block_hash, value_binary from blocks order by gas limit 2")
    assert "│   7 │ \\x1b[31mred" in shown
    assert "\x1b[31mred" not in shown
    assert "0x" + "01" * 32 in shown
    assert "NULL" in shown
    assert "2 rows · " in shown
    assert shown.rstrip().endswith("ms · blocks")


def test_cli_reads_the_statement_from_its_input(cli: Cli) -> None:
    assert "│ 3 │" in cli(input="select count(*) as n from blocks")
    assert "│ 3 │" in cli("-", input="select count(*) as n from blocks")


def test_cli_says_when_there_is_more(cli: Cli) -> None:
    shown = cli("select gas from blocks", "--limit", "1")
    assert "first 1 row, there are more" in shown


def test_cli_json_and_csv_are_complete(cli: Cli) -> None:
    sql = "select block_hash h, fee, fee, null x from blocks order by block_number limit 1"
    assert json.loads(cli(sql, "--format", "json")) == [
        {"h": "0x" + "00" * 32, "fee": "0", "fee_1": "0", "x": None}
    ]
    assert cli(sql, "--format", "csv") == "h,fee,fee,x\n0x" + "00" * 32 + ",0,0,\n"


def test_cli_writes_a_file_in_the_format_of_its_name(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    assert cli("select 1 as a, 'b,c' as b", "--output", str(target)) == ""
    assert target.read_text() == 'a,b\n1,"b,c"\n'


def test_long_hex_loses_its_middle_only_on_a_narrow_terminal(service: Service) -> None:
    answer = run_query(service.home, "select block_hash from blocks where block_number = 2")
    narrow = query_command.render(answer, query_command.Format.table, 40)
    assert "0x010101…010101" in narrow
    assert "0x" + "01" * 32 in query_command.render(answer, query_command.Format.table, 200)
