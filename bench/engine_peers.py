"""Postgres job queues that Trace's engine is measured next to, and the server they all share."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from bench.harness import BenchError
from bench.peers import Peer, python_of
from bench.subject import Subject
from trace_platform.drivers.lite.embedded_postgres import ADMIN, EmbeddedPostgres

_PSYCOPG = ("psycopg[binary,pool]==3.3.8",)
PROCRASTINATE = Peer("procrastinate", ("procrastinate==3.10.0", *_PSYCOPG), "procrastinate")
DBOS = Peer("dbos", ("dbos==3.3.0", *_PSYCOPG), "dbos")
PGQUEUER = Peer("pgqueuer", ("pgqueuer==1.6.0", "asyncpg==0.32.0", *_PSYCOPG), "pgqueuer")

# A commit is on disk before anybody hears of it. Given on the command line: no default of the
# embedded server changes what is measured.
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# Outlives a harness that is killed, and takes the server down with it.
_STOP_WHEN_ORPHANED = """
import pathlib, sys
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres
sys.stdin.read()
EmbeddedPostgres(pathlib.Path(sys.argv[1]), 0, "").stop()
"""


@dataclass(frozen=True, slots=True)
class EnginePostgres:
    """One durable server for all sides."""

    port: int
    password: str

    def database(self, name: str) -> str:
        """Make an empty database. The connection string is a superuser's."""
        with psycopg.connect(self._url("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self._url(name)

    def check_durable(self) -> None:
        with psycopg.connect(self._url("postgres")) as connection:
            for name, wanted in _DURABLE.items():
                (found,) = connection.execute(f"SHOW {name}").fetchone() or (None,)
                if found != wanted:
                    raise BenchError(f"{name} is {found}: these figures would not be durable")

    def _url(self, database: str) -> str:
        # The server is built without TLS: do not ask for it first.
        where = f"{ADMIN}:{self.password}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{where}?sslmode=disable"


@contextmanager
def engine_postgres(workspace: Path) -> Iterator[EnginePostgres]:
    """The embedded server as users run it, with nothing switched off for speed."""
    postgres = EnginePostgres(_free_port(), secrets.token_urlsafe(16))
    data = workspace / "postgres"
    server = EmbeddedPostgres(data, postgres.port, postgres.password, _DURABLE)
    server.initialise()
    process = server.spawn(workspace / "postgres.log")
    guard = subprocess.Popen(
        [sys.executable, "-c", _STOP_WHEN_ORPHANED, str(data)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        server.wait_ready(process)
        postgres.check_durable()
        yield postgres
    finally:
        server.stop()
        process.wait()
        guard.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
