"""What a query reads of hot tables: exactly the rows and columns it needs, as of one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import duckdb
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.hot_chain import LOGS_PER_BLOCK, MOST, HotChain, block_hash, blocks, hashes, logs
from tests.support.shared_data import SharedData, shared_data
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_tables import HotTable, HotWriter, trim
from trace_platform.data.kept_connections import KeptConnections
from trace_platform.domain.errors import (
    InternalError,
    QueryCanceled,
    QueryTooLarge,
    Unavailable,
)
from trace_platform.query.protocol.messages import Filter, Scan
from trace_platform.query.service.hot_rows import HotTables, open_tables
from trace_platform.sql.relations import Column

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

ALL = Scan()
MB = 1 << 20


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[SharedData]:
    with shared_data(postgres) as made:
        yield made


@pytest.fixture(scope="module")
def connections(data: SharedData) -> Iterator[KeptConnections]:
    made = KeptConnections(DataDatabase(data.query))
    yield made
    made.close()


@pytest.fixture
def chain(data: SharedData) -> HotChain:
    return HotChain(DataDatabase(data.writer))


@pytest.fixture
def writer(chain: HotChain) -> Iterator[HotWriter]:
    with chain.writer() as made:
        made.take_over()
        yield made


def read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def written(
    tables: HotTables, version: UUID, scan: Scan, folder: Path, max_bytes: int = 64 * MB
) -> pa.Table:
    path = folder / f"{uuid4()}.arrow"
    rows = tables.write(version, scan, path, max_bytes)
    found = read(path)
    assert rows == found.num_rows
    return found


def test_all_rows_come_exactly_as_they_were_written(
    chain: HotChain, writer: HotWriter, connections: KeptConnections, tmp_path: Path
) -> None:
    chain.write(writer, 0, 9)
    with open_tables(connections, chain.versions) as tables:
        found = written(tables, chain.logs.dataset_version, ALL, tmp_path)
        assert found.sort_by([("block_number", "ascending"), ("log_index", "ascending")]) == (
            pa.Table.from_batches([logs(0, 9)])
        )
        assert found["value_string"][0].as_py() == str(MOST)
        assert found["value_binary"][0].as_py() == MOST.to_bytes(32, "big")
        assert tables.seam(chain.logs.dataset_version) == 0
        assert tables.columns(chain.logs.dataset_version) == [
            Column("block_number", "BIGINT"),
            Column("log_index", "BIGINT"),
            Column("topic0", "BLOB"),
            Column("value_binary", "BLOB"),
            Column("value_string", "VARCHAR"),
            Column("value_f64", "DOUBLE"),
            Column("success", "BOOLEAN"),
            Column("block_hash", "BLOB"),
        ]


def test_only_the_columns_that_are_needed_are_read(
    chain: HotChain, writer: HotWriter, connections: KeptConnections, tmp_path: Path
) -> None:
    chain.write(writer, 0, 2)
    version = chain.logs.dataset_version
    with open_tables(connections, chain.versions) as tables:
        some = written(tables, version, Scan(columns=["success", "log_index"]), tmp_path)
        assert some.column_names == ["log_index", "success"]
        none = written(tables, version, Scan(columns=[]), tmp_path)
        assert (none.column_names, none.num_rows) == (["block_number"], 9)
        with pytest.raises(InternalError):
            tables.write(version, Scan(columns=["x; DROP TABLE y"]), tmp_path / "x", MB)


def test_a_filter_keeps_rows_in_postgres(
    chain: HotChain, writer: HotWriter, connections: KeptConnections, tmp_path: Path
) -> None:
    chain.write(writer, 0, 99)
    version = chain.logs.dataset_version
    wanted = "0x" + block_hash(42, "a").hex()
    scans = [
        ([Filter("block_number", ">=", [90]), Filter("block_number", "<", [93])], 9),
        ([Filter("block_hash", "=", [wanted])], LOGS_PER_BLOCK),
        ([Filter("topic0", "in", [wanted, "0x"])], 2),
        ([Filter("value_string", "=", [str(MOST)])], 100),
        ([Filter("value_string", "=", ["0"]), Filter("block_number", "=", [7])], 1),
        ([Filter("success", "=", [True])], 100),
        ([Filter("value_f64", ">", [1e70])], 200),
        ([Filter("block_number", ">", [2**70])], 0),
        ([Filter("block_number", ">", [-(2**70)])], 300),
        ([Filter("block_number", "in", [1, 2**64, -5])], 3),
        ([Filter("block_number", "in", [])], 0),
        # Not of the column's type: DuckDB's to judge.
        ([Filter("block_number", "=", ["7"])], 300),
        ([Filter("block_number", "=", [7.5])], 300),
        ([Filter("block_hash", "=", ["no hex"])], 300),
        ([Filter("block_hash", "=", [block_hash(42, "a").hex()])], 300),
        ([Filter("value_string", "=", ["a\0b"])], 300),
        ([Filter("value_string", "=", ["\ud800"])], 300),
        ([Filter("success", "=", [1])], 300),
        ([Filter("no_column", "=", [1])], 300),
        ([Filter("block_number", "; DROP TABLE x", [1])], 300),  # type: ignore[arg-type]
        ([Filter("block_number", ">", [1, 2])], 300),
    ]
    with open_tables(connections, [version]) as tables:
        for filters, rows in scans:
            found = written(tables, version, Scan(columns=[], filters=filters), tmp_path)
            assert found.num_rows == rows, filters


VALUES = pa.schema(
    [
        pa.field("block_number", pa.int64(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("raw", pa.binary()),
        pa.field("words", pa.string()),
        pa.field("real", pa.float64()),
        pa.field("yes", pa.bool_()),
    ]
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "block_number": st.integers(-3, 40) | st.integers(-(2**80), 2**80),
    "n": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**80), 2**80),
    "raw": st.binary(max_size=3),
    "words": st.text(max_size=3)
    | st.sampled_from(["a", "A", "ä", "B", "'", "\\", "a'b", "z", "\U0001f600"]),
    "real": st.floats() | st.sampled_from([0.0, -0.0, float("nan"), 1.5, float("inf")]),
    "yes": st.booleans(),
}
COMPARISONS = ["=", ">", ">=", "<", "<="]


@pytest.fixture(scope="module")
def values(data: SharedData) -> tuple[UUID, list[dict[str, Any]]]:
    """A table with what is likely to go wrong, and its rows."""
    text = [None, "", "a", "A", "ä", "b", "B", "'", "\\", "a'b", "a\\", "\U0001f600", "\ufffd", "~"]
    real = [None, 0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), 5e-324, 1e308]
    whole = [None, 0, 1, -1, 2, -2, 3, 2**63 - 1, -(2**63), 2**53 + 1]
    raw = [None, b"", b"\0", b"\0\0", b"a", b"\xff", b"\x7f", b"\x80", b"a'", b"\\"]
    rows = [
        {
            "block_number": i,
            "n": whole[i % len(whole)],
            "raw": raw[i % len(raw)],
            "words": text[i % len(text)],
            "real": real[i % len(real)],
            "yes": [None, True, False][i % 3],
        }
        for i in range(40)
    ]
    table = HotTable(uuid4(), uuid4(), VALUES, ("block_number",))
    with HotWriter(DataDatabase(data.writer), [table], uuid4(), 1, 8) as writer:
        writer.take_over()
        batch = pa.RecordBatch.from_pylist(rows, schema=VALUES)
        writer.rewrite(0, 39, {table.dataset_version: [batch]}, hashes(0, 39))
    return table.dataset_version, rows


def filters_of(column: str) -> st.SearchStrategy[Filter]:
    one = KINDS[column].map(_sent)
    return st.builds(
        Filter, st.just(column), st.sampled_from(COMPARISONS), one.map(lambda v: [v])
    ) | (st.builds(Filter, st.just(column), st.just("in"), st.lists(one, max_size=4)))


def _sent(value: Any) -> Any:
    return "0x" + value.hex() if isinstance(value, bytes) else value


def _judged(rows: list[dict[str, Any]], filters: list[Filter]) -> list[int]:
    """The blocks of the rows that DuckDB itself chooses."""
    where, values = ["true"], []
    for each in filters:
        marks = ", ".join("?" for _ in each.values)
        if each.comparison != "in":
            where.append(f"{each.column} {each.comparison} {marks}")
        else:
            where.append(f"{each.column} IN ({marks})" if marks else "false")
        raw = each.column == "raw"
        values += [bytes.fromhex(str(v)[2:]) if raw else v for v in each.values]
    held = pa.Table.from_pylist(rows, schema=VALUES)
    with duckdb.connect() as engine:
        engine.register("held", held)
        query = f"SELECT block_number FROM held WHERE {' AND '.join(where)} ORDER BY 1"
        return [number for (number,) in engine.execute(query, values).fetchall()]


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(filters=st.lists(st.sampled_from(list(KINDS)).flatmap(filters_of), max_size=3))
def test_filters_mean_in_postgres_what_they_mean_in_duckdb(
    filters: list[Filter],
    values: tuple[UUID, list[dict[str, Any]]],
    connections: KeptConnections,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    version, rows = values
    # Postgres holds no NUL in text: such a filter is DuckDB's.
    judged = [f for f in filters if not any(isinstance(v, str) and "\0" in v for v in f.values)]
    expected = _judged(rows, judged)
    with open_tables(connections, [version]) as tables:
        folder = tmp_path_factory.getbasetemp()
        found = written(tables, version, Scan(columns=[], filters=filters), folder)
    assert sorted(found["block_number"].to_pylist()) == expected


def test_a_numeric_is_text_also_to_a_filter(
    data: SharedData, connections: KeptConnections, tmp_path: Path
) -> None:
    version = uuid4()
    with psycopg.connect(data.writer, autocommit=True) as worker:
        columns = (
            '[{"name": "block_number", "type": "bigint", "nullable": false},'
            ' {"name": "n", "type": "numeric", "nullable": true}]'
        )
        made = (version, uuid4(), columns, ["block_number"])
        worker.execute("SELECT make_hot_table(%s, %s, %s::jsonb, %s)", made)
        held = f"(1, {2**256 - 1}), (2, 9), (3, 10), (4, NULL), (5, 10.0)"
        worker.execute(f"INSERT INTO dataset_{version.hex} VALUES {held}".encode())
        worker.execute(
            "UPDATE hot_tables SET first_block = 1, last_block = 5 WHERE dataset_version = %s",
            (version,),
        )
    with open_tables(connections, [version]) as tables:
        assert tables.columns(version)[1] == Column("n", "VARCHAR")
        most = Scan(filters=[Filter("n", "=", [str(2**256 - 1)])])
        found = written(tables, version, most, tmp_path)
        assert found.to_pylist() == [{"block_number": 1, "n": str(2**256 - 1)}]
        for comparison, value, expected in (
            ("=", "10", [3]),
            ("<", "9", [1, 3, 5]),  # as text
            ("in", "10.0", [5]),
        ):
            asked = Scan(columns=[], filters=[Filter("n", comparison, [value])])  # type: ignore[arg-type]
            numbers = written(tables, version, asked, tmp_path)["block_number"].to_pylist()
            assert sorted(numbers) == expected


def test_rows_below_the_seam_are_not_read(
    chain: HotChain,
    writer: HotWriter,
    connections: KeptConnections,
    data: SharedData,
    tmp_path: Path,
) -> None:
    chain.write(writer, 0, 9)
    version = chain.blocks.dataset_version
    with psycopg.connect(data.writer, autocommit=True) as worker:
        # Rows that are there still, though the table does not answer for them.
        worker.execute(
            "UPDATE hot_tables SET first_block = 7 WHERE dataset_version = %s", (version,)
        )
    with open_tables(connections, [version]) as tables:
        assert tables.seam(version) == 7
        scan = Scan(columns=["block_number"], filters=[Filter("block_number", ">", [2])])
        found = written(tables, version, scan, tmp_path)
        assert sorted(found["block_number"].to_pylist()) == [7, 8, 9]


def test_an_empty_table_has_columns_and_no_seam(
    chain: HotChain, writer: HotWriter, connections: KeptConnections, tmp_path: Path
) -> None:
    version = chain.blocks.dataset_version
    with open_tables(connections, [version, uuid4()]) as tables:
        assert tables.seam(version) is None
        assert [column.name for column in tables.columns(version)] == chain.blocks.schema.names
        assert written(tables, version, ALL, tmp_path).schema == chain.blocks.schema


def test_a_generation_without_a_table_is_simply_not_there(connections: KeptConnections) -> None:
    version = uuid4()
    for asked in ([version], []):
        with open_tables(connections, asked) as tables:
            assert (tables.columns(version), tables.seam(version)) == ([], None)


def test_what_a_writer_does_meanwhile_changes_nothing(
    chain: HotChain, writer: HotWriter, connections: KeptConnections, tmp_path: Path
) -> None:
    chain.write(writer, 0, 9)
    with open_tables(connections, chain.versions) as tables:
        chain.write(writer, 4, 11, "b")
        assert trim(chain.database, chain.versions, 3, hashes(0, 3)) > 0
        assert [tables.seam(version) for version in chain.versions] == [0, 0]
        found = [written(tables, version, ALL, tmp_path) for version in chain.versions]
    order = [("block_number", "ascending")]
    assert found[0].sort_by(order) == pa.Table.from_batches([blocks(0, 9)])
    assert found[1].sort_by([*order, ("log_index", "ascending")]) == pa.Table.from_batches(
        [logs(0, 9)]
    )
    with open_tables(connections, chain.versions) as tables:
        assert tables.seam(chain.blocks.dataset_version) == 4
        newest = written(tables, chain.blocks.dataset_version, ALL, tmp_path)
        assert newest.sort_by(order) == pa.Table.from_batches([blocks(4, 11, "b")])


def test_too_many_bytes_are_named_and_leave_no_file(
    chain: HotChain, writer: HotWriter, connections: KeptConnections, tmp_path: Path
) -> None:
    chain.write(writer, 0, 19_999)
    path, version = tmp_path / "rows.arrow", chain.logs.dataset_version
    with open_tables(connections, [version]) as tables:
        with pytest.raises(QueryTooLarge) as caught:
            tables.write(version, ALL, path, MB)
        assert "Postgres" in caught.value.message
        assert "block_number" in (caught.value.hint or "")
        assert not path.exists()
    # And the next one finds a connection that works.
    with open_tables(connections, [version]) as tables:
        narrow = Scan(filters=[Filter("block_number", "<", [10])])
        assert written(tables, version, narrow, tmp_path, MB).num_rows == 30


def test_a_link_that_the_child_laid_is_not_followed(
    chain: HotChain, writer: HotWriter, connections: KeptConnections, tmp_path: Path
) -> None:
    chain.write(writer, 0, 2)
    secret, path = tmp_path / "secret", tmp_path / "hot-0.arrow"
    secret.write_text("kept")
    path.symlink_to(secret)
    with open_tables(connections, chain.versions) as tables, pytest.raises(FileExistsError):
        tables.write(chain.blocks.dataset_version, ALL, path, MB)
    assert secret.read_text() == "kept"


def test_a_read_ends_with_the_query_that_it_is_for(
    data: SharedData,
    chain: HotChain,
    writer: HotWriter,
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    """Another writer's lock holds the read up: it would wait for 10 s."""
    chain.write(writer, 0, 2)
    version = chain.blocks.dataset_version
    connections = KeptConnections(DataDatabase(data.query))
    with psycopg.connect(data.owner) as owner, ThreadPoolExecutor(1) as pool:
        with open_tables(connections, [version]) as tables:
            owner.execute(f"LOCK TABLE {chain.blocks.name} IN ACCESS EXCLUSIVE MODE".encode())
            reading = pool.submit(tables.write, version, ALL, tmp_path / "a", MB)
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            eventually(lambda: owner.execute(waits).fetchone() == (1,), "the read waits")
        with pytest.raises(Unavailable):
            reading.result(timeout=0)
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(QueryCanceled):
            tables.write(version, ALL, tmp_path / "a", MB)
    connections.close()


def test_a_connection_is_used_again_and_left_without_a_transaction(
    data: SharedData, chain: HotChain, writer: HotWriter
) -> None:
    connections = KeptConnections(DataDatabase(data.query, dag="mine"), keep=1)

    def sessions() -> list[Any]:
        with psycopg.connect(data.query) as other:
            return other.execute(
                "SELECT pid, state FROM pg_stat_activity WHERE application_name = 'trace-query'"
                " AND usename = current_user AND datname = current_database() ORDER BY 1"
            ).fetchall()

    before = dict(sessions())
    seen = []
    for _ in range(3):
        with open_tables(connections, chain.versions):
            pass
        seen.append({pid: state for pid, state in sessions() if pid not in before})
    assert len(seen[0]) == 1
    assert seen[0] == seen[1] == seen[2]
    assert list(seen[0].values()) == ["idle"]
    connections.close()


def test_a_connection_that_postgres_ended_is_replaced(
    data: SharedData, chain: HotChain, writer: HotWriter
) -> None:
    chain.write(writer, 0, 2)
    connections = KeptConnections(DataDatabase(data.query))
    with open_tables(connections, chain.versions):
        pass
    with psycopg.connect(data.query, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'trace-query' AND state = 'idle'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
    with open_tables(connections, chain.versions) as tables:
        assert tables.seam(chain.blocks.dataset_version) == 0
    connections.close()


def test_postgres_that_is_away_is_named_and_its_password_is_not(data: SharedData) -> None:
    dsn = psycopg.conninfo.make_conninfo(data.query, port=1, password="hunter2")
    with (
        pytest.raises(Unavailable) as caught,
        open_tables(KeptConnections(DataDatabase(dsn)), [uuid4()]),
    ):
        pass
    assert "hunter2" not in repr(caught.value) + str(caught.value.facts)


def test_readers_share_the_connections(
    chain: HotChain, writer: HotWriter, connections: KeptConnections, tmp_path: Path
) -> None:
    chain.write(writer, 0, 499)
    together = threading.Barrier(6)

    def once(number: int) -> pa.Table:
        together.wait()
        with open_tables(connections, chain.versions) as tables:
            scan = Scan(columns=["block_number"], filters=[Filter("block_number", "=", [number])])
            return written(tables, chain.logs.dataset_version, scan, tmp_path)

    with ThreadPoolExecutor(6) as pool:
        for number, found in enumerate(pool.map(once, range(6))):
            assert found["block_number"].to_pylist() == [number] * 3
