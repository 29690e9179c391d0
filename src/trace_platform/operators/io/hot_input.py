"""Tables of Postgres data as inputs, all of a task's in one snapshot, and where each begins.

A table is right from its `first_block` on; the rows below lie in its cold files. The snapshot that
the rows are read in tells the seam too, so a writer that moves it meanwhile changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from trace_platform.data.hot_reader import Snapshot, snapshot, table_bytes
from trace_platform.data.owed import Extent
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import RangeNotReady, UnknownDataset
from trace_platform.domain.file_ranges import held_by, named_range, seam, touches, uncovered
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.io.parquet_input import within
from trace_platform.wire.task import TaskInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Of a table's bytes, as Parquet.
_AS_PARQUET = 0.4
# Up to here a second connection costs more than it brings.
_SMALL_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Parts:
    """One input: rows of the table, and which files hold the rest."""

    hot: DataFrame
    hot_bytes: int
    cold_files: list[str]
    cold_ranges: list[BlockRange]


class HotInputs:
    """`stack` keeps the snapshot until the task is done."""

    def __init__(self, task: TaskContext, stack: ExitStack) -> None:
        self._task = task
        self._stack = stack

    def extent(self, version: UUID) -> Extent:
        return self._snapshot.extent(version)

    def parts(
        self,
        given: TaskInput,
        ranges: Sequence[BlockRange],
        *,
        needs_files: bool = True,
        may_begin_within: bool = False,
    ) -> Parts:
        """Raise RangeNotReady when files that are needed do not reach up to where the table
        begins; where the dataset `may_begin_within` the ranges, down to its first block."""
        extent = self.extent(given.dataset_version)
        first = extent.first_block
        below, above = seam(ranges, first)
        files = [uri for uri in given.files if _may_hold(uri, below)]
        needed = _since_begin(below, above, extent, files) if may_begin_within else below
        if needs_files and (gap := uncovered(needed, files)):
            raise RangeNotReady(
                f"blocks {gap.key} of input {given.input_index} are neither in the table, which"
                f" begins at {first}, nor in committed files",
                hint="another attempt reads what has been committed by then",
            )
        hot = self._rows(given.dataset_version, above)
        return Parts(hot, self._bytes(given.dataset_version, above), files, below)

    @cached_property
    def _snapshot(self) -> Snapshot:
        versions = {given.dataset_version for given in self._task.inputs if given.table}
        return self._stack.enter_context(open_snapshot(self._task, sorted(versions)))

    def _rows(self, version: UUID, ranges: Sequence[BlockRange]) -> DataFrame:
        from trace_platform.operators.io.postgres.hot_frames import read_hot

        spark, seen = self._task.spark(), self._snapshot
        if not ranges:
            return read_hot(spark, seen, version, 1, 0)
        is_small = self._bytes(version, ranges) < _SMALL_BYTES
        rows = read_hot(
            *(spark, seen, version, ranges[0].start, ranges[-1].end),
            partitions=1 if is_small else None,
        )
        return rows if len(ranges) == 1 else rows.filter(within(ranges))

    def _bytes(self, version: UUID, ranges: Sequence[BlockRange]) -> int:
        """About what the rows would be as files."""
        extent = self.extent(version)
        if extent.first_block is None or extent.last_block is None or not ranges:
            return 0
        held = max(1, extent.last_block - extent.first_block + 1)
        share = min(1.0, sum(map(len, ranges)) / held)
        return int(table_bytes(self._task.data(), version) * share * _AS_PARQUET)


@contextmanager
def open_snapshot(task: TaskContext, versions: Sequence[UUID]) -> Iterator[Snapshot]:
    """Raise RangeNotReady when one of them has no table yet: its writer has not begun."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(snapshot(task.data(), versions))
        except UnknownDataset as error:
            raise RangeNotReady(error.message, hint="the job that writes it makes it") from None
        yield found


def _since_begin(
    below: Sequence[BlockRange], above: Sequence[BlockRange], extent: Extent, files: Sequence[str]
) -> Sequence[BlockRange]:
    """Of what lies below the table that from the dataset's first block on; all of it where none
    of the ranges reaches up to that block."""
    if extent.origin_block is None:
        return below
    begin = min([extent.origin_block, *(held.start for held in held_by(files))])
    since = seam(below, begin)[1]
    return since if since or above else below


def _may_hold(uri: str, ranges: Sequence[BlockRange]) -> bool:
    held = named_range(uri)
    return held is None or touches(held, ranges)
