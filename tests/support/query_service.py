"""The query service as its own process over TLS, on real files: `trace serve query` on a home of
its own. Only the Dispatcher is a stand-in, which knows what a test has published; with a real one:
tests/support/query_instance.py."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import httpx

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import Instance, open_instance
from trace_platform.app.instance.settings import load_settings
from trace_platform.app.supervise.ready import is_ready
from trace_platform.domain.errors import TraceError, UnknownDataset
from trace_platform.drivers.lite.certificates import ensure_certificates
from trace_platform.drivers.problem import problem
from trace_platform.wire.query import (
    DatasetRef,
    QueryColumn,
    QueryRecord,
    RecordQueries,
    ResolvedDataset,
    ResolveRequest,
    ResolveResponse,
)

_START_S = 120.0
_STOP_S = 60.0


class StandInDispatcher(ThreadingHTTPServer):
    """Of the Dispatcher what the query service asks: datasets by their name as they are now, keys
    (none), and where to put its history."""

    daemon_threads = True

    def __init__(self, home: Home, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.datasets: dict[str, ResolvedDataset] = {}
        self.history: list[QueryRecord] = []
        # How the next calls fail before one is answered: "drop" the connection, or a status.
        self.failures: list[str] = []
        self.service_token = home.secret("service_token")
        files = ensure_certificates(home.tls)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.server, files.key)
        # The handshake is for the connection's own thread, not for the one that accepts.
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def resolve(self, ref: DatasetRef, *, files: bool) -> ResolvedDataset:
        found = self.datasets.get(ref.name or "")
        if found is None:
            raise UnknownDataset(f"there is no dataset {ref.name!r}", name=ref.name, suggestions=[])
        at = datetime.fromisoformat(ref.at) if ref.at else None
        return found.model_copy(update={"at": at} if files else {"at": at, "files": []})

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together
    server: StandInDispatcher

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/internal/jwks/task" else 404, b'{"keys": []}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        failure = self.server.failures.pop(0) if self.server.failures else ""
        if failure == "drop":
            self.close_connection = True
        elif failure:
            self._answer(int(failure), b"{}")
        elif self.headers["X-Trace-Service-Token"] != self.server.service_token:
            self._answer(401, b"{}")
        elif self.path == "/internal/datasets/resolve":
            self._resolve(ResolveRequest.model_validate_json(body))
        elif self.path == "/internal/queries":
            self.server.history += RecordQueries.model_validate_json(body).queries
            self._answer(200, b"{}")
        else:
            self._answer(404, b"{}")

    def _resolve(self, asked: ResolveRequest) -> None:
        try:
            found = [self.server.resolve(ref, files=asked.files) for ref in asked.datasets]
        except TraceError as error:
            refused = problem(error)
            self._answer(refused.status_code, bytes(refused.body))
        else:
            self._answer(200, ResolveResponse(datasets=found).model_dump_json().encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class QueryProcess:
    """`trace serve query` on a home whose dispatcher somebody else runs."""

    def __init__(self, home: Home, instance: Instance) -> None:
        self.home = home
        self.url = instance.url("query")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.home.logs / "query.jsonl"

    def client(self, timeout_s: float = 90.0, token: str | None = None) -> httpx.Client:
        return user_client(self.home, self.url, timeout_s, token)

    def start(self) -> None:
        command = [sys.executable, "-m", "trace_platform.cli", "serve", "query"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--home", str(self.home.root)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while not is_ready(self.home, "query", self._process.pid):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the query service did not start: {self.log.read_text()}")
            time.sleep(0.02)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class QueryService(QueryProcess):
    """Started and stopped by `query_service`."""

    def __init__(self, home: Home, instance: Instance) -> None:
        super().__init__(home, instance)
        self.dispatcher = StandInDispatcher(home, instance.port("dispatcher"))

    def publish(self, name: str, files: Sequence[Path], **facts: Any) -> ResolvedDataset:
        """Under that name from now on. The files are linked to where the service looks; `facts`
        are fields of ResolvedDataset."""
        folder = self.home.objects / "trace-data" / name / uuid.uuid4().hex
        folder.mkdir(parents=True)
        for file in files:
            os.link(file, folder / file.name)
        dataset = ResolvedDataset(
            name=name,
            dataset_uuid=uuid.uuid4(),
            dataset_version=uuid.uuid4(),
            columns=columns_of(files),
            files=[f"s3://trace-data/{name}/{folder.name}/{file.name}" for file in files],
            **{"published_as": name, "label": name} | facts,
        )
        self.dispatcher.datasets[name] = dataset
        return dataset


@contextmanager
def query_service(folder: Path, config: str = "") -> Iterator[QueryService]:
    """A running service. `config` is what its owner wrote into config.toml."""
    home = Home(folder)
    home.root.mkdir(parents=True, exist_ok=True)
    home.config_file.write_text(config)
    ensure_certificates(home.tls)
    service = QueryService(home, open_instance(home, load_settings(home)))
    try:
        service.start()
        try:
            yield service
        finally:
            service.stop()
    finally:
        service.dispatcher.stop()


def user_client(
    home: Home, url: str, timeout_s: float = 90.0, token: str | None = None
) -> httpx.Client:
    """Keeps its connection. Without a token: the instance's own."""
    return httpx.Client(
        base_url=url,
        headers={"Authorization": f"Bearer {token or home.secret('user_token')}"},
        verify=ssl.create_default_context(cafile=home.tls / "ca.pem"),
        timeout=timeout_s,
        trust_env=False,
    )


def columns_of(files: Sequence[Path]) -> list[QueryColumn] | None:
    """By DuckDB's names of types."""
    if not files:
        return None
    with duckdb.connect() as connection:
        found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(files[0])])
        return [QueryColumn(name=row[0], type=row[1]) for row in found.fetchall()]
