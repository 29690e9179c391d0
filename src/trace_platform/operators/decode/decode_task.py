"""One pass over a task's logs or calls: Spark reads and sorts them, or executors read what is
sorted already, and where they are they are decoded and written, all outputs at once. Only facts
about files and counts come back.

Through `frames.write` each output would read and decode everything once more.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, RangeNotReady
from trace_platform.domain.file_ranges import named_range
from trace_platform.domain.merge_ranges import gaps
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators import frames, scope
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.operators.decode import sorted_files
from trace_platform.operators.decode.config import AddressColumn, DecodeConfig
from trace_platform.operators.decode.decoded import BatchDecoder, Counts, Decoded
from trace_platform.operators.decode.sorted_files import RowGroup, SortedFiles, Unsorted, Wanted
from trace_platform.operators.io import parquet_output
from trace_platform.operators.io.file_failures import named_files
from trace_platform.operators.io.parquet_file import ParquetFile, WrittenFile
from trace_platform.operators.staging import seal_output
from trace_platform.wire.task import OutputCommit, TaskInput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A partition of what is read, as long as there are cores without one. Sorting and writing more at
# once takes memory, and files of fewer rows take their readers time.
_PART_BYTES = 32 * 2**20
_MOST_BATCH_ROWS = 65_536
_ADDRESS_BYTES = 20
# Added to a file's number: a retried Spark task never writes over the file of a first try that may
# still be running.
_RETRY = 1_000_000
# Values that hardly repeat: a dictionary of them is lost work.
_PLAIN = frozenset({"transaction_hash", "data", "input"})
_PLAIN_ENDS = ("_binary", "_string", "_f64")

# Rows of input 0 that are looked at, with the columns that the decoder wants.
Narrow = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True, slots=True)
class _Target:
    prefix: str
    stem: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class _Told:
    """By one Spark task: files as (output, part, file), and counts."""

    files: list[tuple[int, int, WrittenFile]]
    counts: Counts


def run(
    task: TaskContext,
    decoder: BatchDecoder,
    outputs: Sequence[str],
    narrow: Narrow,
    wanted: Wanted | None = None,
) -> Result:
    """The decoded outputs of the task's range. Ranges with a gap between them become a task each:
    no partition stands for blocks that nobody asked for. `wanted` is what `narrow` chooses, where
    files that are sorted can be read without Spark's rows."""
    _check_outputs(task, outputs)
    ranges = scope.merged_ranges(task)
    if len(ranges) > 1:
        return Result(split=ranges)
    _refuse_absent(scope.inputs(task, 0))
    work = _Work(decoder, _targets(task, decoder, ranges[0]), task.store)
    told = _of_sorted_files(task, work, wanted, ranges[0]) if wanted is not None else None
    if told is None:
        with frames.opened(task) as data:
            rows = _at_addresses(task, data, narrow(data.read(0)), ranges[0].end)
            task.check()
            told = _of_frame(task, data, work, rows, ranges[0])
    task.check()
    _log(task, told)
    return Result(outputs=_sealed(task, decoder.schemas, told, ranges[0]))


def _check_outputs(task: TaskContext, outputs: Sequence[str]) -> None:
    if len(task.outputs) != len(outputs):
        raise InvalidConfig(
            f"the job has {len(task.outputs)} outputs, and its config makes {len(outputs)}",
            hint=f"declare them in this order: {', '.join(outputs)}",
        )
    if any(output.append is not None for output in task.outputs):
        raise InvalidConfig(
            "decoded rows replace those of their range: they cannot be appended",
            hint="write update_strategy: replace, or leave it out",
        )


def _at_addresses(task: TaskContext, data: frames.Frames, rows: DataFrame, last: int) -> DataFrame:
    """Those of the config's contracts; `last` is the task's last block."""
    from pyspark.sql import functions as f

    config: DecodeConfig = task.config
    if config.addresses is None:
        return rows
    if isinstance(config.addresses, AddressColumn):
        chosen = _listed(task, data, config.addresses, last)
        return rows.join(f.broadcast(chosen), rows[_called(rows)] == chosen["listed"], "left_semi")
    wanted = [bytes.fromhex(each[2:]) for each in config.addresses]
    return rows.filter(rows[_called(rows)].isin(wanted))


def _called(rows: DataFrame) -> str:
    """The contract: that of a log, or that which is called."""
    return "address" if "address" in rows.columns else "to_address"


def _listed(task: TaskContext, data: frames.Frames, at: AddressColumn, last: int) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.types import BinaryType, StringType

    assert at.input is not None, "the DAG file's reader has put it in place of `from`"
    _refuse_partial(at.input, scope.inputs(task, at.input), last)
    listed = data.read(at.input)
    if at.column not in listed.columns:
        raise InvalidConfig(
            f"input {at.input} has no column {at.column!r}",
            hint=f"it has {', '.join(listed.columns)}",
        )
    kind, column = listed.schema[at.column].dataType, listed[at.column]
    if isinstance(kind, StringType):
        column = f.to_binary(f.regexp_replace(column, "^0[xX]", ""), f.lit("hex"))
    elif not isinstance(kind, BinaryType):
        raise InvalidConfig(
            f"column {at.column!r} of input {at.input} is {kind.simpleString()}",
            hint="addresses are binary of 20 bytes, or text that begins with 0x",
        )
    chosen = listed.select(column.alias("listed")).distinct()
    _refuse_no_address(chosen, at)
    return chosen


def _refuse_no_address(chosen: DataFrame, at: AddressColumn) -> None:
    """No log is of a contract whose address has another length, such as a topic of 32 bytes: all
    of them would be left out, and nobody would know."""
    from pyspark.sql import functions as f

    length = f.octet_length(chosen["listed"])
    wrong = chosen.filter(~length.isin(0, _ADDRESS_BYTES)).limit(1).collect()
    if wrong:
        found = bytes(wrong[0]["listed"])
        raise InvalidConfig(
            f"column {at.column!r} of input {at.input} has a value of {len(found)} bytes:"
            f" 0x{found[:40].hex()}",
            hint="an address has 20: of a word of 32 it is the last 20, substr(word, 13)",
        )


def _refuse_absent(given: Sequence[TaskInput]) -> None:
    """Raise where a list of addresses woke the task, and there is nothing to decode yet."""
    if not any(each.trigger or each.table or each.files for each in given):
        raise RangeNotReady(
            "input 0 has nothing of these blocks yet",
            hint="the task is done when it has: what is there wakes it",
        )


def _refuse_partial(index: int, given: Sequence[TaskInput], last: int) -> None:
    """Raise for a list in which contracts may be missing."""
    files = [uri for each in given for uri in each.files]
    ranges = [span for uri in files if (span := named_range(uri)) is not None]
    by_blocks = any(each.whole for each in given)
    if given[0].table or ((ranges or given[0].trigger) and not by_blocks):
        raise InvalidConfig(
            f"input {index} has the addresses block by block, and does not wake the job: contracts"
            " of other blocks would be missing",
            hint="leave out its `trigger: false`, and have it among the job's inputs; or let the"
            " job behind it write one partition for all, as query_export does that a schedule"
            " wakes",
        )
    if not files:
        raise RangeNotReady(
            f"input {index}, the list of addresses, has not been written yet",
            hint="another attempt reads it when it is there",
        )
    if by_blocks and ranges:
        first = min(span.start for span in ranges)
        missing = next(gaps(BlockRange(min(first, last), last), ranges), None)
        if missing is not None:
            raise RangeNotReady(
                f"input {index}, the list of addresses, has not got to block {missing.start:,}",
                hint="the task is done when it has: what is there wakes it",
            )


def _targets(task: TaskContext, decoder: BatchDecoder, blocks: BlockRange) -> list[_Target]:
    outputs = sorted(task.outputs, key=lambda each: each.output_index)
    return [
        _Target(output.prefix, _stem(output.name, blocks), schema)
        for output, schema in zip(outputs, decoder.schemas, strict=True)
    ]


def _of_sorted_files(
    task: TaskContext, work: _Work, wanted: Wanted, blocks: BlockRange
) -> _Told | None:
    """None: Spark has to read and sort."""
    groups = sorted_files.row_groups(scope.inputs(task, 0), task.store, wanted, blocks)
    if groups is None:
        return None
    context = task.spark().sparkContext
    about = sum(group.bytes for group in groups)
    parts = sorted_files.in_parts(groups, _part_count(about, int(context.defaultParallelism)))
    reads = _ReadsAndWorks(SortedFiles(task.store, wanted, blocks), work)
    with named_files(task, list(dict.fromkeys(group.uri for group in groups))):
        rows = context.parallelize(parts, max(1, len(parts)))
        told = rows.map(reads).collect() if parts else []
    return None if None in told else _joined([_read(text) for text in told])


def _of_frame(
    task: TaskContext, data: frames.Frames, work: _Work, rows: DataFrame, blocks: BlockRange
) -> _Told:
    with data.actions():
        order = [name for name in sorted_files.ORDER if name in rows.columns]
        arranged = parquet_output.arranged(rows, blocks, order, _parts(task, rows, data.read_bytes))
        told = arranged.mapInArrow(work, "told string").collect()
    return _joined([_read(row["told"]) for row in told])


def _parts(task: TaskContext, rows: DataFrame, read_bytes: int) -> int | None:
    """None: nobody knows how much it is, so as many as there are."""
    about = parquet_output.about_bytes(rows, read_bytes)
    if about is None:
        return None
    return _part_count(about, int(task.spark().sparkContext.defaultParallelism))


def _part_count(about: int, cores: int) -> int:
    by_size = parquet_output.files_for(about, parquet_output.FILE_MB)
    return max(by_size, min(cores, math.ceil(about / _PART_BYTES)), 1)


class _ReadsAndWorks:
    """On an executor: neighbouring row groups to files, as a line of facts; None where their rows
    are not sorted."""

    def __init__(self, files: SortedFiles, work: _Work) -> None:
        self._files, self._work = files, work

    def __call__(self, groups: Sequence[RowGroup]) -> str | None:
        try:
            return self._work.told(self._files.batches(groups))
        except Unsorted:
            return None


class _Work:
    """On an executor: a partition's batches to files. It yields one line of facts."""

    def __init__(
        self, decoder: BatchDecoder, targets: Sequence[_Target], store: ObjectStore
    ) -> None:
        self._decoder, self._targets, self._store = decoder, targets, store

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"told": [self.told(batches)]})

    def told(self, batches: Iterator[pa.RecordBatch]) -> str:
        from pyspark import TaskContext as SparkTask

        spark_task = SparkTask.get()
        part = 0 if spark_task is None else spark_task.partitionId()
        retry = 0 if spark_task is None else spark_task.attemptNumber()
        return _said(self.decode(batches, part, retry))

    def decode(self, batches: Iterator[pa.RecordBatch], part: int, retry: int) -> _Told:
        counts: Counts = Counter()
        files: dict[int, ParquetFile] = {}
        with ExitStack() as stack:
            for batch in _larger(batches):
                decoded = self._decoder.decode(batch)
                counts += decoded.counts
                self._write(decoded, files, stack, part + _RETRY * retry)
            written = [(output, part, file.close()) for output, file in files.items()]
        return _Told(written, counts)

    def _write(
        self, decoded: Decoded, files: dict[int, ParquetFile], stack: ExitStack, number: int
    ) -> None:
        for output, batch in decoded.batches:
            if batch.num_rows == 0:
                continue
            if output not in files:
                files[output] = stack.enter_context(
                    _file(self._targets[output], self._store, number)
                )
            files[output].write(batch)


def _file(target: _Target, store: ObjectStore, number: int) -> ParquetFile:
    plain = frozenset(
        name for name in target.schema.names if name in _PLAIN or name.endswith(_PLAIN_ENDS)
    )
    name = f"{target.stem}-{number:03}.parquet"
    return ParquetFile(store, target.prefix, name, target.schema, plain)


def _larger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What is done once per batch is worth more of Spark's small ones."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _MOST_BATCH_ROWS or size >= _PART_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _said(told: _Told) -> str:
    files = [[output, part, asdict(file)] for output, part, file in told.files]
    return json.dumps([files, [[*key, count] for key, count in told.counts.items()]])


def _read(text: str) -> _Told:
    files, counts = json.loads(text)
    written = [(output, part, WrittenFile(**file)) for output, part, file in files]
    return _Told(written, Counter({(output, reason): n for output, reason, n in counts}))


def _joined(told: Sequence[_Told]) -> _Told:
    counts: Counts = Counter()
    for each in told:
        counts += each.counts
    return _Told([file for each in told for file in each.files], counts)


def _sealed(
    task: TaskContext, schemas: Sequence[pa.Schema], told: _Told, blocks: BlockRange
) -> list[OutputCommit]:
    commits = []
    for index, schema in enumerate(schemas):
        output = scope.output(task, index)
        files = [f for i, _, f in sorted(told.files, key=lambda t: t[:2]) if i == index]
        if not files:
            files = [_empty(_Target(output.prefix, _stem(output.name, blocks), schema), task.store)]
        commits.append(seal_output(task.store, output, blocks, files, schema))
    return commits


def _stem(name: str, blocks: BlockRange) -> str:
    return f"{name}_{blocks.start}_{blocks.end}"


def _empty(target: _Target, store: ObjectStore) -> WrittenFile:
    """No rows are an output too, with its columns."""
    with _file(target, store, 0) as file:
        return file.close()


def _log(task: TaskContext, told: _Told) -> None:
    """How many rows became what, and how many were not decoded and why."""
    decoded = {output: n for (output, reason), n in told.counts.items() if not reason and n}
    undecoded: dict[str, Any] = {}
    for (output, reason), n in told.counts.items():
        if reason:
            undecoded.setdefault(output, {})[reason] = n
    task.log.info("decoded", rows=decoded, undecoded=undecoded)


def with_nulls(rows: DataFrame, may_lack: Sequence[str], kinds: dict[str, str]) -> list[Column]:
    """The columns of `kinds` in order. Those that rows may lack are null then; raise InvalidConfig
    where others are not there."""
    from pyspark.sql import functions as f

    missing = [name for name in kinds if name not in rows.columns and name not in may_lack]
    if missing:
        raise InvalidConfig(
            f"input 0 has no column {', '.join(missing)}",
            hint=f"it has {', '.join(rows.columns)}: read what cryo_ingest or block_follower wrote",
        )
    return [
        f.col(name) if name in rows.columns else f.lit(None).cast(kind).alias(name)
        for name, kind in kinds.items()
    ]
