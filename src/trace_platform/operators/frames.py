"""How an operator reads its inputs and writes its outputs: as DataFrames.

    with frames.opened(task) as data:
        logs = data.read(0)
        return Result(outputs=[data.write(0, logs.filter("topic0 is not null"))])

An input's rows are those of its scope: of its blocks, that its edge's `where` lets through, from
its files and, for a dataset that is a table, from Postgres. All tables of a task are read in one
snapshot. An output's files are written by executors; the driver sees facts about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from trace_platform.data.owed import Extent
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators import scope
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.io import parquet_input, parquet_output
from trace_platform.operators.io.edge_filter import matches
from trace_platform.operators.io.file_failures import named_files
from trace_platform.operators.io.hot_input import HotInputs, Parts
from trace_platform.operators.io.parquet_columns import merge_of
from trace_platform.operators.io.parquet_input import Footer
from trace_platform.operators.staging import seal_output
from trace_platform.wire.manifest import MANIFEST_NAME, Manifest
from trace_platform.wire.task import OutputCommit, TaskInput, TaskOutput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The rows of a table with these columns from where they came from; None where nobody knows that.
Again = Callable[[Sequence[str], BlockRange], "DataFrame | None"]
# Among what was read: rows of the output itself.
_OWN = -1
# By which rows are sorted unless the operator says otherwise: those of them that there are.
_CHAIN_ORDER = ("block_number", "transaction_index", "log_index")


@contextmanager
def opened(task: TaskContext) -> Iterator[Frames]:
    """Frames are read when an action asks for them: run actions inside."""
    with ExitStack() as stack:
        yield Frames(task, HotInputs(task, stack))


class Frames:
    """Reads and writes of one attempt."""

    def __init__(self, task: TaskContext, hot: HotInputs) -> None:
        self._task = task
        self._hot = hot
        # By input, what was read so far: for a guess at what will be written.
        self._read_bytes: Counter[int] = Counter()
        self._files: list[str] = []
        self._plain: set[str] = set()

    @contextmanager
    def actions(self) -> Iterator[None]:
        """Around a Spark action of the operator's own: what goes wrong is said in one line, and a
        file that cannot be read is named."""
        with named_files(self._task, self._files):
            yield

    def read(
        self,
        index: int,
        *,
        again: Again | None = None,
        blocks: BlockRange | None = None,
        may_begin_within: bool = False,
    ) -> DataFrame:
        """The rows of input `index`, whatever it is made of; those of a table by `again` when that
        is given and knows them, and never from its files then; of a table whose task has no range
        those of `blocks`; of one that `may_begin_within` the range those from its first block on.
        Raise InvalidConfig when there is nothing to read, or the edge's filter does not fit the
        columns; CorruptFile or MissingFile; IncompatibleSchema when files, or files and table, do
        not fit each other; RangeNotReady when a table's part of the range is not there."""
        given = scope.inputs(self._task, index)
        with self.actions():
            ranges = [blocks] if blocks else scope.ranges(given)
            hot = given[0].table
            frame = (
                self._hot_and_cold(given, again, ranges, may_begin_within)
                if hot
                else self._parquet(given)
            )
            where = given[0].where
            return frame.filter(matches(where, frame.schema)) if where else frame

    def staged(self, commit: OutputCommit) -> DataFrame:
        """What `write` has written, as it is in its files."""
        origin, store = f"output {commit.output_index}", self._task.store
        manifest = Manifest.model_validate_json(store.get(commit.location + MANIFEST_NAME))
        files = [commit.location + file.name for file in manifest.files]
        found = parquet_input.footers(files, store, origin)
        return parquet_input.rows(found, (), self._task.spark(), store, origin)

    def merged(self, output: TaskOutput) -> DataFrame:
        """Of a fold: what the output holds in the task's range, as partial results of one part."""
        origin = f"output {output.name}"
        found = self._footers(output.files, origin, _OWN)
        return parquet_input.merged(found, self._task.spark(), self._task.store, origin)

    def extent(self, index: int) -> Extent:
        """Which blocks the table that input `index` is holds, in the task's snapshot."""
        return self._hot.extent(scope.inputs(self._task, index)[0].dataset_version)

    @property
    def read_bytes(self) -> int:
        """What was read so far would be about so much as files."""
        return self._read_bytes.total()

    def write(
        self,
        output: int | str,
        frame: DataFrame,
        blocks: BlockRange | str | None = None,
        *,
        sort_by: Sequence[str] | None = None,
        file_mb: int = parquet_output.FILE_MB,
        made_of: Sequence[int] | None = None,
    ) -> OutputCommit:
        """Stage the frame's rows as this output's partition `blocks`, by default the task's range;
        one that is no range by its key.

        Sorted by `sort_by`, by default by block, transaction and log; with `()` rows stay as they
        come, which is right for a frame that maps or filters one sorted input. An `append` output
        gets the rows that its range holds already and, of the others, one per unique key. Files are
        of about `file_mb`, as far as the inputs that it is `made_of`, by default all, tell.
        """
        blocks = blocks or scope.block_range(self._task)
        target = scope.output(self._task, output)
        self._task.check()
        with self.actions():
            if target.append is not None:
                frame = self._appended(target, target.append, frame)
            order = _CHAIN_ORDER if sort_by is None else sort_by
            columns = [name for name in order if sort_by is not None or name in frame.columns]
            files = self._file_count(frame, file_mb, made_of)
            arranged = parquet_output.arranged(frame, blocks, columns, files)
            span = "" if isinstance(blocks, str) else f"_{blocks.start}_{blocks.end}"
            written = parquet_output.write_files(
                arranged,
                self._task.spark(),
                self._task.store,
                target.prefix,
                f"{target.name}{span}",
                self._plain.intersection(frame.columns),
            )
        self._task.check()
        return seal_output(self._task.store, target, blocks, written.files, written.schema)

    def _parquet(self, given: Sequence[TaskInput]) -> DataFrame:
        origin = _origin(given[0])
        files = [uri for each in given for uri in each.files]
        found = self._footers(files, origin, given[0].input_index)
        if not found:
            raise InvalidConfig(
                f"input {given[0].input_index} has no files to read",
                hint="its events announce ranges, not rows: read a job that writes data",
            )
        spark, store = self._task.spark(), self._task.store
        if scope.ranges(given) and any(map(merge_of, found[0].schema)):
            raise InvalidConfig(
                f"{origin} has results that add up over all blocks, and the task reads a range",
                hint="read it with a sql_transform of mode: full",
            )
        return parquet_input.rows(found, scope.ranges(given), spark, store, origin)

    def _hot_and_cold(
        self,
        given: Sequence[TaskInput],
        again: Again | None,
        ranges: Sequence[BlockRange],
        may_begin_within: bool,
    ) -> DataFrame:
        origin = _origin(given[0])
        files = list(dict.fromkeys(uri for each in given for uri in each.files))
        whole = given[0].model_copy(update={"files": files})
        parts = self._hot.parts(
            whole, ranges, needs_files=again is None, may_begin_within=may_begin_within
        )
        if again is not None:
            return _read_again(again, parts, ranges, origin)
        self._read_bytes[given[0].input_index] += parts.hot_bytes
        found = self._footers(parts.cold_files, origin, given[0].input_index)
        if not found:
            return parts.hot
        cold = parquet_input.rows(
            found, parts.cold_ranges, self._task.spark(), self._task.store, origin
        )
        return _union(parts.hot, cold, origin)

    def _appended(self, output: TaskOutput, key: Sequence[str], new: DataFrame) -> DataFrame:
        """One row per key: a row that is there stays, and a null is a value like any other."""
        origin = f"output {output.name}"
        if missing := [name for name in key if name not in new.columns]:
            raise InvalidConfig(
                f"{origin}: unique_key names {', '.join(missing)}, which its rows do not have",
                hint=f"they have {', '.join(new.columns)}",
            )
        new = new.dropDuplicates(list(key))
        found = self._footers(output.files, origin, _OWN)
        if not found:
            return new
        old = parquet_input.rows(found, (), self._task.spark(), self._task.store, origin)
        known = old.select(*(old[name].alias(f"known_{name}") for name in key))
        condition = [new[name].eqNullSafe(known[f"known_{name}"]) for name in key]
        return _union(old, new.join(known, condition, "left_anti"), origin)

    def _footers(self, uris: Sequence[str], origin: str, index: int) -> list[Footer]:
        found = parquet_input.footers(uris, self._task.store, origin)
        self._read_bytes[index] += sum(footer.bytes for footer in found)
        self._files += uris
        for footer in found:
            self._plain |= footer.plain
        return found

    def _file_count(
        self, frame: DataFrame, file_mb: int, made_of: Sequence[int] | None
    ) -> int | None:
        """None: nobody knows how much it is, so each partition is a file."""
        read = self._read_bytes
        read_bytes = read.total() if made_of is None else sum(read[i] for i in (_OWN, *made_of))
        if read_bytes and parquet_output.files_for(read_bytes, file_mb) == 1:
            return 1
        known = parquet_output.about_bytes(frame, read_bytes)
        return None if known is None else parquet_output.files_for(known, file_mb)


def _read_again(again: Again, parts: Parts, ranges: Sequence[BlockRange], origin: str) -> DataFrame:
    found = [again(parts.hot.columns, blocks) for blocks in ranges]
    known = [frame for frame in found if frame is not None]
    if known and len(known) == len(found):
        return reduce(lambda first, second: _union(first, second, origin), known)
    if parts.cold_ranges:
        raise InvalidConfig(
            f"{origin}: blocks {parts.cold_ranges[0].key} are wrong in their files, and have left"
            " the table",
            hint="with rpc_pool and chain_id a job reads blocks, transactions, logs and traces from"
            " the chain again; make others anew with the job that writes the table",
        )
    return parts.hot


def _union(first: DataFrame, second: DataFrame, origin: str) -> DataFrame:
    parquet_input.check_types(first.schema, second.schema, origin)
    return first.unionByName(second, allowMissingColumns=True)


def _origin(given: TaskInput) -> str:
    part = given.partition_key or f"cursor {given.cursor}"
    return f"input {given.input_index} (dataset {given.dataset_uuid}, {part})"
