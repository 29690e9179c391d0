from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.own_port import own_port
from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite import embedded_postgres
from trace_platform.drivers.lite.embedded_postgres import ADMIN, EmbeddedPostgres

if TYPE_CHECKING:
    from tests.conftest import DataDsns, StateDsns

PASSWORD = "a-secret-of-this-test"


class Server:
    """An embedded server of a test's own."""

    def __init__(self, folder: Path) -> None:
        port = own_port(folder / "port")
        self.postgres = EmbeddedPostgres(folder / "postgres", port, PASSWORD)
        self.log = folder / "postgres.log"
        self.started: list[subprocess.Popen[bytes]] = []
        self.dsn = make_conninfo(
            host="127.0.0.1", port=port, user=ADMIN, password=PASSWORD, dbname="postgres"
        )

    def start(self) -> subprocess.Popen[bytes]:
        process = self.postgres.spawn(self.log)
        self.started.append(process)
        self.postgres.wait_ready(process)
        return process

    def stop(self) -> None:
        self.postgres.stop()
        for process in self.started:
            process.wait()

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.postgres.initialise()
    yield server
    server.stop()


def test_rows_survive_a_kill_of_the_server(server: Server) -> None:
    process = server.start()
    server.run("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    process.kill()
    process.wait()

    again = server.start()

    assert server.run("SELECT count(*), sum(n) FROM kept") == [(1000, 500500)]
    server.postgres.stop()
    assert again.wait() == 0


def test_a_backend_that_outlives_its_server_does_not_block_the_next_start(server: Server) -> None:
    process = server.start()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)  # holds the shared memory, and cannot notice
        process.kill()
        process.wait()
        server.postgres.clear_leftovers(wait_s=0.3)
        server.start()
    assert server.run("SELECT 1") == [(1,)]


def test_a_stale_pid_file_that_names_a_living_process_is_no_obstacle(server: Server) -> None:
    process = server.start()
    process.kill()
    process.wait()
    pid_file = server.postgres.data_dir / "postmaster.pid"
    pid_file.write_text(f"{os.getppid()}\n")

    server.start()

    assert server.run("SELECT 1") == [(1,)]


def test_stop_ends_every_process_and_ends_open_sessions(server: Server) -> None:
    process = server.start()
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT 1")  # an open transaction does not delay a fast stop
        server.postgres.stop(timeout_s=60)
        assert process.wait() == 0
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become someone else")
@pytest.mark.parametrize(("mode", "way"), [(0o755, "account"), (0o700, "namespace")])
def test_as_root_it_runs_unprivileged_whatever_the_parent_allows(mode: int, way: str) -> None:
    parent = Path("/tmp") / f"trace-test-{os.getpid()}-{way}"
    parent.mkdir()
    parent.chmod(mode)
    server = Server(parent)
    try:
        server.postgres.initialise()
        server.start()
        assert embedded_postgres.choose_identity(parent).way == way
        assert server.run("SELECT 1") == [(1,)]
    finally:
        server.stop()
        subprocess.run(["rm", "-rf", str(parent)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become someone else")
def test_a_home_that_was_closed_after_the_first_start_still_starts() -> None:
    parent = Path("/tmp") / f"trace-test-{os.getpid()}-closed"
    parent.mkdir(mode=0o755)
    server = Server(parent)
    try:
        server.postgres.initialise()
        server.start()
        server.run("CREATE TABLE kept AS SELECT 1 AS n")
        server.postgres.stop()
        parent.chmod(0o700)
        server.postgres = EmbeddedPostgres(parent / "postgres", server.postgres.port, PASSWORD)
        server.start()
        assert server.run("SELECT n FROM kept") == [(1,)]
    finally:
        server.stop()
        subprocess.run(["rm", "-rf", str(parent)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become someone else")
def test_where_no_way_works_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_postgres, "_can_run", lambda identity, folder: False)
    with pytest.raises(SetupError) as caught:
        embedded_postgres.choose_identity(tmp_path)
    assert "--home" in (caught.value.hint or "")


def test_an_interrupted_creation_is_redone(tmp_path: Path) -> None:
    server = Server(tmp_path)
    half = tmp_path / ".postgres.new-killed"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")

    server.postgres.initialise()

    assert not half.exists()
    assert (tmp_path / "postgres" / "global").is_dir()


def test_a_folder_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "thesis.txt").write_text("mine")
    with pytest.raises(SetupError):
        Server(tmp_path).postgres.initialise()
    assert (tmp_path / "postgres" / "thesis.txt").read_text() == "mine"


def test_the_password_is_needed_and_is_nowhere_to_be_seen(server: Server) -> None:
    process = server.start()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(make_conninfo(server.dsn, password="guessed"))
    assert PASSWORD not in Path(f"/proc/{process.pid}/cmdline").read_text()
    assert PASSWORD not in Path(f"/proc/{process.pid}/environ").read_text()
    for file in server.postgres.data_dir.glob("log/*"):
        assert PASSWORD not in file.read_text()


def test_the_queue_role_cannot_read_the_state(state_dsns: StateDsns) -> None:
    with psycopg.connect(state_dsns.owner, autocommit=True) as owner:
        owner.execute("CREATE TABLE private_thing (n int)")
        tables = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = [name for (name,) in tables]
    assert "private_thing" in names
    with psycopg.connect(state_dsns.queue, autocommit=True) as queue:
        for name in names:
            with pytest.raises(errors.InsufficientPrivilege):
                queue.execute(f'SELECT * FROM public."{name}"')
        with pytest.raises(errors.InsufficientPrivilege):
            queue.execute("CREATE TABLE mine (n int)")


def test_the_query_role_reads_and_never_writes(data_dsns: DataDsns) -> None:
    with psycopg.connect(data_dsns.owner, autocommit=True) as owner:
        owner.execute("CREATE TABLE hot (n int)")
        owner.execute("GRANT SELECT ON hot TO trace_query")
    with psycopg.connect(data_dsns.writer, autocommit=True) as writer:
        writer.execute("INSERT INTO hot VALUES (1)")
        with pytest.raises(errors.InsufficientPrivilege):
            writer.execute("DROP TABLE hot")
    with psycopg.connect(data_dsns.query, autocommit=True) as query:
        assert query.execute("SELECT n FROM hot").fetchall() == [(1,)]
        with pytest.raises(errors.ReadOnlySqlTransaction):
            query.execute("INSERT INTO hot VALUES (2)")
        query.execute("SET default_transaction_read_only = off")
        with pytest.raises(errors.InsufficientPrivilege):
            query.execute("INSERT INTO hot VALUES (2)")
        with pytest.raises(errors.InsufficientPrivilege):
            query.execute("CREATE TEMPORARY TABLE mine (n int)")


def test_roles_of_one_database_cannot_enter_the_other(
    state_dsns: StateDsns, data_dsns: DataDsns
) -> None:
    state = conninfo_to_dict(state_dsns.owner)["dbname"]
    for dsn in (data_dsns.owner, data_dsns.writer, data_dsns.query):
        for database in (state, "trace_state", "postgres", "template1"):
            with pytest.raises(psycopg.OperationalError, match="permission denied"):
                psycopg.connect(make_conninfo(dsn, dbname=database))
