"""What an operator is given and what it gives back.

An operator is one class in one file: a name, a pydantic `Config`, the names of its outputs, what
wakes it and `run`. It talks to the Dispatcher through `emit` alone and never decides about retries:
it raises a TraceError whose `retryable` says whether another attempt can help.

A source runs until `draining` says that it shall end: it looks at `check` and `draining` at least
once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol
from uuid import UUID

import structlog
from pydantic import BaseModel, ConfigDict

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.accepts import Accepts, Updates
from trace_platform.operators.statement import SparkProgram, Statement
from trace_platform.wire.abi import TaskAbi
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.task import (
    DatasetEvent,
    Invalidation,
    OutputCommit,
    TaskInput,
    TaskOutput,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trace_platform.data.database import DataDatabase
    from trace_platform.drivers.query_endpoint import QueryEndpoint


# Parquet files, or tables of Postgres data.
Writes = Literal["files", "tables"]


NOTHING: Mapping[str, Any] = MappingProxyType({})


class OperatorConfig(BaseModel):
    """Base of every operator's configuration: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def outputs(self) -> tuple[str, ...] | None:
        """The outputs that this configuration makes; None: the operator's `output_names`."""
        return None

    def accepts(self) -> Accepts | None:
        """What wakes an operator with this configuration; None: the operator's `accepts`."""
        return None

    def statements(self) -> tuple[Statement, ...]:
        """The SQL in this configuration: it is checked before a deploy."""
        return ()

    def program(self) -> SparkProgram | None:
        """The Spark SQL in this configuration: it is checked before a deploy too."""
        return None

    def emits(self) -> Updates | None:
        """The updates of the outputs with this configuration; None: the operator's `emits`."""
        return None

    def columns(self) -> Sequence[Sequence[ManifestColumn]] | None:
        """The columns of each output, where they are known before anything runs. Of a statement's
        answer nobody needs to say them."""
        return None

    def made_of(self) -> Sequence[Mapping[str, Sequence[str]]] | None:
        """Of each output whose columns are known, by column: those of input 0 that it is computed
        from. Nobody needs to say it of a statement's answer; None: nobody can."""
        return None


class OperatorLog(Protocol):
    """An event's name and its facts. Secrets are masked by name and shape; do not count on it."""

    def info(self, event: str, **facts: Any) -> None: ...
    def warning(self, event: str, **facts: Any) -> None: ...
    def error(self, event: str, **facts: Any) -> None: ...


class Emit(Protocol):
    """Tell the Dispatcher while the attempt runs: recorded when this returns, however long the
    Dispatcher is away. Waits while paused. How many events and invalidations are new: one that was
    emitted before changes nothing. `tables` are outputs that are tables, and how far they go;
    `state` is to be found again by `TaskContext.state`: it is kept with the rest, or not at all."""

    def __call__(
        self,
        events: Sequence[DatasetEvent] = (),
        invalidations: Sequence[Invalidation] = (),
        tables: Sequence[OutputCommit] = (),
        state: Mapping[str, Any] = NOTHING,
    ) -> int: ...


def _emits_nothing(
    events: Sequence[DatasetEvent] = (),
    invalidations: Sequence[Invalidation] = (),
    tables: Sequence[OutputCommit] = (),
    state: Mapping[str, Any] = NOTHING,
) -> int:
    raise InvalidConfig("nobody takes the events of this attempt")


def _no_data() -> DataDatabase:
    raise InvalidConfig("this worker has no Postgres data")


def _no_query() -> QueryEndpoint:
    raise InvalidConfig("this worker has no query service")


def _no_secrets(name: str) -> str:
    raise InvalidConfig(f"this worker has no secrets, and so not '{name}'")


@dataclass(frozen=True, slots=True)
class TaskContext:
    """One attempt, as its operator sees it."""

    task_id: UUID
    attempt: int
    config: Any  # an instance of the operator's Config
    inputs: tuple[TaskInput, ...]
    outputs: tuple[TaskOutput, ...]
    store: ObjectStore
    # The warm session; jobs of the calling thread carry the attempt's tag.
    spark: Callable[[], SparkSession]
    # Where the nodes of a pool are asked. It may hold a key or token: never log it.
    rpc: Callable[[str], RpcEndpoint]
    # Raises TaskCanceled or TaskTimedOut once the attempt has to stop; waits while it is to pause.
    check: Callable[[], None]
    # Whether a source shall finish what it has begun and end.
    draining: Callable[[], bool] = lambda: False
    emit: Emit = _emits_nothing
    # What earlier attempts of this job have kept in this generation, by key: with `emit`, or with
    # the `state` of their Result.
    state: Callable[[], Mapping[str, Any]] = lambda: NOTHING
    # Postgres data, for hot tables.
    data: Callable[[], DataDatabase] = _no_data
    # SQL over what this attempt may read.
    query: Callable[[], QueryEndpoint] = _no_query
    # The value of a secret, by its name. Raises InvalidConfig for one that is not set. Neither log
    # it nor hand it to Spark.
    secret: Callable[[str], str] = _no_secrets
    # How much is done, of how much: a source says how far it is, and how far the outside. Without a
    # word it is Spark's tasks that are counted.
    progress: Callable[[int, int], None] = lambda done, total: None
    # Why a source does not get on at the moment; None: it does.
    stuck: Callable[[str | None], None] = lambda why: None
    # ABIs that the instance keeps and the config names, as they are valid for this attempt.
    abis: tuple[TaskAbi, ...] = ()
    # Lines of this attempt: kept with it, shown by `trace tasks logs`.
    log: OperatorLog = field(default_factory=structlog.get_logger)


@dataclass(frozen=True, slots=True)
class Result:
    """What the completion commits: staged outputs, and events beyond one per output."""

    outputs: list[OutputCommit] = field(default_factory=list)
    events: list[DatasetEvent] = field(default_factory=list)
    # Of an output: it was rewritten. Of an input: it is wrong and must be made anew.
    invalidations: list[Invalidation] = field(default_factory=list)
    # To be found again by later attempts, by key; None forgets one. Kept with the outputs.
    state: Mapping[str, Any] = field(default_factory=dict)
    # Instead of all of that: the parts of the task's range, each for a task of its own.
    split: list[BlockRange] = field(default_factory=list)


class Operator(Protocol):
    name: ClassVar[str]
    Config: ClassVar[type[OperatorConfig]]
    # The outputs it writes, by index; None when the job's YAML alone names them.
    output_names: ClassVar[tuple[str, ...] | None]
    # What wakes it. A class without it accepts whatever there is: `accepts.UNDECLARED`.
    accepts: ClassVar[Accepts]
    # The updates of its outputs; None: those that woke it. An operator that commits a partition for
    # a tick says so with `commits_ticks: ClassVar[bool] = True`; one whose outputs are updates that
    # have no rows with `has_rows: ClassVar[bool] = False`; and one whose outputs have the columns
    # of the inputs that do not wake it, in order, with `keeps_columns: ClassVar[bool] = True`.
    emits: ClassVar[Updates | None]
    # Where the rows of its outputs go. A class without it, or with None, writes none or does not
    # say.
    writes: ClassVar[Writes | None]

    def run(self, task: TaskContext) -> Result: ...
