"""What a worker's and a reader's role may do in Postgres data, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.hot_chain import HotChain
from tests.support.shared_data import SharedData, shared_data
from trace_platform.app.instance import databases
from trace_platform.data.database import DataDatabase
from trace_platform.drivers.postgres.migrations import migrate

if TYPE_CHECKING:
    from tests.conftest import DataDsns, PostgresServer

DENIED = psycopg.errors.InsufficientPrivilege


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[SharedData]:
    with shared_data(postgres) as made:
        yield made


@pytest.fixture(scope="module")
def chain(data: SharedData) -> HotChain:
    """Two hot tables with a few blocks, and a staging table."""
    made = HotChain(DataDatabase(data.writer))
    with made.writer() as writer:
        writer.take_over()
        made.write(writer, 0, 3)
        writer.stage(made.blocks.dataset_version)
    return made


@pytest.fixture
def worker(data: SharedData) -> Iterator[psycopg.Connection]:
    with psycopg.connect(data.writer, autocommit=True) as connection:
        yield connection


@pytest.fixture
def reader(data: SharedData) -> Iterator[psycopg.Connection]:
    with psycopg.connect(data.query, autocommit=True) as connection:
        yield connection


DDL = [
    "DROP TABLE {table}",
    "ALTER TABLE {table} ADD COLUMN x int",
    "ALTER TABLE {table} OWNER TO trace_data_writer",
    "TRUNCATE {table}",
    "CREATE INDEX ON {table} (size)",
    "CREATE TRIGGER t BEFORE UPDATE ON {table} FOR EACH ROW"
    " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE TABLE mine (n int)",
    "CREATE TEMPORARY TABLE mine (n int)",
    "CREATE SCHEMA mine",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql RETURN 1",
    "CREATE OR REPLACE FUNCTION hot_table_name(version uuid) RETURNS text LANGUAGE sql RETURN 'x'",
    "SET ROLE trace_data_owner",
    "COPY {table} TO PROGRAM 'id'",
    "COPY {table} FROM '/etc/passwd'",
]


@pytest.mark.parametrize("statement", DDL)
def test_a_worker_changes_no_table(
    statement: str, worker: psycopg.Connection, chain: HotChain
) -> None:
    with pytest.raises(DENIED):
        worker.execute(statement.format(table=chain.blocks.name).encode())


def test_a_worker_gives_no_rights_away(worker: psycopg.Connection, chain: HotChain) -> None:
    # Postgres warns, and grants nothing.
    worker.execute(f"GRANT INSERT ON {chain.blocks.name} TO trace_query")
    asked = "SELECT has_table_privilege('trace_query', %s, 'INSERT')"
    assert worker.execute(asked, (chain.blocks.name,)).fetchone() == (False,)


REGISTRY = [
    "INSERT INTO hot_tables (dataset_version, dataset_uuid, columns, key) VALUES"
    " (gen_random_uuid(), gen_random_uuid(), '[]', '{a}')",
    "DELETE FROM hot_tables",
    "UPDATE hot_tables SET columns = '[]'",
    "UPDATE hot_tables SET dataset_uuid = gen_random_uuid()",
    "UPDATE hot_tables SET dataset_version = gen_random_uuid()",
    "UPDATE hot_tables SET key = '{}'",
    "INSERT INTO staging_tables (name, dataset_version, writer_task, writer_attempt) VALUES"
    " ('hot_tables', gen_random_uuid(), gen_random_uuid(), 1)",
    "UPDATE staging_tables SET name = 'hot_tables'",
    "DELETE FROM staging_tables",
    "UPDATE alert_events SET severity = 'info'",
    "DELETE FROM alert_events",
    "SELECT * FROM schema_migrations",
    "SELECT drop_hot_table(gen_random_uuid())",
    "SELECT hot_column_list('[]')",
]


@pytest.mark.parametrize("statement", REGISTRY)
def test_a_worker_changes_only_extents_and_fences_of_the_registry(
    statement: str, worker: psycopg.Connection, chain: HotChain
) -> None:
    with pytest.raises(DENIED):
        worker.execute(statement.encode())


@pytest.mark.parametrize("name", ["hot_tables", "chain_hashes", 'x"; DROP TABLE hot_tables; --'])
def test_only_staging_tables_are_dropped_as_such(
    name: str, worker: psycopg.Connection, chain: HotChain
) -> None:
    for each in (name, chain.blocks.name):
        dropped = worker.execute("SELECT drop_staging_table(%s)", (each,)).fetchone()
        assert dropped == (False,)
    assert worker.execute("SELECT count(*) > 0 FROM hot_tables").fetchone() == (True,)


def test_only_the_holder_of_the_fence_stages(worker: psycopg.Connection, chain: HotChain) -> None:
    stage = "SELECT make_staging_table(%s, %s, %s)"
    for task, attempt in [(uuid4(), 1), (chain.task_id, 2)]:
        arguments = (chain.blocks.dataset_version, task, attempt)
        assert worker.execute(stage, arguments).fetchone() == (None,)


def column(name: Any = "n", kind: Any = "bigint", nullable: Any = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable}


NUMBER = column("block_number", nullable=False)


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ([NUMBER, column('x"; drop table hot_tables; --')], ["block_number"]),
        ([NUMBER, column("x y")], ["block_number"]),
        ([NUMBER, column("X")], ["block_number"]),
        ([NUMBER, column("x" * 64)], ["block_number"]),
        ([NUMBER, column("")], ["block_number"]),
        ([NUMBER, column("x\n")], ["block_number"]),
        ([NUMBER, column(None)], ["block_number"]),
        ([NUMBER, column(kind="bigint DEFAULT 1")], ["block_number"]),
        ([NUMBER, column(kind="bigint, x int")], ["block_number"]),
        ([NUMBER, column(kind="json")], ["block_number"]),
        ([NUMBER, column(kind=None)], ["block_number"]),
        ([NUMBER, column(nullable="true")], ["block_number"]),
        ([NUMBER, column(nullable=None)], ["block_number"]),
        ([NUMBER, "n"], ["block_number"]),
        ([NUMBER, {}], ["block_number"]),
        ([], ["block_number"]),
        ({}, ["block_number"]),
        (None, ["block_number"]),
        ([NUMBER, column()], ["n", "block_number"]),
        ([NUMBER, column()], ["block_number", "n"]),
        ([NUMBER, column()], ["block_number", "missing"]),
        ([NUMBER], ["block_number); DROP TABLE hot_tables; --"]),
        ([NUMBER], []),
        ([NUMBER], [None]),
        ([column("block_number", "text", False)], ["block_number"]),
    ],
)
def test_a_table_of_strange_names_types_or_keys_is_refused(
    columns: Any, key: Any, worker: psycopg.Connection
) -> None:
    version = uuid4()
    with pytest.raises(psycopg.DataError):
        worker.execute(
            "SELECT make_hot_table(%s, %s, %s, %s)", (version, uuid4(), Jsonb(columns), key)
        )
    made = worker.execute("SELECT to_regclass(%s)", (f"dataset_{version.hex}",)).fetchone()
    assert made == (None,)


def test_a_table_that_another_made_cannot_be_claimed_for_another_dataset(
    worker: psycopg.Connection, chain: HotChain
) -> None:
    make = "SELECT make_hot_table(%s, %s, %s, %s)"
    arguments = (chain.blocks.dataset_version, uuid4(), Jsonb([NUMBER]), ["block_number"])
    assert worker.execute(make, arguments).fetchone() == (False,)


def test_a_table_that_is_made_for_ever_keeps_only_those_waiting_who_make_the_same(
    worker: psycopg.Connection, data: SharedData
) -> None:
    make = "SELECT make_hot_table(%s, %s, %s, %s)"
    same, other, dataset = uuid4(), uuid4(), uuid4()
    worker.execute("SET lock_timeout = '3s'")
    with psycopg.connect(data.writer) as stolen:
        stolen.execute(make, (same, dataset, Jsonb([NUMBER]), ["block_number"]))
        made = worker.execute(make, (other, uuid4(), Jsonb([NUMBER]), ["block_number"]))
        assert made.fetchone() == (True,)
        worker.execute("SET lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            worker.execute(make, (same, dataset, Jsonb([NUMBER]), ["block_number"]))
        stolen.commit()
    made = worker.execute(make, (same, dataset, Jsonb([NUMBER]), ["block_number"]))
    assert made.fetchone() == (True,)


def test_a_search_path_of_the_callers_changes_nothing(worker: psycopg.Connection) -> None:
    worker.execute("SET search_path = pg_temp, nowhere")
    version = uuid4()
    arguments = (version, uuid4(), Jsonb([NUMBER]), ["block_number"])
    made = worker.execute("SELECT public.make_hot_table(%s, %s, %s, %s)", arguments).fetchone()
    assert made == (True,)
    found = worker.execute("SELECT to_regclass(%s)", (f"public.dataset_{version.hex}",)).fetchone()
    assert found != (None,)


def test_a_reader_reads_hot_tables_and_what_they_are(
    reader: psycopg.Connection, chain: HotChain
) -> None:
    count = reader.execute(f"SELECT count(*) FROM {chain.blocks.name}").fetchone()
    assert count == (4,)
    assert reader.execute("SELECT first_block FROM hot_tables LIMIT 1").fetchone() == (0,)


HIDDEN = [
    "hot_outbox",
    "chain_hashes",
    "staging_tables",
    "staging",
    "alert_events",
    "schema_migrations",
    "pg_catalog.pg_authid",
    "pg_catalog.pg_hba_file_rules",
    "pg_catalog.pg_user_mapping",
]


@pytest.mark.parametrize("table", HIDDEN)
def test_a_reader_reads_nothing_else(
    table: str, reader: psycopg.Connection, worker: psycopg.Connection, chain: HotChain
) -> None:
    if table == "staging":
        (table,) = worker.execute("SELECT name FROM staging_tables LIMIT 1").fetchone() or ("",)
    with pytest.raises(DENIED):
        reader.execute(f"SELECT * FROM {table}")


WRITES = [
    "INSERT INTO {table} VALUES ('x', 9, 9)",
    "UPDATE {table} SET size = 0",
    "DELETE FROM {table}",
    "TRUNCATE {table}",
    "DROP TABLE {table}",
    "SELECT * FROM {table} FOR UPDATE",
    "UPDATE hot_tables SET first_block = 0",
    "INSERT INTO alert_events (severity, code, message, dedupe_key) VALUES ('info', 'x', 'x', 'x')",
    "SELECT make_hot_table(gen_random_uuid(), gen_random_uuid(), '[]', '{{}}')",
    "SELECT make_staging_table(gen_random_uuid(), gen_random_uuid(), 1)",
    "SELECT drop_staging_table('x')",
    "SELECT drop_hot_table(gen_random_uuid())",
    "CREATE TABLE mine (n int)",
    "CREATE TEMPORARY TABLE mine (n int)",
]


@pytest.mark.parametrize("statement", WRITES)
def test_a_reader_changes_nothing_even_when_it_asks_to_write(
    statement: str, reader: psycopg.Connection, chain: HotChain
) -> None:
    reader.execute("SET default_transaction_read_only = off")
    with pytest.raises(DENIED):
        reader.execute(statement.format(table=chain.blocks.name).encode())
    reader.execute("SET default_transaction_read_only = on")


REACHES = [
    "SELECT writer_task FROM hot_tables",
    "SELECT * FROM hot_tables",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT pg_stat_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/x')",
    "COPY {table} TO PROGRAM 'id'",
    "COPY {table} TO '/tmp/x'",
    "COPY {table} FROM PROGRAM 'id'",
    "COPY hot_tables TO STDOUT",
    "COPY (SELECT * FROM alert_events) TO STDOUT",
    "SELECT query_to_xml('SELECT * FROM alert_events', true, true, '')",
    "SELECT open_hot_table()",
    "SELECT hot_table_name(gen_random_uuid())",
    "SET ROLE trace_data_owner",
    "SET ROLE trace_data_writer",
    "SET SESSION AUTHORIZATION trace_data_owner",
    "ALTER ROLE trace_query SUPERUSER",
    "ALTER SYSTEM SET log_statement = 'all'",
    "ALTER DEFAULT PRIVILEGES FOR ROLE trace_data_owner GRANT ALL ON TABLES TO trace_query",
    "CREATE SCHEMA mine",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql RETURN 1",
    "SELECT pg_reload_conf()",
    "SELECT pg_create_logical_replication_slot('x', 'test_decoding')",
    "BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE",
    "COMMENT ON TABLE {table} IS 'x'",
    "DO LANGUAGE plpgsql $$ BEGIN EXECUTE 'DELETE FROM {table}'; END $$",
]


@pytest.mark.parametrize("statement", REACHES)
def test_a_reader_reaches_no_file_program_role_or_setting(
    statement: str, reader: psycopg.Connection, chain: HotChain
) -> None:
    reader.execute("SET default_transaction_read_only = off")
    with pytest.raises(DENIED):
        reader.execute(statement.format(table=chain.blocks.name).encode())


def test_a_table_that_is_nobodys_dataset_is_not_a_readers(
    data: SharedData, reader: psycopg.Connection
) -> None:
    with psycopg.connect(data.owner, autocommit=True) as owner:
        owner.execute("CREATE TABLE dataset_of_nobody (n int)")
        owner.execute("CREATE VIEW every_hash AS SELECT * FROM chain_hashes")
    for name in ("dataset_of_nobody", "every_hash"):
        with pytest.raises(DENIED):
            reader.execute(f"SELECT * FROM {name}".encode())


def test_what_a_reader_may_is_all_that_it_was_given(
    reader: psycopg.Connection, chain: HotChain
) -> None:
    tables = reader.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'v', 'm', 'p') AND has_table_privilege(oid, 'SELECT')"
    ).fetchall()
    assert {chain.blocks.name, chain.logs.name} <= {name for (name,) in tables}
    assert [name for (name,) in tables if not name.startswith("dataset_")] == []
    functions = reader.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        " AND has_function_privilege(oid, 'EXECUTE')"
    ).fetchall()
    assert functions == []


def test_tables_from_before_the_readers_were_limited_stay_readable(
    data_dsns: DataDsns, tmp_path: Path
) -> None:
    """A database with hot tables that is brought up to date."""
    for path in sorted(databases.DATA.migrations.glob("*.sql")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with psycopg.connect(data_dsns.owner, autocommit=True) as owner:
        # As it was before: of the migrations since then nothing.
        owner.execute("DROP TRIGGER open_hot_table ON hot_tables")
        owner.execute("DROP FUNCTION open_hot_table()")
        owner.execute(
            "ALTER TABLE alert_events DROP COLUMN acknowledged_at, DROP COLUMN acknowledged_by,"
            " DROP COLUMN acknowledged_note, DROP COLUMN ended_at"
        )
        owner.execute("DROP FUNCTION forget_alerts, incident_has_ended")
        owner.execute("DELETE FROM schema_migrations WHERE version >= 5")
        old = "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO trace_query"
        owner.execute(old)
        owner.execute("GRANT SELECT ON hot_tables, alert_events TO trace_query")
    chain = HotChain(DataDatabase(data_dsns.writer))
    with chain.writer() as writer:
        writer.take_over()
        chain.write(writer, 0, 3)
    with psycopg.connect(data_dsns.owner, autocommit=True) as owner:
        owner.execute("ALTER TABLE hot_tables DROP COLUMN origin_block")
    assert migrate(data_dsns.owner, tmp_path)[:1] == ["0005_query_role"]
    with psycopg.connect(data_dsns.query, autocommit=True) as reader:
        counted = reader.execute(f"SELECT count(*) FROM {chain.blocks.name}".encode()).fetchone()
        assert counted == (4,)
        with pytest.raises(DENIED):
            reader.execute("SELECT * FROM alert_events")


def test_the_owner_drops_a_table_with_all_that_is_known_of_it(data: SharedData) -> None:
    chain = HotChain(DataDatabase(data.writer))
    with chain.writer() as writer:
        writer.take_over()
        chain.write(writer, 0, 3)
        writer.stage(chain.blocks.dataset_version)
    with psycopg.connect(data.owner) as owner:
        for version in chain.versions:
            assert owner.execute("SELECT drop_hot_table(%s)", (version,)).fetchone() == (True,)
            assert owner.execute("SELECT drop_hot_table(%s)", (version,)).fetchone() == (False,)
        for table in ("hot_tables", "chain_hashes", "hot_outbox", "staging_tables"):
            query = f"SELECT count(*) FROM {table} WHERE dataset_version = ANY(%s)"
            assert owner.execute(query.encode(), (chain.versions,)).fetchone() == (0,)
        left = "SELECT count(*) FROM pg_class WHERE relname LIKE ANY(%s)"
        names = [f"%{version.hex}%" for version in chain.versions]
        assert owner.execute(left, (names,)).fetchone() == (0,)
