"""A real Postgres for every test that asks: made once, its databases cloned per test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.clones import Clones
from tests.support.kept_checker import one_checker_for_all
from tests.support.shared_data import shared_data
from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import Instance, open_instance
from trace_platform.app.instance.settings import Settings
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres

# The same examples in every run, and no time limits: the machine may be busy.
hypothesis.settings.register_profile(
    "same",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("same")

# The home of a server that a test has started: suites that it runs clone their databases there.
SHARED = "TRACE_TEST_POSTGRES"

# Outlives a test run that is killed, and takes the server down with it.
_STOP_WHEN_ORPHANED = """
import pathlib, sys
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres
sys.stdin.read()
EmbeddedPostgres(pathlib.Path(sys.argv[1]), 0, "").stop()
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest goes first: then the workers end together, and not one with an instance
    to start while the other has nothing left."""
    weights: dict[Path, int] = {}
    for item in items:
        weights[item.path] = max(weights.get(item.path, 0), _weight(item))
    items.sort(key=lambda item: -weights[item.path])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.support.lanes import Lanes

    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


def _weight(item: pytest.Item) -> int:
    if item.get_closest_marker("stack"):
        return 3
    if item.get_closest_marker("spark") or "spark_runtime" in getattr(item, "fixturenames", ()):
        return 2
    # Processes that are started, killed and waited for.
    return 1 if item.path.parent.name in ("fault", "security", "integration") else 0


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """What tests prove is about kills, not about power cuts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda opened: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_process_reads_all_sql() -> Iterator[None]:
    with one_checker_for_all():
        yield


@dataclass(frozen=True)
class PostgresServer:
    home: Home
    settings: Settings
    instance: Instance

    @cached_property
    def clones(self) -> Clones:
        return Clones(self)

    def admin(self, database: str = "postgres") -> psycopg.Connection:
        dsn = databases.admin_dsn(self.home, self.instance, database)
        return psycopg.connect(dsn, autocommit=True)

    def dsn(self, role: str, database: str) -> str:
        own = databases.dsn(self.home, self.settings, self.instance, role)
        return make_conninfo(own, dbname=database)


@dataclass(frozen=True)
class StateDsns:
    owner: str
    dispatcher: str
    queue: str


@dataclass(frozen=True)
class DataDsns:
    owner: str
    writer: str
    janitor: str
    query: str


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Whoever runs the tests in the background may ignore it, and so would they."""
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGHUP, hang_up)


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """Wait for a condition: `eventually(lambda: done(), "what is awaited")`."""

    def wait(condition: Callable[[], object], what: str = "", timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or condition}"
            time.sleep(0.02)

    return wait


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    settings = Settings()
    if SHARED in os.environ:
        lent = Home(Path(os.environ[SHARED]))
        yield PostgresServer(lent, settings, open_instance(lent, settings))
        return
    home = Home(tmp_path_factory.mktemp("postgres-home"))
    instance = open_instance(home, settings)
    # As above: no waiting for the disk.
    fast = {
        "fsync": "off",
        "full_page_writes": "off",
        "wal_compression": "off",
        "shared_buffers": "64MB",
        "autovacuum_naptime": "60s",
        # Of passwords that nobody could guess: tests connect ten thousand times.
        "scram_iterations": "1",
    }
    password = databases.admin_password(home)
    server = EmbeddedPostgres(home.postgres, instance.port("postgres"), password, fast)
    server.initialise()
    process = server.spawn(home.logs / "postgres.jsonl")
    guard = subprocess.Popen(
        [sys.executable, "-c", _STOP_WHEN_ORPHANED, str(home.postgres)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        server.wait_ready(process)
        databases.prepare(home, settings, instance)
        yield PostgresServer(home, settings, instance)
    finally:
        server.stop()
        process.wait()
        guard.communicate()


@pytest.fixture
def state_dsns(postgres: PostgresServer) -> Iterator[StateDsns]:
    """Connection strings to a state database of this test's own, migrated and empty."""
    with _state(postgres) as dsns:
        yield dsns


@pytest.fixture(scope="module")
def module_state_dsns(postgres: PostgresServer) -> Iterator[StateDsns]:
    """The same of a module's own."""
    with _state(postgres) as dsns:
        yield dsns


@pytest.fixture(scope="session")
def janitor_dsn(postgres: PostgresServer) -> Iterator[str]:
    """Postgres data for dispatchers whose tests look for nothing there."""
    with shared_data(postgres) as made:
        yield made.janitor


@pytest.fixture
def data_dsns(postgres: PostgresServer) -> Iterator[DataDsns]:
    """Connection strings to a data database of this test's own, migrated and empty."""
    with postgres.clones.lend(databases.DATA) as name:
        yield DataDsns(*(postgres.dsn(role, name) for role in databases.DATA.roles))


@contextmanager
def _state(postgres: PostgresServer) -> Iterator[StateDsns]:
    with postgres.clones.lend(databases.STATE) as name:
        yield StateDsns(*(postgres.dsn(role, name) for role in databases.STATE.roles))
