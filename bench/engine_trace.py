"""Trace's side of the engine's measurements: a dispatcher and one worker, as processes of their
own, on the server that the peers use."""

from __future__ import annotations

import itertools
import os
import random
import select
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psycopg

from bench.engine_peers import EnginePostgres, EngineSide
from bench.harness import BenchError
from bench.subjects.trace_process import STAMP
from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import Instance, open_instance
from trace_platform.app.instance.settings import load_settings
from trace_platform.app.supervise.ready import is_ready

SLOTS = 128
LINKS = 40
JOBS = 6_000
_LIMIT_S = 120.0
# Events in one request, as a source that is catching up sends them.
_AT_ONCE = 1_000
_PAUSE_S = (0.005, 0.020)

_DAG = """name: {name}
jobs:
  - {{ name: source, activation: source, source: {{ kind: manual }} }}
"""
_JOB = """  - name: {name}
    activation: reactive
    runtime: ecs_platform
    operator: {operator}
    inputs: [{{ from: {{ job: {after} }} }}]
    config: {config}
"""
_BUSY = """
SELECT EXISTS (SELECT FROM outbox WHERE kind = 'route')
    OR EXISTS (SELECT FROM tasks WHERE status = 'Queued' AND NOT pending_backpressure)
    OR EXISTS (SELECT FROM tasks WHERE status = 'Running')
"""


def trace_side(postgres: EnginePostgres, workspace: Path) -> EngineSide:
    stack = ExitStack()
    engine = stack.enter_context(Engine(postgres, workspace / "trace", "trace"))
    return EngineSide(
        name="trace",
        lifecycles=engine.lifecycles,
        latencies=engine.latencies,
        chain=engine.chain,
        close=stack.close,
        jobs=JOBS,
        settings=f"{SLOTS} slots, events in requests of {_AT_ONCE:,}",
    )


class Engine:
    """A dispatcher, and unless told otherwise a worker, on a database of their own."""

    def __init__(
        self, postgres: EnginePostgres, folder: Path, name: str, *, worker: bool = True
    ) -> None:
        folder.mkdir(parents=True)
        self.state_dsn = postgres.database(f"{name}_state")
        self.home = Home(folder / "home")
        self._processes = ("dispatcher", "worker") if worker else ("dispatcher",)
        self._pipe = folder / "stamps"
        self._cursor = itertools.count(1)
        self._stack = ExitStack()
        self._prepare(postgres.database(f"{name}_data"))

    def __enter__(self) -> Engine:
        try:
            self.pids = {name: self._serve(name) for name in self._processes}
            self._http = self._stack.enter_context(self._client())
            self._deploy_all()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        return self._instance.url("dispatcher")

    def lifecycles(self, n: int) -> float:
        """Seconds from the first event to the last completed task."""
        done = self._completed() + n
        began = time.monotonic()
        for start in range(0, n, _AT_ONCE):
            self.emit("noops.source", min(_AT_ONCE, n - start))
        self._await_idle()
        took_s = time.monotonic() - began
        if self._completed() != done:
            raise BenchError("not every task completed")
        return took_s

    def latencies(self, n: int) -> list[float]:
        """Seconds from an accepted event to the operator's first line."""
        found = []
        for _ in range(n):
            accepted = self.emit("stamps.source", 1)
            found.append(self._stamp() - accepted)
            self._await_idle()
            time.sleep(random.uniform(*_PAUSE_S))
        return found

    def chain(self, links: int) -> float:
        """Seconds from the event until the last task has ended, by the database."""
        if links != LINKS:
            raise BenchError(f"the chain has {LINKS} links")
        began = time.monotonic()
        self.emit("chained.source", 1)
        self._stamp()
        self._await_idle()
        return time.monotonic() - began

    def emit(self, dataset: str, n: int) -> float:
        """When so many events were accepted."""
        events = [{"cursor": next(self._cursor)} for _ in range(n)]
        self._post("/v1/events", {"dataset": dataset, "events": events})
        return time.monotonic()

    def await_ready(self, n: int) -> None:
        """Until so many tasks can be claimed."""
        self._await(f"SELECT count(*) < {n} FROM tasks WHERE status = 'Queued'")

    def _prepare(self, data_dsn: str) -> None:
        self.home.root.mkdir(parents=True)
        self.home.config_file.write_text(
            f'[postgres]\nstate_dsn = "{self.state_dsn}"\ndata_dsn = "{data_dsn}"\n'
            f"[worker]\nslots = {SLOTS}\nprewarm = false\n"
        )
        settings = load_settings(self.home, {})
        self._instance: Instance = open_instance(self.home, settings)
        databases.prepare(self.home, settings, self._instance)
        os.mkfifo(self._pipe)

    def _client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.home.secret('user_token')}"},
            verify=str(self.home.tls / "ca.pem"),
            timeout=60,
            trust_env=False,
        )

    def _serve(self, name: str) -> int:
        with (self.home.logs / f"{name}.jsonl").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.subjects.trace_process", name, str(self.home.root)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._stack.callback(process.wait, 30)
        self._stack.callback(process.terminate)
        deadline = time.monotonic() + 60
        while not is_ready(self.home, name, process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"{name} did not start: see {self.home.logs}")
            time.sleep(0.02)
        return process.pid

    def _deploy_all(self) -> None:
        stamp = f"{{ pipe: '{self._pipe}' }}"
        self._deploy("noops", _job("noop", "no_op", "source", "{}"))
        self._deploy("stamps", _job("stamp", "stamp", "source", stamp))
        names = ["source", *(f"link_{n}" for n in range(1, LINKS))]
        links = [_job(b, "no_op", a, "{ emit: true }") for a, b in itertools.pairwise(names)]
        self._deploy("chained", "".join(links) + _job("last", "stamp", names[-1], stamp))

    def _deploy(self, name: str, jobs: str) -> None:
        self._post("/v1/dags", {"yaml": _DAG.format(name=name) + jobs})

    def _post(self, path: str, body: dict[str, Any]) -> None:
        response = self._http.post(path, json=body)
        if not response.is_success:
            raise BenchError(f"{path}: {response.text}")

    def _stamp(self) -> float:
        pipe = os.open(self._pipe, os.O_RDWR)
        try:
            if not select.select([pipe], [], [], _LIMIT_S)[0]:
                raise BenchError("no task started")
            return float(STAMP.unpack(os.read(pipe, STAMP.size))[1])
        finally:
            os.close(pipe)

    def _completed(self) -> int:
        with psycopg.connect(self.state_dsn) as connection:
            row = connection.execute("SELECT count(*) FROM tasks WHERE status = 'Completed'")
            return int((row.fetchone() or (0,))[0])

    def _await_idle(self) -> None:
        """Until the database says that all events are routed and all tasks have ended."""
        self._await(_BUSY)

    def _await(self, busy: str) -> None:
        deadline = time.monotonic() + _LIMIT_S
        with psycopg.connect(self.state_dsn, autocommit=True) as connection:
            while connection.execute(busy).fetchone() != (False,):
                if time.monotonic() > deadline:
                    raise BenchError("the tasks did not end")
                time.sleep(0.002)


def _job(name: str, operator: str, after: str, config: str) -> str:
    return _JOB.format(name=name, operator=operator, after=after, config=config)
