"""Checks of what a job writes: how they are said, in a DAG file and in a task's payload.

A check runs on what an attempt has staged, before it is published, and names whom it blocks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)

MAX_CHECKS = 100
MAX_READERS = 64
MAX_SQL = 20_000
MAX_VALUES = 1_000


class _Said(BaseModel):
    """Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def absent(value: Any) -> bool:
    """For `exclude_if`."""
    return value is None


def _output(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("name an output, or give its index, such as output: 0")
    return value


Output = Annotated[int | str, BeforeValidator(_output)]
ColumnName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=128)]
# A job of this DAG, or of another one as DAG.JOB.
ReaderName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?$", max_length=257),
]
Address = Annotated[str, StringConstraints(pattern=r"^0x[0-9a-fA-F]{40}$")]
Columns = Annotated[list[ColumnName], Field(min_length=1, max_length=32)]
# What a column is compared with. Bytes are written as 0x and hexadecimal digits.
Value = bool | int | float | Annotated[str, Field(max_length=10_000)]
_Count = Annotated[int, Field(strict=True, ge=0, le=2**62)]
_HOW = "write warn, block, or { block: [JOB, ...] }"


class BlockReaders(_Said):
    """These jobs do not read the rows until they are good; all others do."""

    block: list[ReaderName] = Field(
        min_length=1, max_length=MAX_READERS, description="Jobs that read the output."
    )

    @field_validator("block")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError("names a job twice")
        return value


def _on_failure(value: Any) -> Any:
    if isinstance(value, dict):
        return BlockReaders.model_validate(value)
    if value in ("warn", "block") or isinstance(value, BlockReaders):
        return value
    raise ValueError(_HOW)


OnFailure = Annotated[
    Literal["warn", "block"] | BlockReaders,
    BeforeValidator(_on_failure),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["warn", "block"]},
                {
                    "type": "object",
                    "properties": {"block": {"type": "array", "items": {"type": "string"}}},
                    "required": ["block"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class CheckModel(_Said):
    """What all checks have."""

    kind: str = Field(description="What is checked.")
    name: Name | None = Field(
        default=None,
        exclude_if=absent,
        description="What it is called in results; made of its kind and columns unless given.",
    )
    output: Output = Field(default=0, description="The output that it looks at, by name or index.")
    on_failure: OnFailure = Field(
        default="warn",
        description="warn: tell. block: commit nothing. { block: [jobs] }: commit, and these jobs "
        "wait.",
    )

    @property
    def label(self) -> str:
        """Its name."""
        columns = getattr(self, "columns", None) or [getattr(self, "column", None)]
        return self.name or "_".join([self.kind, *(each for each in columns if each)])[:128]

    @property
    def readers(self) -> tuple[str, ...]:
        """Whom it blocks by name."""
        return tuple(self.on_failure.block) if isinstance(self.on_failure, BlockReaders) else ()

    @property
    def blocks_all(self) -> bool:
        return self.on_failure == "block"


class NotNull(CheckModel):
    """No row has null in any of the columns."""

    kind: Literal["not_null"] = Field(description="No value of these columns is null.")
    columns: Columns = Field(description="Columns that are never null.")


class Unique(CheckModel):
    """No two rows are alike in all of the columns; rows with null in one of them do not count."""

    kind: Literal["unique"] = Field(description="No two rows are alike.")
    columns: Columns = Field(description="Columns that together tell rows apart.")


class Range(CheckModel):
    """Values lie between two bounds, both included; null does."""

    kind: Literal["range"] = Field(description="Values between two bounds.")
    column: ColumnName = Field(description="The column.")
    min: Value | None = Field(default=None, exclude_if=absent, description="The smallest value.")
    max: Value | None = Field(default=None, exclude_if=absent, description="The largest value.")

    @model_validator(mode="after")
    def _has_a_bound(self) -> Range:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        return self


class AcceptedValues(CheckModel):
    """Values are among these, or null."""

    kind: Literal["accepted_values"] = Field(description="Values among those that are listed.")
    column: ColumnName = Field(description="The column.")
    values: list[Value] = Field(
        min_length=1, max_length=MAX_VALUES, description="The values that there may be."
    )


class RowCount(CheckModel):
    """A commit has so many rows."""

    kind: Literal["row_count"] = Field(description="So many rows in a commit.")
    min: _Count | None = Field(default=None, exclude_if=absent, description="At least so many.")
    max: _Count | None = Field(default=None, exclude_if=absent, description="At most so many.")

    @model_validator(mode="after")
    def _has_a_bound(self) -> RowCount:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is more than max")
        return self


class Freshness(CheckModel):
    """The newest row is no older than this when it is written."""

    kind: Literal["freshness"] = Field(description="How old the newest row may be.")
    column: ColumnName = Field(
        description="A timestamp, a date, or a number of seconds since 1970."
    )
    # In seconds.
    max_age: float = Field(gt=0, description="How old the newest row may be: 15m, 1d.")


class References(_Said):
    """Where the values of a foreign key are to be found."""

    # An input of the job, or another of its outputs.
    input: int | None = Field(
        default=None,
        strict=True,
        ge=0,
        exclude_if=absent,
        description="An input of the job, by its place among them.",
    )
    output: Output | None = Field(
        default=None, exclude_if=absent, description="Another output of the job."
    )
    columns: Columns = Field(description="As many columns there, in the same order.")

    @model_validator(mode="after")
    def _one_place(self) -> References:
        if (self.input is None) == (self.output is None):
            raise ValueError("give either input or output")
        return self


class ForeignKey(CheckModel):
    """What the columns say is there in another dataset; rows with null in one do not count."""

    kind: Literal["foreign_key"] = Field(description="Values that are in another dataset.")
    columns: Columns = Field(description="Columns of the output.")
    references: References = Field(description="Where their values have to be.")

    @model_validator(mode="after")
    def _as_many(self) -> ForeignKey:
        if len(self.columns) != len(self.references.columns):
            raise ValueError("references needs as many columns as the check has")
        return self


class Gaps(CheckModel):
    """Every number of the range that is committed has a row."""

    kind: Literal["gaps"] = Field(description="Every number of the range has a row.")
    column: ColumnName = Field(default="block_number", description="The column with the numbers.")


class Sql(CheckModel):
    """A SELECT of Spark SQL that gives no row. Outputs have their names, inputs are input_0, ..."""

    kind: Literal["sql"] = Field(description="A statement that gives no row.")
    sql: str = Field(min_length=1, max_length=MAX_SQL, description="Rows that it gives are wrong.")


class Drift(CheckModel):
    """The values of a column are distributed as in the partitions before."""

    kind: Literal["drift"] = Field(description="Values that are distributed as before.")
    column: ColumnName = Field(description="The column.")
    z_score: float | None = Field(
        default=None,
        gt=0,
        exclude_if=absent,
        description="So many standard deviations the mean may lie from the means of before.",
    )
    kl: float | None = Field(
        default=None,
        gt=0,
        exclude_if=absent,
        description="The largest Kullback-Leibler divergence from the values of before, in nats.",
    )
    partitions: int = Field(
        default=20, strict=True, ge=2, le=100, description="So many partitions before are compared."
    )
    at_least: int = Field(
        default=5,
        strict=True,
        ge=2,
        le=100,
        description="With fewer of them there is nothing to compare with, and the check passes.",
    )

    @model_validator(mode="after")
    def _has_a_bound(self) -> Drift:
        if self.z_score is None and self.kl is None:
            raise ValueError("give z_score, kl or both")
        if self.at_least > self.partitions:
            raise ValueError("at_least is more than partitions")
        return self


class EthCall(CheckModel):
    """What a contract answers is what the rows say."""

    kind: Literal["eth_call"] = Field(description="What a contract answers is what the rows say.")
    rpc_pool: str = Field(
        min_length=1, max_length=128, description="The pool whose nodes are asked."
    )
    chain_id: int = Field(strict=True, ge=1, le=2**63 - 1, description="The chain of these nodes.")
    to: Address = Field(description="The contract.")
    function: str = Field(
        min_length=3, max_length=1_000, description="As people write it: balanceOf(address)."
    )
    arguments: list[bool | int | Annotated[str, Field(max_length=200)]] = Field(
        default=[], max_length=32, description="A value for each parameter; bytes as 0x…."
    )
    returns: str = Field(
        default="uint256", max_length=32, description="The type of the answer: one of one word."
    )
    equals: str = Field(
        min_length=1,
        max_length=MAX_SQL,
        description="What the rows say: an aggregate in Spark SQL, such as sum_exact(balance).",
    )
    block: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_SQL,
        exclude_if=absent,
        description="At which block it is asked, as an aggregate of the rows: max(block_number). "
        "The last one of the range unless given.",
    )


_Any = (
    NotNull
    | Unique
    | Range
    | AcceptedValues
    | RowCount
    | Freshness
    | ForeignKey
    | Gaps
    | Sql
    | Drift
    | EthCall
)
Check = Annotated[_Any, Field(discriminator="kind")]
