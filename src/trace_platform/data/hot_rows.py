"""Rows on their way into a hot table: Arrow batches, or what Spark has staged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from trace_platform.data import staging
from trace_platform.data.columns import copy_types
from trace_platform.data.sync_queries import SyncTx, load_sync_queries
from trace_platform.domain.errors import BadInput, IncompatibleSchema, Unavailable

_sql = load_sync_queries(__file__)
BLOCK = "block_number"


@dataclass(frozen=True, slots=True)
class HotTable:
    """`key` is unique, and begins with block_number."""

    dataset_uuid: UUID
    dataset_version: UUID
    schema: pa.Schema
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        return table_name(self.dataset_version)


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that Spark wrote into a staging table, whole once its parts are sealed."""

    name: str


Rows = Iterable[pa.RecordBatch] | Staged


def table_name(version: UUID) -> str:
    return f"dataset_{version.hex}"


def copy_rows(
    tx: SyncTx, table: HotTable, rows: Iterable[pa.RecordBatch], start: int, end: int
) -> None:
    """A batch at a time: memory is what one of them takes."""
    query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
        sql.Identifier(table.name), _names(table)
    )
    with tx.cursor() as cursor, cursor.copy(query) as copy:
        copy.set_types(copy_types(table.schema))
        for batch in rows:
            _check_batch(table, batch, start, end)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                copy.write_row(row)


def _check_batch(table: HotTable, batch: pa.RecordBatch, start: int, end: int) -> None:
    if not batch.schema.equals(table.schema):
        raise IncompatibleSchema(
            f"rows for {table.name} have other columns than the table: {_difference(table, batch)}"
        )
    _check_range(table, *_min_max(batch[BLOCK]), start, end)


def _difference(table: HotTable, batch: pa.RecordBatch) -> str:
    wanted = {field.name: field for field in table.schema}
    given = {field.name: field for field in batch.schema}
    missing = [f"{name} is missing" for name in wanted if name not in given]
    surplus = [f"{name} is not one of them" for name in given if name not in wanted]
    other = [
        f"{name} is {given[name].type}, not {field.type}"
        for name, field in wanted.items()
        if name in given and not given[name].equals(field)
    ]
    return "; ".join([*missing, *surplus, *other][:5]) or "they are in another order"


def _min_max(blocks: pa.Array) -> tuple[int | None, int | None]:
    found = pc.min_max(blocks)
    return found["min"].as_py(), found["max"].as_py()


def _check_range(
    table: HotTable, lowest: int | None, highest: int | None, start: int, end: int
) -> None:
    if lowest is not None and highest is not None and (lowest < start or highest > end):
        raise BadInput(
            f"rows for {table.name} reach from block {lowest} to {highest}, beyond {start}-{end}"
        )


def parts_of(tx: SyncTx, staged: Staged) -> tuple[list[int], int]:
    """The Spark tasks whose rows count, and how many these are: a task that was tried twice may
    have written twice."""
    found = _sql.staged(tx, name=staged.name)
    if found is None or found["parts"] is None:
        raise BadInput(f"{staged.name} was not written to its end")
    return found["parts"], found["rows"]


def move_staged(tx: SyncTx, table: HotTable, staged: Staged, start: int, end: int) -> None:
    """From the parts that count; the staging table goes with the same transaction."""
    facts = {
        "name": sql.Identifier(table.name),
        "staging": sql.Identifier(staged.name),
        "columns": _names(table),
    }
    parts, rows = parts_of(tx, staged)
    reach = "SELECT min(block_number), max(block_number) FROM {staging} WHERE spark_task = ANY(%s)"
    found = tx.execute(sql.SQL(reach).format(**facts), (parts,)).fetchone() or {}
    _check_range(table, found["min"], found["max"], start, end)
    move = (
        "INSERT INTO {name} ({columns}) SELECT {columns} FROM {staging} WHERE spark_task = ANY(%s)"
    )
    if tx.execute(sql.SQL(move).format(**facts), (parts,)).rowcount != rows:
        raise Unavailable("Postgres data crashed and lost rows that were staged")
    staging.drop_in(tx, staged.name)


def read_hashes(tx: SyncTx, hashes: Staged) -> list[tuple[int, bytes]]:
    """Of the blocks that were staged."""
    query = sql.SQL(
        "SELECT DISTINCT block_number, block_hash FROM {} WHERE spark_task = ANY(%s)"
    ).format(sql.Identifier(hashes.name))
    rows = tx.execute(query, (parts_of(tx, hashes)[0],)).fetchall()
    return [(row[BLOCK], row["block_hash"]) for row in rows]


def _names(table: HotTable) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, table.schema.names))
