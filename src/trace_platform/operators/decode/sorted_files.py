"""Logs in files that are sorted already, read where they are decoded.

Through Spark each value becomes a row's and Arrow's again, and what is sorted is sorted: that takes
several times as long as decoding. Where footers say that files hold the very columns, and blocks
that follow each other, executors read them by themselves. What turns out not to be sorted all the
same is left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.file_ranges import touches
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.io.parquet_input import BLOCK, named_failures
from trace_platform.wire.task import TaskInput

ORDER = (BLOCK, "transaction_index", "log_index")
_ORIGIN = "input 0"
_BATCH_ROWS = 65_536
# Of footers at once: a distant store answers each in tens of milliseconds.
_THREADS = 16


class Unsorted(Exception):
    """A file's rows are in another order than that of the chain."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    uri: str
    number: int
    blocks: BlockRange
    bytes: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Columns in their order, of which files may lack some, and which rows: of these contracts, and
    with these first topics. None: of all."""

    columns: pa.Schema
    may_lack: Sequence[str]
    addresses: Sequence[bytes] | None
    topics: Sequence[bytes] | None


def row_groups(
    given: Sequence[TaskInput], store: ObjectStore, wanted: Wanted, blocks: BlockRange
) -> list[RowGroup] | None:
    """Those that hold some of these blocks, in order. None: Spark has to read what is given."""
    uris = list(dict.fromkeys(uri for each in given for uri in each.files))
    if not uris or any(each.table or each.where for each in given):
        return None
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            found = list(pool.map(lambda uri: _of_file(uri, store, wanted), uris))
    except (pa.ArrowException, OSError):
        # Who reads it through Spark says what is wrong with which file.
        return None
    groups = [group for each in found if each is not None for group in each]
    groups.sort(key=lambda group: (group.blocks.start, group.uri, group.number))
    if any(each is None for each in found) or not all(map(_follow, pairwise(groups))):
        return None
    return [group for group in groups if touches(group.blocks, [blocks])]


def in_parts(groups: Sequence[RowGroup], parts: int) -> list[list[RowGroup]]:
    """Neighbours, of about as many bytes each; a block lies in one part."""
    share = sum(group.bytes for group in groups) / parts
    found: list[list[RowGroup]] = []
    size = 0.0
    for group in groups:
        may_cut = bool(found) and group.blocks.start > found[-1][-1].blocks.end
        if not found or (may_cut and size >= share * len(found)):
            found.append([])
        found[-1].append(group)
        size += group.bytes
    return found


@dataclass(frozen=True, slots=True)
class SortedFiles:
    """On an executor: the rows of some row groups, of these blocks."""

    store: ObjectStore
    wanted: Wanted
    blocks: BlockRange

    def batches(self, groups: Sequence[RowGroup]) -> Iterator[pa.RecordBatch]:
        """Raise Unsorted, MissingFile, CorruptFile."""
        last: pa.RecordBatch | None = None
        for uri, of_file in groupby(groups, lambda group: group.uri):
            with named_failures(uri, _ORIGIN):
                for batch in self._read(uri, [group.number for group in of_file]):
                    _check_sorted(last, batch)
                    last = batch.slice(batch.num_rows - 1)
                    yield self._narrowed(batch)

    def _read(self, uri: str, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        filesystem, path = self.store.filesystem(uri)
        with pq.ParquetFile(path, filesystem=filesystem) as file:
            there = [name for name in self.wanted.columns.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(_BATCH_ROWS, numbers, there, use_threads=False):
                if batch.num_rows:
                    yield self._shaped(batch)

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """All columns, those that the file lacks with nulls."""
        columns = [
            batch[field.name]
            if field.name in batch.schema.names
            else pa.nulls(batch.num_rows, field.type)
            for field in self.wanted.columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.wanted.columns)

    def _narrowed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        block = batch[BLOCK].to_numpy()
        kept = (block >= self.blocks.start) & (block <= self.blocks.end)
        for name, chosen in (("topic0", self.wanted.topics), ("address", self.wanted.addresses)):
            if chosen is not None:
                known = pc.is_in(batch[name], pa.array(chosen, pa.binary()))
                kept &= known.to_numpy(zero_copy_only=False)
        return batch if kept.all() else batch.filter(pa.array(kept))


def _of_file(uri: str, store: ObjectStore, wanted: Wanted) -> list[RowGroup] | None:
    filesystem, path = store.filesystem(uri)
    with pq.ParquetFile(path, filesystem=filesystem) as file:
        if not _fits(file.schema_arrow, wanted):
            return None
        place = [file.schema.column(n).path for n in range(len(file.schema))].index(BLOCK)
        groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
    found = []
    for number, group in enumerate(groups):
        if group.num_rows == 0:
            continue
        said = group.column(place).statistics
        if said is None or not said.has_min_max or said.null_count or said.min < 0:
            return None
        found.append(RowGroup(uri, number, BlockRange(said.min, said.max), group.total_byte_size))
    return found


def _fits(schema: pa.Schema, wanted: Wanted) -> bool:
    """No column is of another type, or called by the same name in other letters."""
    kinds: dict[str, tuple[str, pa.DataType]] = {
        field.name.lower(): (field.name, field.type) for field in schema
    }
    for field in wanted.columns:
        there = kinds.get(field.name)
        if there is None and field.name in wanted.may_lack:
            continue
        if there != (field.name, field.type):
            return False
    return len(kinds) == len(schema)


def _follow(pair: tuple[RowGroup, RowGroup]) -> bool:
    """A block may go on in the next group of its file, and nowhere else."""
    one, other = pair
    if one.uri == other.uri and one.number + 1 == other.number:
        return one.blocks.end <= other.blocks.start
    return one.blocks.end < other.blocks.start


def _check_sorted(last: pa.RecordBatch | None, batch: pa.RecordBatch) -> None:
    if any(batch[name].null_count for name in ORDER):
        raise Unsorted
    keys = [_with_last(name, last, batch) for name in ORDER]
    # From the last key to the first: where the first ones are the same, the others decide.
    right = np.ones(len(keys[0]) - 1, np.bool_)
    for key in reversed(keys):
        right = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & right)
    if not right.all():
        raise Unsorted


def _with_last(
    name: str, last: pa.RecordBatch | None, batch: pa.RecordBatch
) -> npt.NDArray[np.int64]:
    own: npt.NDArray[np.int64] = batch[name].to_numpy()
    return own if last is None else np.concatenate([last[name].to_numpy(), own])
