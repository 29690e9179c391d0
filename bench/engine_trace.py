"""Trace's side of the engine's measurements: a dispatcher and one worker, as processes of their own,
on the server that the peers use."""

from __future__ import annotations

import itertools
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from bench.engine_peers import EnginePostgres
from bench.harness import BenchError
from bench.subjects.trace_process import STAMP
from trace_platform.app import databases
from trace_platform.app.home import Home
from trace_platform.app.instance import open_instance
from trace_platform.app.ready import is_ready
from trace_platform.app.settings import Settings, load_settings

SLOTS = 64
_LIMIT_S = 120.0
_EMIT = 1_000

_HEAD = (
    "name: {name}\njobs:\n  - {{ name: source, activation: source, source: {{ kind: manual }} }}\n"
)
_JOB = """  - name: {name}
    activation: reactive
    runtime: ecs_platform
    operator: {operator}
    inputs: [{{ from: {{ job: {after} }} }}]
    config: {config}
"""


class TraceSide:
    """As EngineSide of the peers: lifecycles, latencies, chain."""

    name = "trace"

    def __init__(self, home: Home, settings: Settings, state_dsn: str, pipe: Path) -> None:
        self._home = home
        self._instance = open_instance(home, settings)
        self._state_dsn = state_dsn
        self._pipe = pipe
        self._cursor = itertools.count(1)
        self._http = httpx.Client(
            base_url=self._instance.url("dispatcher"),
            headers={"Authorization": f"Bearer {home.secret('user_token')}"},
            verify=str(home.tls / "ca.pem"),
            timeout=60,
            trust_env=False,
        )

    def prepare(self) -> None:
        self._deploy(
            "noops", _JOB.format(name="noop", operator="no_op", after="source", config="{}")
        )
        config = f"{{ pipe: '{self._pipe}' }}"
        stamp = _JOB.format(name="stamp", operator="stamp", after="source", config=config)
        self._deploy("stamps", stamp)
        names = ["source", *(f"link_{n}" for n in range(1, 40))]
        links = [
            _JOB.format(name=name, operator="no_op", after=after, config="{ emit: true }")
            for after, name in itertools.pairwise(names)
        ]
        last = _JOB.format(name="last", operator="stamp", after=names[-1], config=config)
        self._deploy("chained", "".join(links) + last)

    def lifecycles(self, n: int) -> float:
        """Seconds from the first event to the last completed task."""
        began = time.monotonic()
        for start in range(0, n, _EMIT):
            self._emit("noops.source", min(_EMIT, n - start))
        self._await_idle()
        return time.monotonic() - began

    def latencies(self, n: int) -> list[float]:
        """Seconds from an accepted event to the operator's first line."""
        found = []
        for _ in range(n):
            self._emit("stamps.source", 1)
            found.append(self._stamp() - time_of(self._accepted))
            self._await_idle()
            time.sleep(random.uniform(0.005, 0.020))
        return found

    def chain(self, n: int) -> float:
        if n != 40:
            raise BenchError("the chain has 40 links")
        began = time.monotonic()
        self._emit("chained.source", 1)
        ended = self._stamp()
        self._await_idle()
        return ended - began

    def close(self) -> None:
        self._http.close()

    def _deploy(self, name: str, jobs: str) -> None:
        self._post("/v1/dags", {"yaml": _HEAD.format(name=name) + jobs})

    def _emit(self, dataset: str, n: int) -> None:
        events = [{"cursor": next(self._cursor)} for _ in range(n)]
        self._post("/v1/events", {"dataset": dataset, "events": events})
        self._accepted = time.monotonic()

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

    def _await_idle(self) -> None:
        """Until the database says that all events are routed and all tasks have ended."""
        deadline = time.monotonic() + _LIMIT_S
        with psycopg.connect(self._state_dsn, autocommit=True) as connection:
            while connection.execute(_BUSY).fetchone() != (False,):
                if time.monotonic() > deadline:
                    raise BenchError("the tasks did not end")
                time.sleep(0.002)


_BUSY = """
SELECT EXISTS (SELECT FROM outbox WHERE kind = 'route')
    OR EXISTS (SELECT FROM tasks WHERE status = 'Queued' AND NOT pending_backpressure)
    OR EXISTS (SELECT FROM tasks WHERE status = 'Running')
    OR EXISTS (SELECT FROM tasks WHERE status = 'Failed')
"""


def time_of(moment: float) -> float:
    return moment


@contextmanager
def trace_side(
    postgres: EnginePostgres, workspace: Path, slots: int = SLOTS
) -> Iterator[TraceSide]:
    home = Home(workspace / "home")
    state = postgres.database("trace_state")
    home.root.mkdir(parents=True)
    home.config_file.write_text(
        f'[postgres]\nstate_dsn = "{state}"\ndata_dsn = "{postgres.database("trace_data")}"\n'
        f"[worker]\nslots = {slots}\nprewarm = false\n"
    )
    settings = load_settings(home, {})
    instance = open_instance(home, settings)
    databases.prepare(home, settings, instance)
    pipe = workspace / "stamps"
    os.mkfifo(pipe)
    with _served(home, "dispatcher"), _served(home, "worker"):
        side = TraceSide(home, settings, state, pipe)
        try:
            side.prepare()
            yield side
        finally:
            side.close()


@contextmanager
def _served(home: Home, name: str) -> Iterator[None]:
    with (home.logs / f"{name}.jsonl").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.subjects.trace_process", name, str(home.root)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 60
        while not is_ready(home, name, process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"{name} did not start: see {home.logs}")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(30)
