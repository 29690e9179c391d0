"""`query_export`: the answer of a SQL statement as a dataset. Runs without Spark.

The query service runs it with the attempt's own token: it reads what the task may read. Woken by
partitions, the answer is of those. Woken by ticks, it is of whole datasets, and takes the place of
the answer to the tick before.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    DiskFull,
    InvalidConfig,
    InvalidQuery,
    QueryTooLarge,
    TooManyQueries,
    Unauthenticated,
    Unavailable,
)
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.query_endpoint import QueryAnswer
from trace_platform.drivers.task_token import REFETCH_S
from trace_platform.operators import scope
from trace_platform.operators.accepts import ANYTHING_UNMIXED, RANGE, TICK, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.io.parquet_file import ParquetFile, WrittenFile, sync
from trace_platform.operators.staging import seal_output
from trace_platform.operators.statement import Statement, Word
from trace_platform.wire.parquet_writer import stored_as
from trace_platform.wire.query import MAX_SQL_CHARS

# Longer than the service lets a task's query run: it is the one to say that there is no more time.
_ANSWER_S = 3_600.0
_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
# For a service that does not know the key of the task's token yet.
_UNKNOWN_S = 2 * REFETCH_S
_LOOK_EVERY_S = 0.2
_READ_BYTES = 1 << 20
# The first and the last block of the task, or its newest tick.
_WORD = re.compile(r"\$(start|end|tick)\b")
# The partition that an answer to a tick is: every tick's, so that each takes the last one's place.
WHOLE = "all"

# DuckDB's words begin with the kind of error. These tell of the statement's own text alone.
_DUCKDB = re.compile(r"([A-Za-z ]+) Error: ")
_OF_THE_STATEMENT = frozenset({"Binder", "Catalog", "Not implemented", "Parser", "Syntax"})


class Config(OperatorConfig):
    sql: str = Field(
        min_length=1,
        max_length=MAX_SQL_CHARS,
        description="One SELECT statement in DuckDB's SQL. Inputs are called "
        "`input_0`, `input_1` and so on; `$start`, `$end` and `$tick` stand for what "
        "woke the task.",
    )
    format: Literal["parquet", "csv"] = Field(
        default="parquet",
        description="Format of the files. CSV is for people who fetch the file: queries and "
        "other jobs read Parquet.",
    )

    def statements(self) -> tuple[Statement, ...]:
        words = tuple(
            Word(found[0], found.start(), TICK if found[1] == "tick" else RANGE)
            for found in _WORD.finditer(self.sql)
        )
        # Any number stands in for any other.
        sql = _WORD.sub(lambda found: "1".rjust(len(found[0]), "0"), self.sql)
        return (Statement(("sql",), sql, words, None if self.format == "csv" else 0),)


class QueryExport:
    name: ClassVar[str] = "query_export"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("result",)
    accepts: ClassVar[Accepts] = ANYTHING_UNMIXED
    emits: ClassVar[Updates | None] = None
    commits_ticks: ClassVar[bool] = True
    writes: ClassVar[Writes | None] = "files"

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        asked = _asked(task)
        if isinstance(asked, list):
            # What lies between was not asked for: no partition may stand for it.
            return Result(split=asked)
        output = scope.output(task, 0)
        stem = f"{output.name}{asked.suffix}"
        with ExitStack() as opened:
            answer = _ask(task, asked.statement(config.sql), opened)
            if config.format == "csv":
                file, schema = _write_csv(task, output.prefix, stem, answer)
            else:
                file, schema = _write_parquet(task, output.prefix, stem, answer)
        return Result(outputs=[seal_output(task.store, output, asked.part, [file], schema)])


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer stands for: blocks or a partition of another kind; and its words' numbers."""

    part: BlockRange | str
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def suffix(self) -> str:
        return "" if isinstance(self.part, str) else f"_{self.part.start}_{self.part.end}"

    def statement(self, sql: str) -> str:
        """Numbers alone are put in: whatever stands around them, they change nothing else."""
        missing = next((w for w in _WORD.findall(sql) if w not in self.numbers), None)
        if missing is not None:
            raise InvalidConfig(
                f"the statement has ${missing}, and this task has none: it is about {self._about}",
                hint="block ranges that wake the job have $start and $end, ticks have $tick",
            )
        return _WORD.sub(lambda found: str(self.numbers[found[1]]), sql)

    @property
    def _about(self) -> str:
        if "tick" in self.numbers:
            return "a tick"
        return (
            f"partition {self.part!r}" if isinstance(self.part, str) else f"blocks {self.part.key}"
        )


def _asked(task: TaskContext) -> Asked | list[BlockRange]:
    """What the task's one answer stands for; several ranges, each for an answer of its own."""
    waking = [given for given in task.inputs if given.trigger]
    ticks = [given.cursor for given in waking if given.cursor is not None]
    keys = [given.partition_key for given in waking if given.start is None and given.partition_key]
    if waking and len(ticks) == len(waking):
        return Asked(WHOLE, {"tick": max(ticks)})
    if waking and len(keys) == len(waking):
        # Read together, and committed together under the name of one of them.
        return Asked(min(keys))
    if ticks or keys:
        raise InvalidConfig(
            "updates of several kinds woke this task: they have no answer in common",
            hint="make a job for each kind of update: block ranges, other partitions, and ticks",
        )
    ranges = scope.merged_ranges(task)
    if len(ranges) > 1:
        return ranges
    return Asked(ranges[0], {"start": ranges[0].start, "end": ranges[0].end})


def _ask(task: TaskContext, sql: str, opened: ExitStack) -> QueryAnswer:
    """Where others are served first, or nobody is yet, it waits; for as long as the task may."""
    config: Config = task.config
    kind: Literal["arrow", "csv"] = "csv" if config.format == "csv" else "arrow"
    endpoint, pause_s = task.query(), _PAUSE_S
    give_up = time.monotonic() + _UNKNOWN_S
    while True:
        task.check()
        try:
            return opened.enter_context(endpoint.stream(sql, kind, _ANSWER_S, task.check))
        except (TooManyQueries, Unavailable) as error:
            told = error.facts.get("retry_after_s")
            task.log.warning("query_waits", code=error.code, reason=error.message)
        except Unauthenticated as error:
            told = None
            task.log.warning("query_waits", code=error.code, reason=error.message)
            if time.monotonic() > give_up:
                raise _unknown(error) from None
        except InvalidQuery as error:
            said = _without_values(error)
            # Where in the statement, among other things.
            task.log.error("query_refused", code=said.code, facts=said.facts)
            raise said from None
        _pause(task, float(told) if isinstance(told, int | float) else pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _without_values(error: InvalidQuery) -> InvalidQuery:
    """What fails on a row is told by DuckDB with the values of the row. A task reads columns that
    are masked for others, and others read what became of it."""
    found = _DUCKDB.match(error.message)
    if found is None or found[1] in _OF_THE_STATEMENT:
        return error
    place = {name: error.facts[name] for name in ("line", "column") if name in error.facts}
    at = "".join(f", {name} {number}" for name, number in place.items())
    return InvalidQuery(
        f"{found[1]} Error on a row that the statement reads{at}",
        hint=error.hint or "run the statement with `trace query`, as somebody who may see the rows",
        **place,
    )


def _unknown(error: Unauthenticated) -> Unavailable:
    """No reason to fail for good: another attempt has another token."""
    return Unavailable(
        f"the query service does not accept the task's token: {error.message}",
        hint="is it of this instance, and are the clocks of both machines right?",
    )


def _pause(task: TaskContext, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        task.check()
        time.sleep(min(left, _LOOK_EVERY_S))


def _write_parquet(
    task: TaskContext, prefix: str, stem: str, answer: QueryAnswer
) -> tuple[WrittenFile, pa.Schema]:
    with pa.ipc.open_stream(io.BufferedReader(answer, _READ_BYTES)) as batches:
        _check_names(batches.schema)
        name = f"{stem}.parquet"
        with ParquetFile(task.store, prefix, name, batches.schema, frozenset()) as file:
            for batch in batches:
                task.check()
                file.write(batch)
            written = file.close()
            _check_whole(answer, written.rows)
    return written, stored_as(batches.schema).to_arrow_schema()


def _check_names(schema: pa.Schema) -> None:
    twice = [name for name in schema.names if schema.names.count(name) > 1]
    if twice:
        raise InvalidQuery(
            f"two columns of the answer have the name {twice[0]!r}", hint="name them with AS"
        )


def _write_csv(
    task: TaskContext, prefix: str, stem: str, answer: QueryAnswer
) -> tuple[WrittenFile, pa.Schema]:
    """Text has no types: nothing is said of its columns."""
    name, digest, size = f"{stem}.csv", hashlib.sha256(), 0
    with _new_file(task.store, prefix + name) as sink:
        while chunk := answer.read(_READ_BYTES):
            task.check()
            sink.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        _check_whole(answer, answer.rows)
    return WrittenFile(name, answer.rows, size, digest.hexdigest()), pa.schema([])


@contextmanager
def _new_file(store: ObjectStore, uri: str) -> Iterator[pa.NativeFile]:
    """On disk for good when the block ends; gone when it fails."""
    filesystem, path = store.filesystem(uri)
    is_local = filesystem.type_name == "local"
    try:
        if is_local:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with filesystem.open_output_stream(path) as sink:
            yield sink
        if is_local:
            sync(path)
    except BaseException as error:
        with suppress(OSError):
            filesystem.delete_file(path)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull("no space left to write the export", hint="free some space") from None
        raise


def _check_whole(answer: QueryAnswer, rows: int) -> None:
    """Part of an answer is worse than none: nobody could tell."""
    if answer.truncated:
        raise QueryTooLarge(
            "the query service has more rows than it answers with",
            hint="let each task have a smaller range",
        )
    if rows != answer.rows:
        raise Unavailable(f"{rows} rows of the answer's {answer.rows} arrived")
