"""What a worker's and a reader's role may do in Postgres data, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.hot_chain import HotChain
from tests.support.shared_data import SharedData, shared_data
from trace_platform.data.database import DataDatabase

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

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


@pytest.mark.parametrize("table", ["hot_outbox", "chain_hashes", "staging_tables", "staging"])
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
