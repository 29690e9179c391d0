"""Staging tables, as those see them who fill them: Spark's tasks, in any process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import pyarrow as pa

from trace_platform.data.arrow_connection import arrow_transaction
from trace_platform.data.connection import DataConnection
from trace_platform.data.database import DataDatabase
from trace_platform.data.sync_queries import SyncTx, load_sync_queries

_sql = load_sync_queries(__file__)
_TASK = pa.field("spark_task", pa.int64(), nullable=False)


def stage_rows(
    database: DataDatabase, name: str, spark_task: int, rows: Iterable[pa.RecordBatch]
) -> int:
    """All of a Spark task's rows, or none: one transaction. How many."""
    batches = iter(rows)
    first = next(batches, None)
    if first is None:
        return 0
    staged = 0
    schema = first.schema.append(_TASK)

    def marked() -> Iterator[pa.RecordBatch]:
        nonlocal staged
        for batch in chain([first], batches):
            staged += batch.num_rows
            yield batch.append_column(_TASK, pa.repeat(pa.scalar(spark_task), batch.num_rows))

    with arrow_transaction(database) as transaction:
        transaction.append(name, pa.RecordBatchReader.from_batches(schema, marked()))
    return staged


def seal(database: DataDatabase, name: str, rows_by_task: Mapping[int, int]) -> None:
    """The rows of these tasks count; those of tasks that were tried again do not."""
    parts, rows = list(rows_by_task), sum(rows_by_task.values())
    with DataConnection(database, "trace-staging") as connection, connection.transaction() as tx:
        _sql.seal(tx, name=name, parts=parts, rows=rows)


def drop(database: DataDatabase, name: str) -> None:
    with DataConnection(database, "trace-staging") as connection, connection.transaction() as tx:
        drop_in(tx, name)


def drop_in(tx: SyncTx, name: str) -> None:
    _sql.drop_staging_table(tx, name=name)
