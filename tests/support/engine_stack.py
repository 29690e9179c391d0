"""Dispatchers and workers as processes of their own, as many as a test wants, on one Postgres.

They share what the parts of one instance share (secrets, certificates, object store); each has a
home of its own besides, because one home is one dispatcher and one worker.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from tests.support.stack import wait_for
from tests.support.witness_operator import Start, open_gate, read_starts
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings
from trace_platform.app.supervise.ready import is_ready
from trace_platform.drivers.lite.certificates import Certificates, ensure_certificates

_REPOSITORY = Path(__file__).parents[2]
_SHARED = ("secrets", "tls", "objects")


class Dsns(Protocol):
    owner: str
    dispatcher: str
    queue: str


@dataclass
class EngineProcess:
    kind: str
    home: Home
    process: subprocess.Popen[bytes]
    # Where the dispatcher listens, or the one that a worker talks to.
    port: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def await_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, f"{self.kind} ended: see {self.home.logs}"
            return is_ready(self.home, self.kind, self.pid)

        wait_for(f"{self.kind} to be ready", ready)

    def says(self, event: str) -> list[dict[str, Any]]:
        """Its log lines of that name, so far."""
        with (self.home.logs / f"{self.kind}.jsonl").open("rb") as lines:
            # The last one may be half-written.
            whole = [line for line in lines if line.endswith(b"\n") and event.encode() in line]
        return [line for line in map(json.loads, whole) if line["event"] == event]

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        self.process.terminate()
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.ask_to_stop()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        finally:
            assert self.process.stdin is not None
            self.process.stdin.close()


class Engine:
    def __init__(self, folder: Path, dsns: Dsns, settings: str = "") -> None:
        """`settings` are lines of the dispatchers' section in config.toml."""
        self.folder = folder
        self.owner_dsn = dsns.owner
        self.starts_file = folder / "starts"
        self.gates = folder / "gates"
        self.gates.mkdir(parents=True)
        self._dsns = dsns
        self._settings = settings
        self._started: list[EngineProcess] = []
        shared = Home(folder / "shared")
        self.tls: Certificates = ensure_certificates(shared.tls)
        self.secrets = shared.secrets
        self.objects = shared.objects
        self.user_token = shared.secret("user_token")
        self.worker_token = shared.secret("worker_token")
        for role in ("dispatcher", "queue"):
            password = str(conninfo_to_dict(getattr(dsns, role))["password"])
            (shared.secrets / f"pg_trace_{role}").write_text(password)

    def close(self) -> None:
        for started in self._started:
            started.ask_to_stop()
        for started in self._started:
            started.stop()

    def await_ready(self) -> None:
        """Until all that was started serves: they start side by side."""
        for started in self._started:
            started.await_ready()

    def dispatcher(self) -> EngineProcess:
        return self._start("dispatcher", f"[dispatcher]\n{self._settings}\n")

    def worker(
        self, port: int, *, slots: int = 2, clock_shift_s: float | None = None
    ) -> EngineProcess:
        """One that talks to the dispatcher, or whatever else, behind that port."""
        config = f"[worker]\nslots = {slots}\nprewarm = false\n[ports]\ndispatcher = {port}\n"
        return self._start("worker", config, clock_shift_s)

    def client(self, port: int) -> httpx.Client:
        return httpx.Client(
            base_url=f"https://localhost:{port}",
            headers={
                "Authorization": f"Bearer {self.user_token}",
                "X-Trace-Worker-Token": self.worker_token,
            },
            verify=ssl.create_default_context(cafile=str(self.tls.ca)),
            timeout=60,
            trust_env=False,
        )

    def deploy(self, port: int, yaml: str) -> None:
        self.post(port, "/v1/dags", {"yaml": yaml})

    def emit(self, port: int, dataset: str, cursors: Iterable[int]) -> int:
        events = [{"cursor": cursor} for cursor in cursors]
        answer = self.post(port, "/v1/events", {"dataset": dataset, "events": events})
        return int(answer["accepted"])

    def emit_ranges(self, port: int, dataset: str, ranges: Iterable[tuple[int, int]]) -> int:
        events = [{"partition_key": f"{a}-{b}", "start": a, "end": b} for a, b in ranges]
        answer = self.post(port, "/v1/events", {"dataset": dataset, "events": events})
        return int(answer["accepted"])

    def post(self, port: int, path: str, body: dict[str, Any]) -> Any:
        with self.client(port) as http:
            return http.post(path, json=body).raise_for_status().json()

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """What the database says, asked past the code under test."""
        with psycopg.connect(self.owner_dsn, row_factory=dict_row) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *parameters: Any) -> Any:
        (row,) = self.sql(statement, *parameters)
        return next(iter(row.values()))

    def statuses(self) -> dict[str, int]:
        rows = self.sql("SELECT status, count(*) AS n FROM tasks GROUP BY 1")
        return {row["status"]: row["n"] for row in rows}

    def wait_for_completed(self, tasks: int, timeout_s: float = 120) -> None:
        wait_for(
            f"{tasks} completed tasks", lambda: self.statuses() == {"Completed": tasks}, timeout_s
        )

    def outcomes(self) -> list[dict[str, Any]]:
        """How often each combination of outcomes, in the order of the attempts, occurred."""
        return self.sql(
            "SELECT outcomes, count(*) AS tasks FROM ("
            " SELECT array_agg(outcome ORDER BY attempt) AS outcomes FROM task_attempts"
            " GROUP BY task_id) o GROUP BY 1 ORDER BY 2 DESC"
        )

    def starts(self) -> list[Start]:
        return read_starts(self.starts_file)

    def open_gate(self, task_id: Any, attempt: int) -> None:
        open_gate(self.gates, task_id, attempt)

    def started_again(self, ended: EngineProcess) -> EngineProcess:
        """Another process in the place, and in the home, of one that has ended."""
        return self._launch(ended.kind, ended.home, ended.port)

    def _start(self, kind: str, config: str, clock_shift_s: float | None = None) -> EngineProcess:
        home, port = self._home(kind, config)
        return self._launch(kind, home, port, clock_shift_s)

    def _launch(
        self, kind: str, home: Home, port: int, clock_shift_s: float | None = None
    ) -> EngineProcess:
        shift = [] if clock_shift_s is None else [str(clock_shift_s)]
        with (home.logs / f"{kind}.jsonl").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.engine_process", kind, home.root, *shift],
                cwd=_REPOSITORY,
                env={k: v for k, v in os.environ.items() if not k.startswith("TRACE_")},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started = EngineProcess(kind, home, process, port)
        self._started.append(started)
        return started

    def _home(self, kind: str, config: str) -> tuple[Home, int]:
        home = Home(self.folder / f"{kind}-{len(self._started) + 1}")
        home.root.mkdir()
        for name in _SHARED:
            (home.root / name).symlink_to(self.folder / "shared" / name)
        state = json.dumps(_without_login(self._dsns.dispatcher))
        # Neither of them opens the data database.
        home.config_file.write_text(
            f"[postgres]\nstate_dsn = {state}\ndata_dsn = {state}\n{config}"
        )
        return home, open_instance(home, load_settings(home, {})).port("dispatcher")


SETTINGS = "loop_interval_s = 0.05\nreap_grace_s = 0"


@contextmanager
def engine(folder: Path, dsns: Dsns, settings: str = SETTINGS) -> Iterator[Engine]:
    made = Engine(folder / "engine", dsns, settings)
    try:
        yield made
    finally:
        made.close()


def dag(name: str, jobs: Sequence[str], defaults: str = "max_attempts: 3") -> str:
    """A DAG with the manual source `source` and these jobs."""
    source = "  - { name: source, activation: source, source: { kind: manual } }\n"
    return f"name: {name}\ndefaults: {{ {defaults} }}\njobs:\n{source}{''.join(jobs)}"


def job(name: str, operator: str, config: dict[str, Any], extra: str = "") -> str:
    """A job that the source wakes up. JSON is YAML too."""
    return (
        f"  - name: {name}\n    activation: reactive\n    runtime: ecs_platform\n"
        f"    operator: {operator}\n    inputs: [{{ from: {{ job: source }} }}]\n"
        f"    config: {json.dumps(config)}\n{extra}"
    )


def _without_login(dsn: str) -> str:
    kept = {k: v for k, v in conninfo_to_dict(dsn).items() if k not in ("user", "password")}
    return make_conninfo(**{name: str(value) for name, value in kept.items()})
