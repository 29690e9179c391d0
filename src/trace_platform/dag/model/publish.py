"""What a DAG publishes: datasets by name, and what their readers may rely on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    WithJsonSchema,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from trace_platform.dag.model.edge import JobOutputRef, ref_example
from trace_platform.dag.model.fields import (
    ColumnName,
    DagModel,
    Duration,
    Path,
    Text,
    absent,
    distinct,
    empty,
    raise_all,
    unknown,
)

Storage = Literal["parquet", "postgres", "buffered"]
WriteMode = Literal["replace", "append"]

MAX_COLUMNS = 2_000
MAX_PRODUCERS = 64
MAX_TAGS = 32
MAX_DIGITS = 38
MAX_BINARY = 65_535

PLAIN_TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "string", "binary", "date", "timestamp", "json"),
)
TYPES = f"{', '.join(PLAIN_TYPES)}, decimal(p,s) and binary(n)"
# What other systems call them.
_OTHER_WORDS = {
    word: right
    for right, words in {
        "bool": "boolean",
        "string": "text varchar str char",
        "int8": "byte tinyint",
        "int16": "smallint short",
        "int32 or int64": "int integer",
        "int64": "bigint long",
        "float32": "real",
        "float64": "double",
        "float32 or float64": "float",
        "decimal(p,s)": "numeric decimal",
        "decimal(p,s) or float64": "number",
        "binary": "bytes bytea blob",
        "binary(20) or string": "address",
        "binary(32)": "bytes32",
        "binary(32) or string": "uint256 int256",
        "timestamp": "datetime time timestamptz",
        "json": "jsonb object struct array list map",
    }.items()
    for word in words.split()
}
_WITH_SIZE = re.compile(r"(decimal|binary)\(([0-9]{1,5})(?:,([0-9]{1,5}))?\)")
_ORIGIN = re.compile(r"[a-z][a-z0-9_]{0,127}\.[A-Za-z_][A-Za-z0-9_]{0,127}")


def _column_type(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    said = re.sub(r"\s+", "", value).lower()
    match = _WITH_SIZE.fullmatch(said)
    if said not in PLAIN_TYPES and not (match and _fits(match)):
        raise _type_instead(said, match)
    return said


def _fits(match: re.Match[str]) -> bool:
    kind, first, second = match[1], int(match[2]), match[3]
    if kind == "binary":
        return second is None and 1 <= first <= MAX_BINARY
    return second is not None and 1 <= first <= MAX_DIGITS and int(second) <= first


def _type_instead(said: str, match: re.Match[str] | None) -> Exception:
    if match and match[1] == "binary":
        return ValueError(f"write binary(n) with n from 1 to {MAX_BINARY:,}")
    if re.fullmatch(r"decimal\([0-9]+", said):
        return ValueError('between { } a word ends at its comma: quote it, "decimal(38,0)"')
    if match or said.startswith("decimal("):
        return ValueError(f"write decimal(p,s) with p from 1 to {MAX_DIGITS} and s from 0 to p")
    if said in _OTHER_WORDS:
        return ValueError(f"unknown type: use {_OTHER_WORDS[said]}")
    return unknown("unknown type", said, PLAIN_TYPES, f"; there are {TYPES}")


Owner = Annotated[str, Field(min_length=1, max_length=128)]
Tag = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.:/-]*$", max_length=64)]
ColumnType = Annotated[
    str,
    BeforeValidator(_column_type),
    WithJsonSchema(
        {
            "type": "string",
            "anyOf": [
                {"enum": list(PLAIN_TYPES)},
                {"pattern": r"^(decimal\([0-9]+, ?[0-9]+\)|binary\([0-9]+\))$"},
            ],
        }
    ),
]


class Column(DagModel):
    """One column of a published dataset."""

    type: ColumnType = Field(description=f"One of {TYPES}.")
    description: Text | None = Field(
        default=None, exclude_if=absent, description="What the column holds, for those who read it."
    )
    origins: list[str] = Field(
        default=[],
        alias="from",
        exclude_if=empty,
        max_length=64,
        description="Columns that it comes from, as dataset.column or job.column.",
    )

    @field_validator("origins")
    @classmethod
    def _are_columns(cls, value: list[str]) -> list[str]:
        said = "write dataset.column or job.column, such as blocks.number"
        raise_all(
            "from", (((i,), said) for i, each in enumerate(value) if not _ORIGIN.fullmatch(each))
        )
        distinct(value, "the column")
        return value


class Publish(DagModel):
    """A dataset that others read by its name."""

    sources: list[JobOutputRef] = Field(
        alias="from",
        min_length=1,
        max_length=MAX_PRODUCERS,
        description="The output that is published. With `storage: buffered` also a list of "
        "outputs, which make one dataset together.",
    )
    cold: JobOutputRef | None = Field(
        default=None,
        exclude_if=absent,
        description="For a table, the output that holds, as files, the rows that have left it.",
    )
    description: Text | None = Field(
        default=None,
        exclude_if=absent,
        description="What the dataset holds, for those who read it.",
    )
    owner: Owner | None = Field(
        default=None,
        exclude_if=absent,
        description="Who answers for the dataset: a person, a team, a channel.",
    )
    tags: list[Tag] = Field(
        default=[],
        exclude_if=empty,
        max_length=MAX_TAGS,
        description="Words that the dataset is found by, such as `finance`.",
    )
    storage: Storage = Field(
        default="parquet",
        exclude_if=lambda value: value == "parquet",
        description="Where the rows live: `parquet` for files, `postgres` for a table, "
        "`buffered` for batches. It has to be what "
        "the job writes, and may be left out.",
    )
    write_mode: WriteMode | None = Field(
        default=None,
        exclude_if=absent,
        description="What a commit does to earlier rows, said for readers of the file. It "
        "has to be the `update_strategy` of the job.",
    )
    columns: dict[ColumnName, Column] | None = Field(
        default=None,
        alias="schema",
        exclude_if=absent,
        min_length=1,
        max_length=MAX_COLUMNS,
        description="The columns, by name: a type each, or a mapping of type, description "
        "and from. A commit that does not fit is refused.",
    )
    pii: list[ColumnName] = Field(
        default=[],
        exclude_if=empty,
        max_length=MAX_COLUMNS,
        description="Names of the columns that hold personal data, and are masked for "
        "readers who were not granted it.",
    )
    # In seconds.
    max_age: Duration | None = Field(
        default=None,
        exclude_if=absent,
        description="Age from which on the dataset counts as stale, such as 15m or 1d; it "
        "never does unless given.",
    )

    @field_validator("tags")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        distinct(value, "the tag")
        return value

    @field_validator("sources", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        if isinstance(value, dict):
            # Validated here, so that an error names `from.job` and not `from[0].job`.
            return [JobOutputRef.model_validate(value)]
        if not isinstance(value, list):
            raise ValueError(f"write it as a mapping: {ref_example(value)}")
        return value

    @field_validator("columns", mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if len(value) > MAX_COLUMNS:
            raise ValueError(f"has {len(value):,} columns, at most {MAX_COLUMNS:,} are allowed")
        return {name: {"type": c} if isinstance(c, str) else c for name, c in value.items()}

    @model_validator(mode="after")
    def _fits_together(self) -> Publish:
        raise_all("publish", self._problems())
        return self

    def _problems(self) -> Iterator[tuple[Path, str | PydanticCustomError]]:
        if len(self.sources) > 1 and self.storage != "buffered":
            said = "only with storage: buffered several outputs make one dataset"
            yield ("from",), f"{said}: add that, or name one output"
        yield from _case_clashes(self.columns or {}, ("schema",))
        if len(set(self.pii)) != len(self.pii):
            yield ("pii",), "names a column twice"
        for index, column in enumerate(self.pii):
            if self.columns is not None and column not in self.columns:
                said = f"the schema has no column '{column}'"
                yield ("pii", index), unknown(said, column, tuple(self.columns))

    @field_serializer("sources")
    def _as_written(self, sources: list[JobOutputRef]) -> Any:
        """One output as a mapping: as before there could be several, so that hashes stay."""
        shown = [source.model_dump(mode="json") for source in sources]
        return shown[0] if len(shown) == 1 else shown

    @property
    def declared(self) -> dict[str, dict[str, str]]:
        """The type of each column of its schema, as `declared_columns` takes it."""
        return {name: {"type": column.type} for name, column in (self.columns or {}).items()}

    @property
    def source(self) -> JobOutputRef:
        """The output that it is; of several the first."""
        return self.sources[0]


def _case_clashes(columns: dict[str, Column], path: Path) -> Iterator[tuple[Path, str]]:
    spelled: dict[str, str] = {}
    for column in columns:
        # DuckDB and Spark do not tell them apart.
        other = spelled.setdefault(column.lower(), column)
        if other != column:
            yield (*path, column), f"differs from '{other}' only in upper and lower case"
