"""Hot tables: chain data at the tip, in Postgres, rewritten by block range.

One writer holds a set of tables by its fence, (task, attempt), and rewrites all of them in one
transaction: rows, hashes, extents, and what is owed to the Dispatcher because of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from trace_platform.data import alerts, staging
from trace_platform.data.alerts import Alert
from trace_platform.data.columns import columns_of
from trace_platform.data.connection import DataConnection
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_rows import (
    BLOCK,
    HotTable,
    Rows,
    Staged,
    copy_rows,
    move_staged,
    read_hashes,
    table_name,
)
from trace_platform.data.owed import Extent, after_rewrite, owed_by_rewrite
from trace_platform.data.sync_queries import SyncTx, load_sync_queries
from trace_platform.domain.errors import (
    BadInput,
    CommitOvertaken,
    IncompatibleSchema,
    StaleFence,
    UnknownDataset,
)
from trace_platform.drivers.postgres.queries import Row

__all__ = ["Alert", "Announcement", "Extent", "HotTable", "HotWriter", "Staged", "trim"]

_sql = load_sync_queries(__file__)
Hashes = Sequence[tuple[int, bytes]]
# Blocks per transaction: of a busy chain that is some seconds.
_TRIMMED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Announcement:
    """Owed to the Dispatcher. `again`: as a row_range invalidation with this id as its request."""

    id: UUID
    dataset_version: UUID
    start: int
    end: int
    again: bool
    reason: str


class HotWriter:
    """The writer of some tables, for one thread. Every change is refused with StaleFence once
    another attempt took over. What fails as Unavailable may have happened: doing it again is
    safe, and owes nothing twice."""

    def __init__(
        self,
        database: DataDatabase,
        tables: Sequence[HotTable],
        task_id: UUID,
        attempt: int,
        keep_hashes: int,
    ) -> None:
        if not tables:
            raise BadInput("a hot writer needs a table")
        self.tables = {table.dataset_version: table for table in tables}
        self._versions = list(self.tables)
        self._task_id, self._attempt = task_id, attempt
        self._keep = keep_hashes
        self._connection = DataConnection(database, f"hot:{task_id}:{attempt}")
        self.database = database

    def take_over(self) -> Extent:
        """Make the tables that are missing, and own all of them. The extent that every table has
        at least; StaleFence when a newer attempt of the task has one. Another task gives way."""
        with self._connection.transaction() as tx:
            prefix = f"hot:{self._task_id}:"
            _sql.end_older_attempts(tx, task_prefix=prefix, attempt=self._attempt)
        with self._connection.transaction() as tx:
            for table in sorted(self.tables.values(), key=lambda each: each.dataset_version):
                _make(tx, table)
            found = _sql.lock_tables(tx, versions=self._versions)
            for row in found:
                self._refuse_if_newer(row)
            _sql.take_over(
                tx, versions=self._versions, task_id=self._task_id, attempt=self._attempt
            )
        return min(map(_extent, found), key=lambda e: -1 if e.last_block is None else e.last_block)

    def origin(self) -> int | None:
        """The lowest block that was ever written, also where it has left the tables since."""
        with self._connection.transaction() as tx:
            origin: int | None = _sql.origin(tx, versions=self._versions)
        return origin

    def hashes(self, start: int, end: int) -> list[tuple[int, bytes]]:
        """The known hashes of blocks `start` to `end`, newest first."""
        with self._connection.transaction() as tx:
            rows = _sql.hashes(tx, version=self._versions[0], start=start, end=end)
        return [(row[BLOCK], row["block_hash"]) for row in rows]

    def rewrite(
        self,
        start: int,
        end: int,
        rows: Mapping[UUID, Rows],
        hashes: Hashes | Staged,
        *,
        alert: Alert | None = None,
        reason: str = "",
    ) -> None:
        """In one transaction: every row of blocks from `start` on leaves every table, and these of
        blocks `start` to `end` stand in their place. `end` may be `start - 1`: the chain became
        shorter. `hashes` has every one of these blocks; or they are columns of staged rows.

        Owed for it, per table: blocks that were never announced as an event; those that were, from
        the first whose hash changed or that is gone, as one invalidation."""
        self._check_tables(rows)
        with self._connection.transaction() as tx:
            before = self._lock(tx)
            _refuse_gap(before, start, end)
            numbers, values = _checked_hashes(_given(tx, hashes), start, end)
            changed = _changed_from(tx, self._versions, start, numbers, values)
            for version, table in self.tables.items():
                self._replace(tx, table, rows[version], start, end)
            self._note(tx, before, changed, start, end, reason)
            self._keep_hashes(tx, start, numbers, values)
            if alert is not None:
                alerts.record_in(tx, alert, self.database)

    def sizes(self) -> dict[UUID, tuple[int | None, int]]:
        """By table: its first block, and about how many rows it has."""
        with self._connection.transaction() as tx:
            rows = _sql.sizes(tx, versions=self._versions)
        return {row["dataset_version"]: (row["first_block"], row["rows"]) for row in rows}

    def pending(self) -> list[Announcement]:
        """What is owed, oldest first."""
        with self._connection.transaction() as tx:
            rows = _sql.pending(tx, versions=self._versions)
        return [_announcement(row) for row in rows]

    def sent(self, ids: Sequence[UUID]) -> None:
        with self._connection.transaction() as tx:
            _sql.sent(tx, ids=list(ids))

    def stage(self, version: UUID) -> Staged:
        """An empty staging table; what dead attempts left of theirs goes."""
        with self._connection.transaction() as tx:
            name = _sql.make_staging_table(
                tx, version=version, task_id=self._task_id, attempt=self._attempt
            )
        if name is None:
            raise self._stale(version)
        return Staged(name)

    def discard(self, staged: Staged) -> None:
        with self._connection.transaction() as tx:
            staging.drop_in(tx, staged.name)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> HotWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _lock(self, tx: SyncTx) -> dict[UUID, Extent]:
        found = {row["dataset_version"]: row for row in _lock_all(tx, self._versions)}
        for version, row in found.items():
            if (row["writer_task"], row["writer_attempt"]) != (self._task_id, self._attempt):
                raise self._stale(version)
        return {version: _extent(row) for version, row in found.items()}

    def _refuse_if_newer(self, row: Row) -> None:
        if row["writer_task"] == self._task_id and row["writer_attempt"] > self._attempt:
            raise self._stale(row["dataset_version"])

    def _stale(self, version: UUID) -> StaleFence:
        return StaleFence(
            "another attempt writes the hot table now",
            dataset_version=str(version),
            attempt=self._attempt,
        )

    def _check_tables(self, rows: Mapping[UUID, Rows]) -> None:
        # One that was forgotten would lose its rows.
        if set(rows) != set(self.tables):
            raise BadInput("a rewrite needs the rows of every table that this writer holds")

    def _replace(self, tx: SyncTx, table: HotTable, rows: Rows, start: int, end: int) -> None:
        name = sql.Identifier(table.name)
        tx.execute(sql.SQL("DELETE FROM {} WHERE block_number >= %s").format(name), (start,))
        if isinstance(rows, Staged):
            move_staged(tx, table, rows, start, end)
        else:
            copy_rows(tx, table, rows, start, end)

    def _note(
        self,
        tx: SyncTx,
        before: Mapping[UUID, Extent],
        changed: Mapping[UUID, int],
        start: int,
        end: int,
        reason: str,
    ) -> None:
        owed = [
            (version, each)
            for version in self._versions
            for each in owed_by_rewrite(before[version], start, end, changed.get(version))
        ]
        if owed:
            _sql.owe(
                tx,
                versions=[version for version, _ in owed],
                again=[each.again for _, each in owed],
                first=[each.start for _, each in owed],
                last=[each.end for _, each in owed],
                reason=reason,
            )
        after = [after_rewrite(before[version], start, end) for version in self._versions]
        _sql.move_extents(
            tx,
            versions=self._versions,
            first=[extent.first_block for extent in after],
            last=[extent.last_block for extent in after],
            announced=[extent.announced_to for extent in after],
        )

    def _keep_hashes(
        self, tx: SyncTx, start: int, numbers: Sequence[int], values: Sequence[bytes]
    ) -> None:
        _sql.forget_hashes(tx, versions=self._versions, start=start)
        _sql.add_hashes(tx, versions=self._versions, numbers=numbers, hashes=values)
        _sql.forget_old_hashes(tx, versions=self._versions, keep=self._keep)


def trim(
    database: DataDatabase, versions: Sequence[UUID], up_to: int, expected_hashes: Hashes
) -> int:
    """Rows of blocks up to `up_to` go, and the tables answer from the next one on; some at a time,
    so that the writer never waits long. How many rows. CommitOvertaken when the hash of a block
    that would go is not the expected one, what the files hold: it stays, with all after it. Doing
    it again changes nothing."""
    wanted, expected, rows = list(versions), sorted(expected_hashes), 0
    with DataConnection(database, "trace-trim") as connection:
        while True:
            with connection.transaction() as tx:
                gone = _trim_some(tx, wanted, up_to, expected)
            if gone is None:
                return rows
            rows += gone


def _trim_some(tx: SyncTx, versions: list[UUID], up_to: int, expected: Hashes) -> int | None:
    """The lowest of the blocks. How many rows; None: no block is left."""
    extents = [(row["dataset_version"], row["first_block"]) for row in _lock_all(tx, versions)]
    start = min([first for _, first in extents if first is not None], default=up_to + 1)
    if start > up_to:
        return None
    end = min(up_to, start + _TRIMMED_AT_ONCE - 1)
    part = expected[bisect_left(expected, (start,)) : bisect_left(expected, (end + 1,))]
    differs = _sql.differing_hash(
        tx,
        versions=versions,
        up_to=end,
        numbers=[number for number, _ in part],
        hashes=[value for _, value in part],
    )
    if differs is not None:
        raise CommitOvertaken(
            f"block {differs} is not what the files hold: it was not trimmed", block=differs
        )
    gone = sum(_delete_up_to(tx, version, first, end) for version, first in extents)
    _sql.raise_first_block(tx, versions=versions, up_to=end)
    return gone


def _make(tx: SyncTx, table: HotTable) -> None:
    as_asked = _sql.make_hot_table(
        tx,
        version=table.dataset_version,
        dataset=table.dataset_uuid,
        columns=Jsonb(columns_of(table.schema)),
        key=list(table.key),
    )
    if not as_asked:
        raise IncompatibleSchema(
            f"hot table {table.name} exists with other columns, or another key",
            hint="columns that may be null can be added at the end;"
            " for anything else the dataset needs a new generation",
            dataset_version=str(table.dataset_version),
        )


def _lock_all(tx: SyncTx, versions: Sequence[UUID]) -> list[Row]:
    found: list[Row] = _sql.lock_tables(tx, versions=list(versions))
    missing = set(versions) - {row["dataset_version"] for row in found}
    if missing:
        raise UnknownDataset(f"no hot table for dataset version {min(missing)}")
    return found


def _extent(row: Row) -> Extent:
    return Extent(row["first_block"], row["last_block"], row["announced_to"])


def _announcement(row: Row) -> Announcement:
    again = row.pop("kind") == "invalidation"
    return Announcement(**row, again=again)


def _refuse_gap(before: Mapping[UUID, Extent], start: int, end: int) -> None:
    if start < 0 or end < start - 1:
        raise BadInput(f"blocks {start} to {end} are no range")
    for extent in before.values():
        if extent.last_block is not None and start > extent.last_block + 1:
            raise BadInput(
                f"a hot table has no gap: {extent.last_block + 1} to {start - 1} would be missing",
                hint="write them first, or together with these",
            )


def _given(tx: SyncTx, hashes: Hashes | Staged) -> Hashes:
    return read_hashes(tx, hashes) if isinstance(hashes, Staged) else hashes


def _checked_hashes(hashes: Hashes, start: int, end: int) -> tuple[list[int], list[bytes]]:
    ordered = sorted(hashes)
    numbers = [number for number, _ in ordered]
    if numbers != list(range(start, end + 1)):
        raise BadInput(f"the hashes are not those of blocks {start} to {end}, one of each")
    return numbers, [value for _, value in ordered]


def _changed_from(
    tx: SyncTx, versions: list[UUID], start: int, numbers: list[int], hashes: list[bytes]
) -> dict[UUID, int]:
    rows = _sql.changed_from(tx, versions=versions, start=start, numbers=numbers, hashes=hashes)
    return {row["dataset_version"]: row["changed_from"] for row in rows}


def _delete_up_to(tx: SyncTx, version: UUID, start: int | None, end: int) -> int:
    # From the first row on: before it lie those that were trimmed and not vacuumed yet.
    query = sql.SQL("DELETE FROM {} WHERE block_number BETWEEN %s AND %s")
    return tx.execute(query.format(sql.Identifier(table_name(version))), (start, end)).rowcount
