from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from psycopg.rows import dict_row

from tests.support.hot_chain import LOGS, LOGS_PER_BLOCK, HotChain, blocks, hashes, logs
from tests.support.scripted_rpc import scripted_rpc
from tests.support.shared_data import SharedData, shared_data
from tests.support.tiny_chain import CHAIN_ID, TinyChain
from trace_platform.data import alerts, hot_tables
from trace_platform.data.alerts import Alert
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_tables import Extent, HotTable, HotWriter, trim
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    BadInput,
    CommitOvertaken,
    DiskFull,
    IncompatibleSchema,
    InvalidConfig,
    StaleFence,
    Unavailable,
    UnknownDataset,
)
from trace_platform.operators.evm.fetch import Chunk, RangeFetcher
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm.schema import DEFAULT_TABLES, LATER, TABLES
from trace_platform.operators.follow import block_follower

if TYPE_CHECKING:
    from tests.conftest import PostgresServer


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[SharedData]:
    with shared_data(postgres) as made:
        yield made


@pytest.fixture
def chain(data: SharedData) -> HotChain:
    return HotChain(DataDatabase(data.writer, dag="ethereum"))


@pytest.fixture
def writer(chain: HotChain) -> Iterator[HotWriter]:
    with chain.writer() as made:
        made.take_over()
        yield made


@pytest.fixture
def ask(data: SharedData) -> Callable[..., list[Any]]:
    """Rows, as the owner of the database sees them."""

    def run(query: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(data.owner) as owner:
            return owner.execute(query.encode(), parameters).fetchall()

    return run


Ask = Callable[..., list[Any]]


def stored(ask: Ask, table: HotTable) -> pa.Table:
    names = ", ".join(table.schema.names)
    rows = ask(f"SELECT {names} FROM {table.name} ORDER BY {', '.join(table.key)}")
    return pa.Table.from_pylist(
        [dict(zip(table.schema.names, row, strict=True)) for row in rows], schema=table.schema
    )


def owed(writer: HotWriter) -> list[tuple[str, int, int]]:
    """Of the blocks: what the logs are owed is the same."""
    both = [
        (each.dataset_version, ("again" if each.again else "new", each.start, each.end))
        for each in writer.pending()
    ]
    versions = list(writer.tables)
    of_blocks, of_logs = ([what for v, what in both if v == version] for version in versions)
    assert of_blocks == of_logs
    return of_blocks


def settle(writer: HotWriter) -> None:
    writer.sent([each.id for each in writer.pending()])


def assert_holds(ask: Ask, chain: HotChain, *forks: tuple[int, int, str]) -> None:
    """Exactly these blocks, of these forks, in both tables, and their hashes."""
    assert stored(ask, chain.blocks) == pa.Table.from_batches([blocks(*fork) for fork in forks])
    assert stored(ask, chain.logs) == pa.Table.from_batches([logs(*fork) for fork in forks])


def test_rows_and_their_announcement_come_together(
    chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    chain.write(writer, 5, 7)
    assert_holds(ask, chain, (5, 7, "a"))
    assert owed(writer) == [("new", 5, 7)]
    assert writer.hashes(0, 100) == hashes(5, 7)[::-1]
    assert chain.extent() == Extent(5, 7, 7)


def test_values_at_their_limits_and_nulls_come_back_exactly(
    chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    chain.write(writer, 0, 0)
    found = stored(ask, chain.logs).to_pylist()
    assert [row["value_string"] for row in found] == [str(2**256 - 1), str(2**255), "0"]
    assert [int.from_bytes(row["value_binary"], "big") for row in found] == [2**256 - 1, 2**255, 0]
    assert found[0]["topic0"] is None
    assert [row["success"] for row in found] == [None, True, False]


@pytest.mark.parametrize(
    ("end", "left", "new"),
    [
        (10, [("again", 8, 10)], []),
        (12, [("again", 8, 10)], [("new", 11, 12)]),
        (9, [("again", 8, 10)], []),
        (7, [("again", 8, 10)], []),
    ],
    ids=["as long", "longer", "shorter", "only shorter"],
)
def test_a_fork_replaces_the_rows_and_owes_one_invalidation(
    end: int, left: list[Any], new: list[Any], chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    chain.write(writer, 1, 10)
    settle(writer)
    chain.write(writer, 8, end, "b", reason="fork at 8")
    kept: list[tuple[int, int, str]] = [(1, 7, "a")]
    assert_holds(ask, chain, *kept, *([(8, end, "b")] if end >= 8 else []))
    assert owed(writer) == left + new
    assert {each.reason for each in writer.pending()} == {"fork at 8"}


def test_a_block_that_comes_back_after_a_shorter_fork_is_announced_again(
    chain: HotChain, writer: HotWriter
) -> None:
    chain.write(writer, 1, 10)
    chain.write(writer, 9, 9, "b")
    settle(writer)
    chain.write(writer, 10, 11, "b")
    assert owed(writer) == [("again", 10, 10), ("new", 11, 11)]


def test_the_same_rewrite_twice_leaves_the_same_rows_and_owes_nothing_new(
    chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    chain.write(writer, 1, 10)
    chain.write(writer, 8, 12, "b")
    before = writer.pending()
    chain.write(writer, 8, 12, "b")
    assert writer.pending() == before
    assert_holds(ask, chain, (1, 7, "a"), (8, 12, "b"))


def test_blocks_that_stay_the_same_are_not_invalidated(chain: HotChain, writer: HotWriter) -> None:
    chain.write(writer, 1, 10)
    settle(writer)
    chain.write(writer, 6, 12)
    assert owed(writer) == [("new", 11, 12)]


def test_rows_of_the_same_block_are_repaired(chain: HotChain, writer: HotWriter, ask: Ask) -> None:
    wrong = {**chain.rows(1, 3), chain.logs.dataset_version: []}
    writer.rewrite(1, 3, wrong, hashes(1, 3))
    assert stored(ask, chain.logs).num_rows == 0
    chain.write(writer, 1, 3)
    assert_holds(ask, chain, (1, 3, "a"))


def test_a_gap_is_refused(chain: HotChain, writer: HotWriter, ask: Ask) -> None:
    chain.write(writer, 1, 3)
    with pytest.raises(BadInput, match="no gap: 4 to 5"):
        chain.write(writer, 6, 7)
    assert_holds(ask, chain, (1, 3, "a"))


@pytest.mark.parametrize(
    "given", [hashes(1, 2), hashes(1, 4), hashes(1, 3) + hashes(3, 3), hashes(2, 4)]
)
def test_hashes_must_be_those_of_the_blocks(
    given: list[Any], chain: HotChain, writer: HotWriter
) -> None:
    with pytest.raises(BadInput, match="hashes"):
        writer.rewrite(1, 3, chain.rows(1, 3), given)


def test_rows_of_every_table_are_asked_for(chain: HotChain, writer: HotWriter) -> None:
    with pytest.raises(BadInput, match="every table"):
        writer.rewrite(1, 1, {chain.blocks.dataset_version: [blocks(1, 1)]}, hashes(1, 1))


def test_rows_beyond_the_range_are_refused(chain: HotChain, writer: HotWriter, ask: Ask) -> None:
    with pytest.raises(BadInput, match="from block 1 to 4, beyond 1-3"):
        writer.rewrite(1, 3, chain.rows(1, 4), hashes(1, 3))
    assert stored(ask, chain.blocks).num_rows == 0


def test_a_duplicate_row_leaves_nothing(chain: HotChain, writer: HotWriter, ask: Ask) -> None:
    twice = {chain.logs.dataset_version: [logs(1, 1), logs(1, 1)]}
    with pytest.raises(BadInput, match="unique"):
        writer.rewrite(1, 1, {**chain.rows(1, 1), **twice}, hashes(1, 1))
    assert stored(ask, chain.blocks).num_rows == 0
    assert writer.pending() == []


def test_a_failure_of_whoever_gives_the_rows_leaves_nothing(
    chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield logs(1, 1)
        raise Unavailable("the node went away")

    with pytest.raises(Unavailable, match="the node went away"):
        writer.rewrite(
            1, 2, {**chain.rows(1, 2), chain.logs.dataset_version: broken()}, hashes(1, 2)
        )
    assert stored(ask, chain.blocks).num_rows == 0
    chain.write(writer, 1, 2)
    assert_holds(ask, chain, (1, 2, "a"))


# Who may write.


def test_an_attempt_that_was_taken_over_from_writes_nothing(
    chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    chain.write(writer, 1, 3)
    with chain.writer(attempt=2) as newer:
        assert newer.take_over() == Extent(1, 3, 3)
        with pytest.raises(StaleFence):
            chain.write(writer, 2, 4, "zombie")
        with pytest.raises(StaleFence):
            writer.take_over()
        with pytest.raises(StaleFence):
            writer.stage(chain.blocks.dataset_version)
        chain.write(newer, 3, 5, "b")
    assert_holds(ask, chain, (1, 2, "a"), (3, 5, "b"))


def test_a_frozen_attempt_gives_up_its_locks(chain: HotChain, writer: HotWriter, ask: Ask) -> None:
    """It stands still in the middle of a COPY while another attempt takes over."""
    chain.write(writer, 1, 3)

    def frozen() -> Iterator[pa.RecordBatch]:
        yield blocks(4, 4, "zombie")
        with chain.writer(attempt=2) as newer:
            newer.take_over()
            chain.write(newer, 4, 5)
        yield blocks(5, 5, "zombie")

    rows = {chain.blocks.dataset_version: frozen(), chain.logs.dataset_version: []}
    with pytest.raises(Unavailable):
        writer.rewrite(4, 5, rows, hashes(4, 5, "zombie"))
    with pytest.raises(StaleFence):
        chain.write(writer, 4, 5, "zombie")
    assert_holds(ask, chain, (1, 5, "a"))


def test_another_task_takes_over(chain: HotChain, writer: HotWriter) -> None:
    chain.write(writer, 1, 3)
    tables = [chain.blocks, chain.logs]
    with HotWriter(chain.database, tables, uuid4(), 1, 8) as other:
        assert other.take_over() == Extent(1, 3, 3)
        chain.write(other, 4, 4)
    with pytest.raises(StaleFence):
        chain.write(writer, 5, 5)


def test_writers_that_race_leave_the_rows_of_one_of_them(chain: HotChain, ask: Ask) -> None:
    def run(attempt: int) -> str:
        with chain.writer(attempt) as writer:
            try:
                writer.take_over()
                for n in range(1, 6):
                    chain.write(writer, 1, n, f"fork{attempt}")
                return "wrote"
            except (StaleFence, Unavailable):
                return "gave way"

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(run, [1, 2, 3, 4]))
    assert said[3] == "wrote"
    assert_holds(ask, chain, (1, 5, "fork4"))


def test_tables_that_are_not_there_are_named(chain: HotChain) -> None:
    with chain.writer() as writer, pytest.raises(UnknownDataset):
        chain.write(writer, 1, 1)


# What breaks.


def test_what_was_not_announced_is_still_owed_after_a_crash(
    chain: HotChain, writer: HotWriter
) -> None:
    chain.write(writer, 1, 3)
    chain.write(writer, 3, 4, "b")
    before = writer.pending()
    writer.close()
    with chain.writer(attempt=2) as newer:
        newer.take_over()
        assert newer.pending() == before
        newer.sent([each.id for each in before[:2]])
        assert newer.pending() == before[2:]


def test_a_lost_connection_is_named_and_replaced(
    chain: HotChain, writer: HotWriter, postgres: PostgresServer, ask: Ask
) -> None:
    chain.write(writer, 1, 3)

    def cut() -> Iterator[pa.RecordBatch]:
        yield blocks(4, 4)
        with postgres.admin() as admin:
            name = f"hot:{chain.task_id}:1"
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            admin.execute(f"{query} WHERE application_name = %s", (name,))
        yield blocks(5, 5)

    with pytest.raises(Unavailable) as caught:
        writer.rewrite(
            4, 5, {**chain.rows(4, 5), chain.blocks.dataset_version: cut()}, hashes(4, 5)
        )
    assert caught.value.retryable
    chain.write(writer, 4, 5)
    assert_holds(ask, chain, (1, 5, "a"))
    assert owed(writer) == [("new", 1, 3), ("new", 4, 5)]


def test_a_full_disk_is_named_and_leaves_nothing(
    chain: HotChain, writer: HotWriter, data: SharedData, ask: Ask
) -> None:
    """As Postgres says it, for a table that has no room for one row more."""
    chain.write(writer, 1, 3)
    with psycopg.connect(data.owner) as owner:
        owner.execute(
            f"""CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
                GRANT EXECUTE ON FUNCTION no_room TO trace_data_writer;
                CREATE TRIGGER no_room BEFORE INSERT ON {chain.logs.name} EXECUTE FUNCTION no_room()
            """
        )
    with pytest.raises(DiskFull) as caught:
        chain.write(writer, 2, 4, "b")
    assert caught.value.retryable
    assert_holds(ask, chain, (1, 3, "a"))


def test_a_connection_that_broke_between_two_writes_goes_unnoticed(
    chain: HotChain, writer: HotWriter, postgres: PostgresServer, ask: Ask
) -> None:
    chain.write(writer, 1, 3)
    with postgres.admin() as admin:
        query = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        admin.execute(f"{query} WHERE application_name = %s", (f"hot:{chain.task_id}:1",))
    chain.write(writer, 4, 5)
    assert_holds(ask, chain, (1, 5, "a"))


def test_an_unreachable_postgres_is_named_without_its_password(unused_port: int) -> None:
    database = DataDatabase(f"host=127.0.0.1 port={unused_port} user=me password=hunter2 dbname=x")
    with HotChain(database).writer() as writer, pytest.raises(Unavailable) as caught:
        writer.take_over()
    assert "hunter2" not in f"{caught.value} {caught.value.hint} {database!r}"


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# Columns.


def test_columns_that_may_be_null_are_added(chain: HotChain, writer: HotWriter, ask: Ask) -> None:
    chain.write(writer, 1, 1)
    wider = chain.blocks.schema.append(pa.field("blob_gas_used", pa.int64()))
    chain.blocks = replace(chain.blocks, schema=wider)
    with chain.writer(attempt=2) as newer:
        assert newer.take_over() == Extent(1, 1, 1)
    assert stored(ask, chain.blocks)["blob_gas_used"].to_pylist() == [None]


@pytest.mark.parametrize(
    "schema",
    [
        [pa.field("block_number", pa.int64(), nullable=False)],
        [pa.field("block_hash", pa.string(), nullable=False)],
        [pa.field("extra", pa.int64(), nullable=False)],
    ],
    ids=["a column is gone", "a type is another", "a new one is never null"],
)
def test_other_columns_need_a_new_generation(
    schema: list[pa.Field], chain: HotChain, writer: HotWriter
) -> None:
    kept = {field.name: field for field in chain.blocks.schema}
    if schema[0].name == "block_number":
        changed = pa.schema(schema)
    else:
        changed = pa.schema({**kept, **{field.name: field for field in schema}}.values())
    chain.blocks = replace(chain.blocks, schema=changed)
    with chain.writer(attempt=2) as newer, pytest.raises(IncompatibleSchema) as caught:
        newer.take_over()
    assert "new generation" in (caught.value.hint or "")


def test_a_key_becomes_longer_and_never_shorter(
    chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    chain.write(writer, 1, 1)
    shorter = chain.logs
    chain.logs = replace(shorter, key=("block_number", "log_index", "value_string"))
    with chain.writer(attempt=2) as newer:
        newer.take_over()
        same_index = logs(2, 2).set_column(1, LOGS.field("log_index"), pa.array([0, 0, 0]))
        rows = {**chain.rows(2, 2), chain.logs.dataset_version: [same_index]}
        newer.rewrite(2, 2, rows, hashes(2, 2))
    assert stored(ask, chain.logs).num_rows == 2 * LOGS_PER_BLOCK
    for key in (shorter.key, ("block_number", "value_string")):
        chain.logs = replace(shorter, key=key)
        with chain.writer(attempt=3) as newer, pytest.raises(IncompatibleSchema):
            newer.take_over()


def test_the_tables_of_an_older_follower_take_todays_rows(data: SharedData, ask: Ask) -> None:
    """They had none of the later columns, and logs that differ in their transaction alone were the
    same."""
    chain = TinyChain(n_blocks=3, n_transactions=2)
    chain.block(2)["transactions"][0]["gasPrice"] = hex(2**64 - 1)
    chain.receipts_of(2)[1]["logs"][0]["logIndex"] = "0x0"
    chunks = [_chunk(chain, number) for number in (1, 2)]
    tables = {
        name: HotTable(uuid4(), uuid4(), TABLES[name], block_follower._KEYS[name])
        for name in DEFAULT_TABLES
    }
    older = {name: _as_before(table) for name, table in tables.items()}
    database, task_id = DataDatabase(data.writer, dag="ethereum"), uuid4()
    for attempt, made in enumerate((older, tables)):
        with HotWriter(database, list(made.values()), task_id, attempt + 1, 8) as writer:
            writer.take_over()
            rows = {
                table.dataset_version: [getattr(chunks[attempt], name).select(table.schema.names)]
                for name, table in made.items()
            }
            hashes_ = [(attempt + 1, chunks[attempt].blocks["block_hash"][0].as_py())]
            writer.rewrite(attempt + 1, attempt + 1, rows, hashes_)
    found = {name: stored(ask, table) for name, table in tables.items()}
    for name, table in found.items():
        older, today = (getattr(chunk, name) for chunk in chunks)
        for field in list(older.schema)[-len(LATER[name]) :]:
            place = older.schema.names.index(field.name)
            older = older.set_column(place, field, pa.nulls(older.num_rows, field.type))
        assert table == pa.Table.from_batches([older, today])
    assert found["logs"]["timestamp"].to_pylist() == [None, None, *[1_700_000_024] * 2]
    assert found["transactions"]["above_int64"].to_pylist() == [
        *(None, None, json.dumps({"gas_price": str(2**64 - 1)}), None)
    ]
    assert found["logs"]["log_index"].to_pylist() == [0, 1, 0, 0]


def _as_before(table: HotTable) -> HotTable:
    is_of_logs = "log_index" in table.schema.names
    name = next(name for name, schema in TABLES.items() if schema == table.schema)
    kept = list(table.schema)[: -len(LATER[name])]
    key = ("block_number", "log_index") if is_of_logs else table.key
    return replace(table, schema=pa.schema(kept), key=key)


def _chunk(chain: TinyChain, number: int) -> Chunk:
    with scripted_rpc(chain.answer) as node:
        client = RpcClient(node.url)
        try:
            (found,) = RangeFetcher(client, CHAIN_ID).chunks(BlockRange(number, number))
        finally:
            client.close()
    return found


def test_rows_with_other_columns_say_which(chain: HotChain, writer: HotWriter) -> None:
    odd = blocks(1, 1).drop_columns(["size"]).append_column("sise", pa.array([1]))
    with pytest.raises(IncompatibleSchema, match="size is missing; sise is not one of them"):
        writer.rewrite(
            1, 1, {**chain.rows(1, 1), chain.blocks.dataset_version: [odd]}, hashes(1, 1)
        )


def test_a_type_that_no_hot_table_holds_is_refused(chain: HotChain) -> None:
    schema = chain.blocks.schema.append(pa.field("seen", pa.timestamp("us")))
    chain.blocks = replace(chain.blocks, schema=schema)
    with chain.writer() as writer, pytest.raises(InvalidConfig, match="'seen' is timestamp"):
        writer.take_over()


# The seam.


def test_trimmed_rows_go_and_the_table_answers_from_the_next_block(
    chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    chain.write(writer, 1, 10)
    assert trim(chain.database, chain.versions, 4, hashes(1, 4)) == 4 + 4 * LOGS_PER_BLOCK
    assert_holds(ask, chain, (5, 10, "a"))
    assert chain.extent() == Extent(5, 10, 10)
    assert trim(chain.database, chain.versions, 4, hashes(1, 4)) == 0


@pytest.mark.parametrize(
    "expected",
    [hashes(1, 3) + hashes(4, 4, "b"), hashes(1, 3), []],
    ids=["another", "one short", "none"],
)
def test_nothing_is_trimmed_when_the_files_hold_something_else(
    expected: list[Any], chain: HotChain, writer: HotWriter, ask: Ask
) -> None:
    chain.write(writer, 1, 10)
    with pytest.raises(CommitOvertaken):
        trim(chain.database, chain.versions, 4, expected)
    assert_holds(ask, chain, (1, 10, "a"))
    assert chain.extent() == Extent(1, 10, 10)


def test_a_long_trim_lets_the_writer_in_and_ends_where_the_files_hold_something_else(
    chain: HotChain, writer: HotWriter, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot_tables, "_TRIMMED_AT_ONCE", 2)
    chain.write(writer, 1, 10)
    with pytest.raises(CommitOvertaken, match="block 6 "):
        trim(chain.database, chain.versions, 8, [*hashes(1, 5), *hashes(6, 8, "b")])
    assert_holds(ask, chain, (5, 10, "a"))
    assert trim(chain.database, chain.versions, 8, hashes(1, 8)) == 4 * (1 + LOGS_PER_BLOCK)
    assert_holds(ask, chain, (9, 10, "a"))
    assert chain.extent() == Extent(9, 10, 10)


def test_blocks_that_a_shorter_fork_took_away_are_not_trimmed(
    chain: HotChain, writer: HotWriter
) -> None:
    chain.write(writer, 1, 10)
    chain.write(writer, 9, 8)
    with pytest.raises(CommitOvertaken, match="block 9"):
        trim(chain.database, chain.versions, 10, hashes(1, 10))


def test_all_that_there_is_can_be_trimmed(chain: HotChain, writer: HotWriter, ask: Ask) -> None:
    chain.write(writer, 1, 10)
    trim(chain.database, chain.versions, 10, hashes(1, 10))
    chain.write(writer, 11, 11)
    assert_holds(ask, chain, (11, 11, "a"))


def test_a_deep_fork_moves_the_seam_down(chain: HotChain, writer: HotWriter, ask: Ask) -> None:
    chain.write(writer, 1, 10)
    settle(writer)
    trim(chain.database, chain.versions, 6, hashes(1, 6))
    chain.write(writer, 4, 11, "b")
    assert_holds(ask, chain, (4, 11, "b"))
    assert chain.extent().first_block == 4


def test_hashes_outlive_their_rows_for_as_many_blocks_as_asked(
    chain: HotChain, writer: HotWriter
) -> None:
    chain.write(writer, 1, 20)
    assert len(writer.hashes(0, 99)) == 20  # all have rows
    trim(chain.database, chain.versions, 18, hashes(1, 18))
    chain.write(writer, 21, 21)
    assert writer.hashes(0, 99) == hashes(14, 21)[::-1]


# Alerts.


def deep_fork(key: str) -> Alert:
    return Alert("critical", "deep_reorg", "70 blocks", key, facts={"depth": 70})


def recorded(chain: HotChain, key: str) -> list[Any]:
    query = "SELECT * FROM alert_events WHERE dedupe_key = %s"
    with psycopg.connect(chain.database.dsn, row_factory=dict_row) as connection:
        return connection.execute(query, (key,)).fetchall()


def test_an_alert_comes_with_the_rows_and_once(chain: HotChain, writer: HotWriter) -> None:
    for _ in range(2):
        writer.rewrite(1, 1, chain.rows(1, 1), hashes(1, 1), alert=deep_fork("once"))
    (found,) = recorded(chain, "once")
    assert (found["severity"], found["facts"]) == ("critical", {"depth": 70})
    assert (found["dag"], found["job"]) == ("ethereum", None)


def test_an_alert_of_a_rewrite_that_failed_is_not_recorded(
    chain: HotChain, writer: HotWriter
) -> None:
    twice = {**chain.rows(1, 1), chain.blocks.dataset_version: [blocks(1, 1), blocks(1, 1)]}
    with pytest.raises(BadInput, match="unique"):
        writer.rewrite(1, 1, twice, hashes(1, 1), alert=deep_fork("failed"))
    assert recorded(chain, "failed") == []


def test_an_alert_that_repeats_odd_characters_is_recorded(chain: HotChain) -> None:
    facts = {"said": "0x\0", "all": ["\0", {"\0": 1}]}
    key = str(uuid4())
    alerts.record(chain.database, Alert("info", "odd", "it said \0", key, facts))
    (found,) = recorded(chain, key)
    assert found["message"] == "it said \ufffd"
    assert found["facts"] == {"said": "0x\ufffd", "all": ["\ufffd", {"\ufffd": 1}]}


def test_an_alert_is_recorded_once(chain: HotChain) -> None:
    assert [alerts.record(chain.database, deep_fork(key)) for key in "abca"] == [True] * 3 + [False]
