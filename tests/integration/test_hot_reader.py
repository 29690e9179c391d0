from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from tests.support.hot_chain import HotChain, block_hash, blocks, hashes, logs
from tests.support.shared_data import SharedData, shared_data
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_reader import read_range, snapshot
from trace_platform.data.hot_tables import Extent, HotTable, HotWriter
from trace_platform.domain.errors import InvalidConfig, Unavailable, UnknownDataset

if TYPE_CHECKING:
    from tests.conftest import PostgresServer


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[SharedData]:
    with shared_data(postgres) as made:
        yield made


@pytest.fixture
def chain(data: SharedData) -> HotChain:
    return HotChain(DataDatabase(data.writer))


@pytest.fixture
def writer(chain: HotChain) -> Iterator[HotWriter]:
    with chain.writer() as made:
        made.take_over()
        yield made


@pytest.fixture
def query(data: SharedData) -> DataDatabase:
    """As those who only read."""
    return DataDatabase(data.query)


def test_a_range_comes_back_as_it_was_written(
    chain: HotChain, writer: HotWriter, query: DataDatabase
) -> None:
    chain.write(writer, 0, 9)
    version = chain.logs.dataset_version
    with snapshot(query, chain.versions) as seen:
        found = pa.Table.from_batches(seen.batches(version, 3, 5))
        assert found == pa.Table.from_batches([logs(3, 5)])
        assert found.schema == chain.logs.schema
        assert seen.extent(version) == Extent(0, 9, 9, origin_block=0)
        assert list(seen.batches(version, 10, 99)) == []


def test_only_the_columns_that_are_asked_for_are_read(
    chain: HotChain, writer: HotWriter, query: DataDatabase
) -> None:
    chain.write(writer, 0, 2)
    with snapshot(query, chain.versions) as seen:
        names = ["success", "block_number"]
        (batch,) = seen.batches(chain.logs.dataset_version, 0, 2, names)
        assert batch == logs(0, 2).select(names)
        with pytest.raises(InvalidConfig, match="no column 'gas'"):
            list(seen.batches(chain.logs.dataset_version, 0, 2, ["gas"]))


def test_what_happens_after_the_snapshot_is_not_in_it(
    chain: HotChain, writer: HotWriter, query: DataDatabase
) -> None:
    chain.write(writer, 0, 5)
    with snapshot(query, chain.versions) as seen:
        chain.write(writer, 3, 7, "b")
        version = chain.blocks.dataset_version
        assert seen.extent(version).last_block == 5
        assert pa.Table.from_batches(seen.batches(version, 0, 9)) == pa.Table.from_batches(
            [blocks(0, 5)]
        )


def test_no_reader_ever_sees_two_forks(
    chain: HotChain, writer: HotWriter, query: DataDatabase
) -> None:
    """Fork after fork is written while snapshots are taken: both tables are of one fork, whole."""
    chain.write(writer, 0, 4, "0")
    done = threading.Event()

    def fork_on() -> None:
        try:
            for n in range(1, 60):
                chain.write(writer, 0, 4 + n % 3, str(n))
        finally:
            done.set()

    forking = threading.Thread(target=fork_on)
    forking.start()
    seen_forks = set()
    while not done.is_set() and len(seen_forks) < 6:
        with snapshot(query, chain.versions) as seen:
            last = seen.extent(chain.blocks.dataset_version).last_block
            assert last is not None
            found = [
                pa.Table.from_batches(seen.batches(version, 0, 99)) for version in chain.versions
            ]
        fork = next(
            n for n in range(60) if found[0]["block_hash"][0].as_py() == block_hash(0, str(n))
        )
        assert found[0] == pa.Table.from_batches([blocks(0, last, str(fork))])
        assert found[1] == pa.Table.from_batches([logs(0, last, str(fork))])
        seen_forks.add(fork)
    forking.join()
    assert seen_forks


def test_a_snapshot_that_is_closed_cannot_be_joined(
    chain: HotChain, writer: HotWriter, query: DataDatabase
) -> None:
    version = chain.blocks.dataset_version
    with snapshot(query, chain.versions) as seen:
        columns, key = seen.columns(version), seen.key(version)
    with pytest.raises(Unavailable, match="snapshot"):
        list(read_range(query, seen.id, version, columns, key, 0, 1))


def test_a_connection_that_breaks_while_rows_come_is_named(
    chain: HotChain, writer: HotWriter, query: DataDatabase
) -> None:
    wide = [row | {"value_string": "x" * 200_000} for row in logs(0, 39).to_pylist()]
    rows = {**chain.rows(0, 39), chain.logs.dataset_version: [_batch(wide, chain.logs)]}
    writer.rewrite(0, 39, rows, hashes(0, 39))
    with snapshot(query, chain.versions) as seen, psycopg.connect(query.dsn) as other:
        batches = seen.batches(chain.logs.dataset_version, 0, 39)
        next(batches)
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = current_user AND query LIKE %s AND pid <> pg_backend_pid()",
            (f"%{chain.logs.name}%",),
        )
        with pytest.raises(Unavailable, match="while rows were read"):
            list(batches)


def _batch(rows: list[dict[str, Any]], table: HotTable) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=table.schema)


def test_a_generation_without_a_hot_table_is_named(query: DataDatabase) -> None:
    with pytest.raises(UnknownDataset), snapshot(query, [uuid4()]):
        pass


def test_memory_does_not_grow_with_the_range(
    chain: HotChain, writer: HotWriter, query: DataDatabase
) -> None:
    for start in (0, 12_000):
        chain.write(writer, start, start + 11_999)
    with snapshot(query, chain.versions) as seen:
        sizes = [batch.nbytes for batch in seen.batches(chain.logs.dataset_version, 0, 23_999)]
    assert len(sizes) > 2
    assert max(sizes) < 16 << 20


def test_a_decimal_is_stored_exactly_and_read_as_text(
    data: SharedData, query: DataDatabase
) -> None:
    most, least = Decimal(10**76 - 1), Decimal(1 - 10**76)
    schema = pa.schema(
        [pa.field("block_number", pa.int64(), nullable=False), pa.field("n", pa.decimal256(76, 0))]
    )
    table = HotTable(uuid4(), uuid4(), schema, ("block_number",))
    version = table.dataset_version
    rows = pa.RecordBatch.from_pydict({"block_number": [0, 1, 2], "n": [most, None, least]}, schema)
    with HotWriter(DataDatabase(data.writer), [table], uuid4(), 1, 8) as writer:
        writer.take_over()
        writer.rewrite(0, 2, {version: [rows]}, hashes(0, 2))
    with snapshot(query, [version]) as seen:
        (batch,) = seen.batches(version, 0, 9)
    assert batch["n"].to_pylist() == ["9" * 76, None, "-" + "9" * 76]


def test_a_uint256_that_is_numeric_is_read_as_text(data: SharedData, query: DataDatabase) -> None:
    version = uuid4()
    with psycopg.connect(data.writer) as writer:
        columns = (
            '[{"name": "block_number", "type": "bigint", "nullable": false},'
            ' {"name": "n", "type": "numeric", "nullable": true}]'
        )
        key = ["block_number"]
        writer.execute(
            "SELECT make_hot_table(%s, %s, %s::jsonb, %s)", (version, uuid4(), columns, key)
        )
        writer.execute(f"INSERT INTO dataset_{version.hex} VALUES (1, {2**256 - 1}), (2, NULL)")
    with snapshot(query, [version]) as seen:
        (batch,) = seen.batches(version, 0, 9)
    assert batch.to_pydict() == {"block_number": [1, 2], "n": [str(2**256 - 1), None]}
