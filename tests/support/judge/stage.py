"""Where histories are played: one control plane for all of a process, emptied between them."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import structlog
from psycopg import AsyncConnection, AsyncCursor, sql, waiting
from psycopg.abc import PQGen
from psycopg.rows import dict_row

from tests.conftest import _STOP_WHEN_ORPHANED, PostgresServer, StateDsns
from tests.support.control_plane import ControlPlane
from tests.support.judge.content_operator import OPERATORS
from tests.support.shared_data import shared_data
from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import Settings
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.events.publish_outbox import Publishing
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.operators import registry

T = TypeVar("T")

# Rows are deleted, which is quick for a few; what they leave behind is cleaned up now and then.
_CLEANED_EVERY = 100
# Nothing has to be there after a crash, and what is deleted is cleaned up by the judge.
_FORGETFUL = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",
}
_TABLES = """
SELECT format('%I.%I', schemaname, relname) AS name FROM pg_stat_user_tables ORDER BY 1
"""


class MemoryBackedStore(LocalStore):
    """On a file system that forgets everything at a power cut anyway."""

    def _sync_folders(self, folder: Path) -> None:
        pass


class WaitingConnection(AsyncConnection[Row]):
    """Waits for the server by itself: a history has nothing else to do meanwhile, and an event loop
    that is asked to wait does more than the statement."""

    async def wait(self, gen: PQGen[T], interval: float = 0.1, **limits: Any) -> T:
        return waiting.wait(gen, self.pgconn.socket, interval, **limits)


class LookingConnection(WaitingConnection):
    """Only reads, and commits that: at a rollback a connection forgets what it has prepared."""

    async def execute(self, query: Any, *args: Any, **kwargs: Any) -> AsyncCursor[Row]:
        return await super().execute("COMMIT" if query == "ROLLBACK" else query, *args, **kwargs)


class PreparingDatabase(Database):
    """Every statement is parsed and planned once, not once for every history."""

    def __init__(self, dsn: str, connection_class: type[WaitingConnection]) -> None:
        super().__init__(dsn, max_connections=1)
        self._pool.connection_class = connection_class

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Tx]:
        async with super().statement() as connection:
            connection.prepare_threshold = 0
            connection.prepared_max = 2_000
            yield connection


class NoQueue:
    """Wake-ups are hints: whoever claims here needs none."""

    async def send(self, queue: str, messages: Sequence[dict[str, Any]]) -> None:
        pass


@dataclass
class Stage:
    plane: ControlPlane
    folder: Path
    # A superuser's, which sees and edits rows past the code under test.
    connection: psycopg.Connection[dict[str, Any]]
    # What a new instance has no rows in.
    tables: tuple[str, ...]
    # For looks alone.
    looking: Database
    played: int = 0

    @property
    def dispatcher(self) -> Dispatcher:
        return self.plane.dispatcher

    @property
    def publishing(self) -> Publishing:
        return Publishing(self.dispatcher.state, NoQueue(), self.dispatcher.runtimes)

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []

    def empty(self) -> None:
        """Nothing is left of the history before."""
        self.played += 1
        if self.played % _CLEANED_EVERY == 0:
            self.connection.execute(f"TRUNCATE {', '.join(self.tables)}")
        else:
            # Foreign keys are not looked at: all rows go together.
            gone = "; ".join(f"DELETE FROM {table}" for table in self.tables)
            self.connection.execute(
                f"BEGIN; SET LOCAL session_replication_role = replica; {gone}; COMMIT"
            )
        shutil.rmtree(self.folder / self.dispatcher.grants.bucket, ignore_errors=True)


@asynccontextmanager
async def open_stage(postgres: PostgresServer, parent: Path | None = None) -> AsyncIterator[Stage]:
    """Files go below `parent`; without one, to memory when there is such a file system."""
    with (
        postgres.clones.lend(databases.STATE) as name,
        shared_data(postgres) as data,
        postgres.admin(name) as admin,
        store_folder(parent) as folder,
        judged_operators(),
        quiet_logs(),
    ):
        dsns = StateDsns(*(postgres.dsn(role, name) for role in databases.STATE.roles))
        connection = with_rows(admin)
        tables = tuple(_empty_tables(connection))
        admin.execute(f"ALTER DATABASE {name} SET plan_cache_mode = force_generic_plan")
        plane = await ControlPlane.open(dsns, folder, data.janitor)
        state = PreparingDatabase(dsns.dispatcher, WaitingConnection)
        looking = PreparingDatabase(dsns.dispatcher, LookingConnection)
        await state.open()
        await looking.open()
        plane.dispatcher = replace(
            plane.dispatcher, state=state, store=MemoryBackedStore(str(folder))
        )
        try:
            yield Stage(plane, folder, connection, tables, looking)
        finally:
            await looking.close()
            await plane.close()


def with_rows(admin: psycopg.Connection) -> psycopg.Connection[dict[str, Any]]:
    admin.row_factory = dict_row  # type: ignore[assignment]
    return admin  # type: ignore[return-value]


def _empty_tables(connection: psycopg.Connection[dict[str, Any]]) -> Iterator[str]:
    for row in connection.execute(_TABLES).fetchall():
        table = sql.SQL(row["name"])
        found = connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(table)).fetchone()
        if found is None:
            yield row["name"]


@contextmanager
def store_folder(parent: Path | None = None) -> Iterator[Path]:
    memory = Path("/dev/shm")
    if parent is None and memory.is_dir() and os.access(memory, os.W_OK):
        parent = memory
    with tempfile.TemporaryDirectory(prefix="trace-judge-", dir=parent) as folder:
        yield Path(folder)


@contextmanager
def judged_operators() -> Iterator[None]:
    registry.OPERATORS.update(OPERATORS)
    try:
        yield
    finally:
        for name in OPERATORS:
            registry.OPERATORS.pop(name, None)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """As the fixture of the tests, for a run by itself."""
    settings = Settings()
    with tempfile.TemporaryDirectory(prefix="trace-judge-home-") as folder:
        home = Home(Path(folder) / "home")
        instance = open_instance(home, settings)
        server = EmbeddedPostgres(
            home.postgres,
            instance.port("postgres"),
            databases.admin_password(home),
            _FORGETFUL,
        )
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


def lent_postgres(home: str) -> PostgresServer:
    """A server that another process has started."""
    settings, lent = Settings(), Home(Path(home))
    return PostgresServer(lent, settings, open_instance(lent, settings))


@contextmanager
def quiet_logs() -> Iterator[None]:
    """What the code under test logs is not what a run of the judge is about."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
