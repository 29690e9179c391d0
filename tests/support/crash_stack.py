"""A dispatcher and a worker that die where a test wants, and a witness of what is visible."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.support.crash_points import CrashPoints
from tests.support.deploy_reader import is_settled
from tests.support.engine_stack import EngineProcess, _without_login
from tests.support.killable_stack import KillableDispatcher, KillableEngine
from tests.support.stack import wait_for
from trace_platform.app.instance.home import Home
from trace_platform.dispatcher.storage.collect_garbage import (
    Collecting,
    collect_after,
    sweep_attempts,
)
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME, Manifest, seal

_REPOSITORY = Path(__file__).parents[2]
_VISIBLE = """
SELECT p.dataset_version, d.dag_name, d.job_name, d.output_index, p.range_start, p.range_end,
       p.location, p.row_count
  FROM partition_versions p
  JOIN datasets d ON d.uuid = p.dataset_uuid
 WHERE p.superseded_at IS NULL
"""

# The files' bytes by (dag, job, output, first block, last block).
Rows = dict[tuple[str, str, int, int, int], tuple[bytes, ...]]


@dataclass(frozen=True)
class HotData:
    """Postgres data by any of its connection strings, and where the roles' passwords are."""

    dsn: str
    secrets: Path


@dataclass
class KillableWorker:
    process: EngineProcess

    @property
    def pid(self) -> int:
        """Of the worker that was ready last."""
        return int((self.process.home.run / "worker.ready").read_text())

    @property
    def points(self) -> CrashPoints:
        return CrashPoints(self.process.home.root)

    def await_ready(self, instead_of: int = 0) -> None:
        def ready() -> bool:
            assert self.process.process.poll() is None, f"it ended: see {self.process.home.logs}"
            return self.pid != instead_of

        wait_for("a worker", ready, 60)

    def serve_node(self, url: str) -> None:
        (self.process.home.root / "node").write_text(url)


class CrashEngine(KillableEngine):
    def __init__(self, folder: Path, dsns: Any, data: HotData | None = None) -> None:
        """With `data`, for DAGs that have hot tables."""
        super().__init__(folder, dsns)
        self._data = data
        for secret in data.secrets.glob("pg_trace_*") if data else ():
            (self.secrets / secret.name).write_text(secret.read_text())

    @property
    def dispatcher_dsn(self) -> str:
        return self._dsns.dispatcher

    def committer(self) -> KillableDispatcher:
        config = f"[dispatcher]\n{self._settings}\n"
        started = self._spawn("dispatcher", "tests.support.killable_committer", config)
        return KillableDispatcher(started)

    def killable_worker(self, port: int, config: str = "") -> KillableWorker:
        given = f"[worker]\nslots = 2\nprewarm = false\n[ports]\ndispatcher = {port}\n{config}"
        return KillableWorker(self._spawn("worker", "tests.support.killable_worker", given))

    def _spawn(self, kind: str, module: str, config: str) -> EngineProcess:
        home, port = self._home(kind, config)
        with (home.logs / f"{kind}.jsonl").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, home.root],
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
        home, port = super()._home(kind, config)
        if self._data is not None:
            text = home.config_file.read_text()
            given = f"data_dsn = {json.dumps(_without_login(self._data.dsn))}"
            home.config_file.write_text(re.sub("^data_dsn = .*$", given, text, flags=re.M))
        return home, port

    def settle(self, timeout_s: float = 90) -> None:
        """Until nothing is left to do; what the dead held or hid is due at once."""

        def settled() -> bool:
            if is_settled(self):
                return True
            self.heal()
            return False

        wait_for("the end of all tasks", settled, timeout_s)

    def expire_leases_of(self, pid: int) -> None:
        """Of attempts that a worker, which is no more, had claimed."""
        self.sql(
            "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
            " WHERE status = 'Running' AND worker_id LIKE %s",
            f"%/{pid}",
        )


class Witness:
    """Looks at what readers would be shown, all the time, past the code under test. What is
    visible is whole, and stays."""

    PAUSE_S = 0.01

    def __init__(self, stack: CrashEngine) -> None:
        self.looks = 0
        self._store = LocalStore(str(stack.objects))
        self._asking = psycopg.connect(stack.owner_dsn, autocommit=True, row_factory=dict_row)
        self._known: dict[str, tuple[bytes, ...]] = {}
        self._seen: set[tuple[Any, int, int]] = set()
        self._broken: BaseException | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        self._asking.close()

    def look(self) -> Rows:
        """What is visible now. Fails when something of it is not whole, or something is gone."""
        with self._lock:
            if self._broken is not None:
                raise self._broken
            return self._look()

    def reread(self) -> Rows:
        """What is visible now, from the files as they are now."""
        with self._lock:
            self._known.clear()
        return self.look()

    def committed(self) -> set[str]:
        """Keys of the objects that what is visible consists of."""
        with self._lock:
            places = [row["location"] for row in self._asking.execute(_VISIBLE).fetchall()]
        found = set()
        for place in places:
            manifest = Manifest.model_validate_json(self._store.get(place + MANIFEST_NAME))
            names = [MANIFEST_NAME, SUCCESS_NAME, *(file.name for file in manifest.files)]
            found |= {(place + name).removeprefix("s3://trace-data/") for name in names}
        return found

    def _look(self) -> Rows:
        shown: Rows = {}
        now: set[tuple[Any, int, int]] = set()
        for row in self._asking.execute(_VISIBLE).fetchall():
            now.add((row["dataset_version"], row["range_start"], row["range_end"]))
            if row["location"] not in self._known:
                self._known[row["location"]] = self._read_whole(row)
            blocks = (row["range_start"], row["range_end"])
            key = (row["dag_name"], row["job_name"], row["output_index"], *blocks)
            assert key not in shown, f"{key} twice"
            shown[key] = self._known[row["location"]]
        assert self._seen <= now, f"gone: {self._seen - now}"
        self._seen = now
        self.looks += 1
        return shown

    def _read_whole(self, row: dict[str, Any]) -> tuple[bytes, ...]:
        place = row["location"]
        body = self._store.get(place + MANIFEST_NAME)
        assert self._store.get(place + SUCCESS_NAME) == seal(body)
        manifest = Manifest.model_validate_json(body)
        files = [self._store.get(place + file.name) for file in manifest.files]
        digests = [hashlib.sha256(file).hexdigest() for file in files]
        assert digests == [file.sha256 for file in manifest.files]
        assert row["row_count"] == sum(file.rows for file in manifest.files)
        return tuple(files)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self.PAUSE_S):
                with self._lock:
                    self._look()
        except BaseException as error:
            self._broken = error


def left_over(stack: CrashEngine, witness: Witness) -> set[str]:
    """Objects of datasets that are no part of what is committed, half-written ones too."""
    bucket = stack.objects / "trace-data"
    names = {path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()}
    return {name for name in names if "/dataset/" in name} - witness.committed()


def collect_all(stack: CrashEngine) -> None:
    """Garbage collection, as if every attempt that is over had been over for long."""
    asyncio.run(_collect_all(stack))


async def _collect_all(stack: CrashEngine) -> None:
    state, store = Database(stack.dispatcher_dsn), LocalStore(str(stack.objects))
    dispatcher = Collecting(state, store, "trace-data", "trace-scratch", grace_s=0)
    await state.open()
    try:
        await sweep_attempts(dispatcher)
        after: str | None = ""
        while after is not None:
            after = (await collect_after(dispatcher, after)).next
    finally:
        await state.close()


@contextmanager
def crash_engine(folder: Path, dsns: Any, data: HotData | None = None) -> Iterator[CrashEngine]:
    made = CrashEngine(folder / "engine", dsns, data)
    try:
        yield made
    finally:
        made.close()
