"""Job queues on Postgres that the engine is measured next to, and the server that all share.

`python -m bench.engine_peers` runs the peers alone.
"""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql

from bench.harness import BenchError, median
from bench.peers import Peer, python_of
from bench.subject import Subject
from trace_platform.drivers.lite.embedded_postgres import ADMIN, EmbeddedPostgres

# psycopg is also what the subjects read the peers' tables with.
_PSYCOPG = "psycopg[binary,pool]==3.3.8"
PROCRASTINATE = Peer("procrastinate", ("procrastinate==3.10.0", _PSYCOPG), "procrastinate")
DBOS = Peer("dbos", ("dbos==3.3.0", _PSYCOPG), "dbos")
PGQUEUER = Peer("pgqueuer", ("pgqueuer==1.6.0", "asyncpg==0.32.0", _PSYCOPG), "pgqueuer")

# Given on the command line, so that no file of the cluster can say otherwise: a commit is on disk
# before anybody hears of it.
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# Outlives a harness that is killed, and takes the server down with it.
_STOP_WHEN_ORPHANED = """
import pathlib, sys
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres
sys.stdin.read()
EmbeddedPostgres(pathlib.Path(sys.argv[1]), 0, "").stop()
"""


@dataclass(frozen=True, slots=True)
class EngineSide:
    """A queue with one worker, on a database of its own. Outside of the three calls it does
    nothing: its idle time is another side's turn. What does not end well raises.
    """

    name: str
    # n no-op jobs: seconds from the first enqueue until all are finished in the database.
    lifecycles: Callable[[int], float]
    # n jobs one by one, each after the one before has ended and a pause of 5 to 20 ms: seconds from
    # the enqueue's return, when the job is committed, to the first line of the job.
    latencies: Callable[[int], list[float]]
    # n no-op jobs, each of which causes the next: seconds from the first enqueue until the last is
    # finished in the database.
    chain: Callable[[int], float]
    close: Callable[[], None]
    jobs: int = 3_000  # for one run of lifecycles: as many as take it some seconds
    settings: str = ""  # for people: what it was given to be fast


def procrastinate_side(postgres: EnginePostgres, workspace: Path) -> EngineSide:
    settings = "batches of 500, 4 at a time, 1 in latency and chain, autocommit"
    return _side(PROCRASTINATE, postgres, workspace, jobs=3_000, settings=settings)


def dbos_side(postgres: EnginePostgres, workspace: Path) -> EngineSide:
    settings = "50 a transaction, any number at a time, polls at 20 ms, 2 ms in latency and chain"
    return _side(DBOS, postgres, workspace, jobs=3_000, settings=settings)


def pgqueuer_side(postgres: EnginePostgres, workspace: Path) -> EngineSide:
    settings = "batches of 1,000, claims of 100, 10 in latency and chain, asyncpg"
    return _side(PGQUEUER, postgres, workspace, jobs=20_000, settings=settings)


PEER_SIDES = {
    PROCRASTINATE.name: procrastinate_side,
    DBOS.name: dbos_side,
    PGQUEUER.name: pgqueuer_side,
}


def _side(
    peer: Peer, postgres: EnginePostgres, workspace: Path, jobs: int, settings: str
) -> EngineSide:
    """Raises PeerUnavailable. The work is in bench/subjects/PEER_engine.py."""
    python = python_of(peer)
    module, dsn = f"bench.subjects.{peer.name}_engine", postgres.database(peer.name)
    log = workspace / f"{peer.name}.log"
    stack = ExitStack()
    subject = stack.enter_context(Subject(peer.name, python, module, dsn, log=log))

    def seconds(kind: str) -> Callable[[int], Any]:
        return lambda n: subject.run(round=kind, n=n)["seconds"]

    return EngineSide(
        name=peer.name,
        lifecycles=seconds("lifecycles"),
        latencies=seconds("latencies"),
        chain=seconds("chain"),
        close=stack.close,
        jobs=jobs,
        settings=settings,
    )


@dataclass(frozen=True, slots=True)
class EnginePostgres:
    """One server for all sides."""

    port: int
    password: str

    def database(self, name: str) -> str:
        """Make an empty database. The connection string is the superuser's, a URL."""
        with psycopg.connect(self._url("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self._url(name)

    def check_durable(self) -> None:
        with psycopg.connect(self._url("postgres")) as connection:
            for name, wanted in _DURABLE.items():
                found = connection.execute(f"SHOW {name}").fetchone()
                if found != (wanted,):
                    raise BenchError(f"{name} is {found}: such figures would not be durable")

    def _url(self, database: str) -> str:
        where = f"{ADMIN}:{self.password}@127.0.0.1:{self.port}/{database}"
        # The server is built without TLS: do not ask for it first.
        return f"postgresql://{where}?sslmode=disable"


@contextmanager
def engine_postgres(workspace: Path) -> Iterator[EnginePostgres]:
    """The embedded server as users run it: nothing is switched off for speed."""
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


def main() -> None:
    """The peers alone, once each: whether they still work. No figure of it is kept."""
    with TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as directory:
        workspace = Path(directory)
        with engine_postgres(workspace) as postgres:
            for make in PEER_SIDES.values():
                with closing(make(postgres, workspace)) as side:
                    _print_once(side)


def _print_once(side: EngineSide) -> None:
    print(f"{side.name} ({side.settings})")
    print(f"  {side.jobs / side.lifecycles(side.jobs):,.0f} jobs/s", flush=True)
    print(f"  {median(side.latencies(40)) * 1e3:.1f} ms to the job's first line", flush=True)
    print(f"  {side.chain(40):.2f} s for a chain of 40", flush=True)


if __name__ == "__main__":
    main()
