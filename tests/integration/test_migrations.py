from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from trace_platform.app.instance import databases
from trace_platform.app.instance.settings import PostgresSettings, Settings
from trace_platform.domain.errors import SetupError
from trace_platform.drivers.postgres.migrations import migrate

if TYPE_CHECKING:
    from tests.conftest import DataDsns, PostgresServer


@pytest.fixture
def empty(data_dsns: DataDsns) -> str:
    """A database without any migration."""
    with psycopg.connect(data_dsns.owner, autocommit=True) as owner:
        owner.execute("DROP TABLE schema_migrations")
    return data_dsns.owner


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_first.sql").write_text("CREATE TABLE a (n int);\nINSERT INTO a VALUES (1);\n")
    (tmp_path / "0002_second.sql").write_text("SELECT pg_sleep(0.05);\nALTER TABLE a ADD b text;\n")
    return tmp_path


def test_from_empty_all_are_applied_once_and_in_order(empty: str, folder: Path) -> None:
    assert migrate(empty, folder) == ["0001_first", "0002_second"]
    assert migrate(empty, folder) == []
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT n, b FROM a").fetchall() == [(1, None)]


def test_two_starters_apply_each_migration_once(empty: str, folder: Path) -> None:
    together = threading.Barrier(4)

    def start() -> list[str]:
        together.wait()
        return migrate(empty, folder)

    with ThreadPoolExecutor(4) as starters:
        applied = [starters.submit(start) for _ in range(4)]
        results = sorted(future.result() for future in applied)
    assert results == [[], [], [], ["0001_first", "0002_second"]]


def test_a_changed_file_is_refused(empty: str, folder: Path) -> None:
    migrate(empty, folder)
    (folder / "0001_first.sql").write_text("CREATE TABLE a (n bigint);")
    with pytest.raises(SetupError, match="0001_first"):
        migrate(empty, folder)


def test_a_gap_is_refused_before_anything_happens(empty: str, folder: Path) -> None:
    (folder / "0002_second.sql").rename(folder / "0003_third.sql")
    with pytest.raises(SetupError, match="gap"):
        migrate(empty, folder)
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT to_regclass('a')").fetchone() == (None,)


def test_a_database_from_a_newer_version_is_refused(empty: str, folder: Path) -> None:
    migrate(empty, folder)
    (folder / "0002_second.sql").unlink()
    with pytest.raises(SetupError) as caught:
        migrate(empty, folder)
    assert "newer" in (caught.value.hint or "")


def test_a_failing_migration_leaves_nothing_and_names_its_line(empty: str, folder: Path) -> None:
    (folder / "0002_second.sql").write_text("CREATE TABLE half (n int);\nSELEKT 1;\n")
    with pytest.raises(SetupError, match="0002_second line 2"):
        migrate(empty, folder)
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT to_regclass('half')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM a").fetchone() == (1,)


def test_two_starters_prepare_roles_and_databases_together(postgres: PostgresServer) -> None:
    with ThreadPoolExecutor(3) as starters:
        arguments = (postgres.home, postgres.settings, postgres.instance)
        runs = [starters.submit(databases.prepare, *arguments) for _ in range(3)]
        assert [run.result() for run in runs] == [[], [], []]
    with psycopg.connect(postgres.dsn("trace_dispatcher", "trace_state")) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("trace_dispatcher",)


def external(postgres: PostgresServer, state: str, data: str) -> Settings:
    dsns = [
        databases.admin_dsn(postgres.home, postgres.instance, database=name)
        for name in (state, data)
    ]
    return Settings(postgres=PostgresSettings(state_dsn=dsns[0], data_dsn=dsns[1]))


def test_external_databases_are_prepared_by_their_dsns(postgres: PostgresServer) -> None:
    with postgres.admin() as admin:
        admin.execute("CREATE DATABASE their_state")
        admin.execute("CREATE DATABASE their_data")
    try:
        settings = external(postgres, "their_state", "their_data")
        assert databases.prepare(postgres.home, settings, postgres.instance)
        dsn = databases.dsn(postgres.home, settings, postgres.instance, "trace_query")
        with psycopg.connect(dsn) as connection:
            assert connection.info.dbname == "their_data"
            shown = connection.execute("SHOW default_transaction_read_only").fetchone()
            assert shown == ("on",)
    finally:
        with postgres.admin() as admin:
            admin.execute("DROP DATABASE their_state WITH (FORCE)")
            admin.execute("DROP DATABASE their_data WITH (FORCE)")


def test_one_database_for_both_is_refused(postgres: PostgresServer) -> None:
    settings = external(postgres, "postgres", "postgres")
    with pytest.raises(SetupError, match="same database"):
        databases.prepare(postgres.home, settings, postgres.instance)


def test_an_external_user_without_rights_gets_a_clear_error(postgres: PostgresServer) -> None:
    dsn = postgres.dsn("trace_dispatcher", "trace_state")
    other = postgres.dsn("trace_query", "trace_data")
    settings = Settings(postgres=PostgresSettings(state_dsn=dsn, data_dsn=other))
    with pytest.raises(SetupError) as caught:
        databases.prepare(postgres.home, settings, postgres.instance)
    assert "create roles" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["postgresql//me:hunter2@host/db", "postgresql://me:hunter2@[h/d"])
def test_a_malformed_dsn_does_not_leak_its_password(postgres: PostgresServer, text: str) -> None:
    settings = Settings(postgres=PostgresSettings(state_dsn=text, data_dsn=text))
    with pytest.raises(SetupError) as caught:
        databases.prepare(postgres.home, settings, postgres.instance)
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
