"""Reading hot tables: many readers, one snapshot, so that no two of them see different forks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from trace_platform.data.arrow_connection import ArrowTransaction, arrow_transaction
from trace_platform.data.columns import Column, schema_of, select_list
from trace_platform.data.connection import DataConnection
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_rows import table_name
from trace_platform.data.owed import Extent
from trace_platform.data.sync_queries import load_sync_queries
from trace_platform.domain.errors import InvalidConfig, UnknownDataset

if TYPE_CHECKING:
    from trace_platform.drivers.postgres.queries import Row

_sql = load_sync_queries(__file__)
# The transaction that exports is idle for as long as others read.
_OPTIONS = (
    "-c default_transaction_isolation=repeatable\\ read -c default_transaction_read_only=on"
    " -c idle_in_transaction_session_timeout=0"
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Hot tables as they were at one moment. Others join by `id` while it is open."""

    id: str
    database: DataDatabase = field(repr=False)
    _tables: dict[UUID, Row] = field(repr=False)

    def extent(self, version: UUID) -> Extent:
        row = self._tables[version]
        return Extent(
            row["first_block"], row["last_block"], row["announced_to"], row["origin_block"]
        )

    def columns(self, version: UUID, names: Sequence[str] | None = None) -> list[Column]:
        """Those of the table, or the named ones in the order of their names here."""
        known: list[Column] = self._tables[version]["columns"]
        if names is None:
            return known
        by_name = {each["name"]: each for each in known}
        missing = [name for name in names if name not in by_name]
        if missing:
            raise InvalidConfig(f"hot table {table_name(version)} has no column {missing[0]!r}")
        return [by_name[name] for name in names]

    def key(self, version: UUID) -> list[str]:
        key: list[str] = self._tables[version]["key"]
        return key

    def batches(
        self, version: UUID, start: int, end: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of blocks `start` to `end`, in the order of the table's key; memory is what one
        batch takes. Rows below the table's first block are not here."""
        wanted, key = self.columns(version, columns), self.key(version)
        yield from read_range(self.database, self.id, version, wanted, key, start, end)


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A hot table as a transaction sees it. No first block: it has no rows."""

    columns: list[Column]
    first_block: int | None
    origin_block: int | None = None  # the lowest that it ever had


def tables_in(transaction: ArrowTransaction, versions: Sequence[UUID]) -> dict[UUID, ReadTable]:
    """Of these generations those that have a table."""
    if not versions:
        return {}
    wanted = ", ".join(f"uuid '{version.hex}'" for version in versions)
    query = (
        "SELECT dataset_version::text AS version, columns::text AS columns, first_block,"
        f" origin_block FROM hot_tables WHERE dataset_version IN ({wanted})"
    )
    return {
        UUID(row["version"]): ReadTable(
            json.loads(row["columns"]), row["first_block"], row["origin_block"]
        )
        for batch in transaction.batches(query)
        for row in batch.to_pylist()
    }


@contextmanager
def snapshot(database: DataDatabase, versions: Sequence[UUID]) -> Iterator[Snapshot]:
    """The tables of these generations; UnknownDataset when one of them has none."""
    with (
        DataConnection(database, "trace-snapshot", _OPTIONS) as connection,
        connection.transaction() as tx,
    ):
        found = {row["dataset_version"]: row for row in _sql.tables(tx, versions=list(versions))}
        for version in versions:
            if version not in found:
                raise UnknownDataset(f"no hot table for dataset version {version}")
        yield Snapshot(_sql.export(tx), database, found)


def read_range(
    database: DataDatabase,
    snapshot_id: str,
    version: UUID,
    columns: list[Column],
    key: Sequence[str],
    start: int,
    end: int,
) -> Iterator[pa.RecordBatch]:
    """From any process that reaches Postgres, for as long as the snapshot is open."""
    schema = schema_of(columns)
    order = ", ".join(f'"{name}"' for name in key)
    query = (
        f"SELECT {select_list(columns)} FROM {table_name(version)}"
        f" WHERE block_number BETWEEN {int(start)} AND {int(end)} ORDER BY {order}"
    )
    with arrow_transaction(database, snapshot_id) as transaction:
        for batch in transaction.batches(query):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def table_bytes(database: DataDatabase, version: UUID) -> int:
    """How large a table is, without its indexes; 0 when there is none."""
    with DataConnection(database, "trace-size") as connection, connection.transaction() as tx:
        size: int | None = _sql.table_bytes(tx, name=table_name(version))
    return size or 0
