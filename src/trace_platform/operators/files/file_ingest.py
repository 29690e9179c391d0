"""`file_ingest`: a file of a folder to a partition of its own, and its bad rows beside it.

What is read is the file as it is when the task runs: the partition has its name, so that other
content takes the place of the rows of before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, field_validator, model_validator

from trace_platform.domain.errors import (
    CorruptFile,
    IncompatibleSchema,
    InvalidConfig,
    MissingFile,
)
from trace_platform.operators import frames
from trace_platform.operators.accepts import PARTITION, RANGE, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.files.columns import REST, arrow_type, as_read, known_type
from trace_platform.operators.files.dropped import Utf8, digest_of, folder_uri
from trace_platform.operators.files.exact_value import of_column
from trace_platform.operators.io.parquet_input import read_location
from trace_platform.wire.check_spec import ColumnName
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.task import OutputCommit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FILE = "source_file"
FILES = PARTITION - RANGE
_PUT_AGAIN = "put it there again, whole; until then its rows of before are read"


class FileConfig(OperatorConfig):
    folder: str = Field(min_length=1, description="The folder of the file_watch before it.")
    format: Literal["csv", "jsonl", "parquet"] = Field(description="Of all its files.")
    types: dict[ColumnName, str] = Field(
        min_length=1, max_length=2_000, description="The columns, by name: a type each."
    )
    delimiter: str = Field(default=",", min_length=1, max_length=1, description="Of CSV.")
    other_columns: Literal["ignore", "refuse"] = Field(
        default="refuse", description="What becomes of a file that has columns beyond these."
    )
    optional: list[ColumnName] = Field(
        default=[],
        max_length=2_000,
        description="Columns that a file may lack; they are null then. Of the others, one that it "
        "lacks fails the file.",
    )
    bad_rows: Literal["keep", "refuse"] = Field(
        default="keep",
        description="keep: rows that do not fit go to the output `rejected`; refuse: the file "
        "fails.",
    )

    @field_validator("folder")
    @classmethod
    def _is_a_folder(cls, value: str) -> str:
        return folder_uri(value)

    @field_validator("types")
    @classmethod
    def _are_known(cls, value: dict[str, str]) -> dict[str, str]:
        for declared in value.values():
            known_type(declared)
        if FILE in value or REST in value:
            raise ValueError(f"{FILE} and {REST} are columns of its own: name yours otherwise")
        return value

    @model_validator(mode="after")
    def _has_what_is_optional(self) -> FileConfig:
        if unknown := [name for name in self.optional if name not in self.types]:
            raise ValueError(f"optional names {unknown[0]}, which is no column in types")
        return self

    def columns(self) -> Sequence[Sequence[ManifestColumn]]:
        own = [(name, arrow_type(declared)) for name, declared in self.types.items()]
        rejected = [(FILE, "string"), ("row", "string")]
        return [
            [ManifestColumn(name=name, type=kind, nullable=True) for name, kind in each]
            for each in ([*own, (FILE, "string")], rejected)
        ]


class FileIngest:
    name: ClassVar[str] = "file_ingest"
    Config: ClassVar[type[OperatorConfig]] = FileConfig
    output_names: ClassVar[tuple[str, ...] | None] = ("rows", "rejected")
    accepts: ClassVar[Accepts] = Accepts(FILES)
    emits: ClassVar[Updates | None] = FILES
    writes: ClassVar[Writes | None] = "files"

    def run(self, task: TaskContext) -> Result:
        return self.ingest(task, task.config)

    def ingest(self, task: TaskContext, config: FileConfig) -> Result:
        name = _file_of(task)
        text = Utf8(name) if config.format != "parquet" else None
        digest = digest_of(task.store, config.folder + name, task.check, text)
        with frames.opened(task) as data, _read(task, config, name, digest, data) as (good, bad):
            rows = data.write(0, good, name, sort_by=())
            rejected = data.write(1, bad, name, sort_by=())
        _refuse_changed(task, config, name, digest)
        _judge(config, rejected)
        say = {"rows": rows.row_count, "rejected": rejected.row_count}
        task.log.info("file_ingested" if digest else "file_gone", file=name, **say)
        return Result(outputs=[rows, rejected])


def _file_of(task: TaskContext) -> str:
    """The name of the one file that woke the task."""
    waking = [given for given in task.inputs if given.trigger]
    name = waking[0].partition_key if len(waking) == 1 and waking[0].start is None else None
    if name is None:
        woke = "a block range" if len(waking) == 1 and waking[0].start is not None else "not one"
        raise InvalidConfig(
            f"one file wakes a task, and what woke this one is {woke}",
            hint="feed the job from a file_watch, with execution_strategy PerUpdate",
        )
    return name


def _judge(config: FileConfig, rejected: OutputCommit) -> None:
    if rejected.row_count and config.bad_rows == "refuse":
        raise IncompatibleSchema(
            f"{rejected.row_count:,} rows of {rejected.partition_key} do not fit the columns",
            hint="mend the file and put it there again, or keep them apart: bad_rows: keep",
        )


def _refuse_changed(task: TaskContext, config: FileConfig, name: str, digest: str | None) -> None:
    """Half of what was there and half of what is there now would be neither."""
    if digest_of(task.store, config.folder + name, task.check) != digest:
        raise MissingFile(
            f"{config.folder}{name} changed while it was read",
            hint="another attempt reads what is there then; write files under a name that begins "
            "with '_' and rename them when they are whole",
        )


@contextmanager
def _read(
    task: TaskContext, config: FileConfig, name: str, digest: str | None, data: frames.Frames
) -> Iterator[tuple[DataFrame, DataFrame]]:
    """The rows that fit the columns, and those that do not. Of a file that is gone there are
    none: they take the place of its rows."""
    from pyspark.sql import functions as f

    with data.actions():
        if digest is None:
            found = task.spark().createDataFrame([], as_read(config.types))
        elif config.format == "parquet":
            found = _from_parquet(task, config, name)
        else:
            found = _from_text(task, config, name)
        frame = _judged(found, config, name)
    own = f.lit(name).alias(FILE)
    # Kept: Spark forgets what did not fit of rows of which nothing else is asked.
    frame = frame.persist()
    try:
        yield (
            frame.filter("_bad is null").select(*map(f.col, config.types), own),
            frame.filter("_bad is not null").select(own, f.col("_bad").alias("row")),
        )
    finally:
        frame.unpersist()


def _judged(found: DataFrame, config: FileConfig, name: str) -> DataFrame:
    """The columns as they are declared, and `_bad`: the text of a row of which one does not fit."""
    from pyspark.sql import functions as f

    values = {column: _value(found, column, config, name) for column in config.types}
    wrong = [
        found[each].isNotNull() & values[each].isNull() for each in values if each in found.columns
    ]
    whole = f.to_json(f.struct(*(found[each] for each in values if each in found.columns)))
    rest = found[REST] if REST in found.columns else f.lit(None).cast("string")
    bad = f.when(reduce(or_, wrong, rest.isNotNull()), f.coalesce(rest, whole))
    return found.select(*(each.alias(column) for column, each in values.items()), bad.alias("_bad"))


def _value(found: DataFrame, column: str, config: FileConfig, name: str) -> Column:
    from pyspark.sql import functions as f

    declared = config.types[column]
    if column not in found.columns:
        return f.lit(None).cast(known_type(declared))
    kind = found.schema[column].dataType
    value = of_column(found[column], kind, declared)
    if value is None:
        raise IncompatibleSchema(
            f"{name}: column {column} is {kind.simpleString()}, not {declared}",
            hint="declare it as it is, and convert it in a transform",
        )
    return value.cast(known_type(declared))


def _from_parquet(task: TaskContext, config: FileConfig, name: str) -> DataFrame:
    filesystem, path = task.store.filesystem(config.folder + name)
    try:
        # Spark would say it in a page, and not at once.
        schema = pq.read_schema(path, filesystem=filesystem)
    except (pa.ArrowInvalid, OSError) as error:
        said = str(error).partition("\n")[0]
        raise CorruptFile(f"{name} is no Parquet file: {said}", hint=_PUT_AGAIN) from None
    _refuse_others(config, schema.names, name)
    _refuse_missing(config, schema.names, name)
    for field in schema:
        # Spark reads none of the file then.
        if str(field.type).startswith("timestamp[ns"):
            raise IncompatibleSchema(
                f"{name}: column {field.name} has times to the nanosecond, which no column holds",
                hint="write them to the microsecond: coerce_timestamps='us' of pyarrow and pandas",
            )
    return task.spark().read.parquet(read_location(config.folder + name, task.store))


def _from_text(task: TaskContext, config: FileConfig, name: str) -> DataFrame:
    place = read_location(config.folder + name, task.store)
    if config.format == "jsonl":
        fields = _fields_of(task, place)
        _refuse_others(config, fields, name)
        if fields:
            _refuse_missing(config, fields, name)
        options: dict[str, Any] = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": REST}
        return task.spark().read.schema(as_read(config.types)).options(**options).json(place)
    head = _head_of(task, config, place)
    if len({each.lower() for each in head}) < len(head):
        raise IncompatibleSchema(f"{name}: its first line has a name twice: {', '.join(head)}")
    _refuse_others(config, head, name)
    _refuse_missing(config, head, name)
    return _without_blanks(_by_position(task, config, head, place), config)


def _without_blanks(found: DataFrame, config: FileConfig) -> DataFrame:
    """An empty value of CSV is null, also in quotes; of text it is empty text there."""
    from pyspark.sql import functions as f

    blank = [
        name
        for name, declared in config.types.items()
        if known_type(declared) != "string" and name in found.columns
    ]
    return found.withColumns({name: f.when(f.trim(name) != "", f.col(name)) for name in blank})


def _by_position(task: TaskContext, config: FileConfig, head: list[str], place: str) -> DataFrame:
    """Columns as the file has them, in its order."""
    options: dict[str, Any] = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": REST,
        "header": "true",
        "sep": config.delimiter,
        "quote": '"',
        "escape": '"',
        "multiLine": "true",
    }
    return task.spark().read.schema(as_read(head)).options(**options).csv(place)


def _head_of(task: TaskContext, config: FileConfig, place: str) -> list[str]:
    rows = (
        task.spark()
        .read.options(sep=config.delimiter, quote='"', escape='"', multiLine="true")
        .csv(place)
        .limit(1)
        .collect()
    )
    return [str(value).strip() for value in rows[0]] if rows else []


def _fields_of(task: TaskContext, place: str) -> list[str]:
    """All names that there are in objects, one per line."""
    from pyspark.sql import functions as f

    lines = task.spark().read.text(place)
    keys = lines.select(f.explode(f.expr("json_object_keys(value)")).alias("name"))
    return sorted(row["name"] for row in keys.distinct().collect())


def _refuse_others(config: FileConfig, columns: Sequence[str], name: str) -> None:
    others = [column for column in columns if column not in config.types]
    if others and config.other_columns == "refuse":
        raise IncompatibleSchema(
            f"{name} has columns that are not declared: {', '.join(others)}",
            hint="declare them, or leave them out: other_columns: ignore",
        )


def _refuse_missing(config: FileConfig, columns: Sequence[str], name: str) -> None:
    missing = [each for each in config.types if each not in columns and each not in config.optional]
    if missing:
        where = "its first line says" if config.format == "csv" else "it has"
        raise IncompatibleSchema(
            f"{name} has no column {', '.join(missing)}: {where} {', '.join(columns)}",
            hint=f"mend the file, or let it be missing: optional: [{missing[0]}]",
        )
