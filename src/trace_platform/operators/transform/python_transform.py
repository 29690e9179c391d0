"""`python_transform`: a function of one's own over the job's inputs, beside the DAG file.

    def clean(inputs, ctx):
        return inputs["transfers"].where("value > 0")

It moves forward as `sql_transform` does. Its code is part of the job: an edit rebuilds its rows.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import Field, StringConstraints

from trace_platform.domain import own_code
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, OperatorCrashed, TraceError
from trace_platform.operators.accepts import ANYTHING, Accepts, Updates
from trace_platform.operators.contract import (
    OperatorConfig,
    OperatorLog,
    Result,
    TaskContext,
    Writes,
)
from trace_platform.operators.transform.mode import TransformConfig
from trace_platform.operators.transform.run import Reads, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Function = Callable[..., Any]
_PATTERN = rf"^{own_code.PATTERN}(@[0-9a-f]{{64}})?$"
# A frame of code beside a DAG, here and in what an executor tells of one.
_OWN_FRAME = re.compile(r'File "[^"]*trace_code_[0-9a-f]+/(\w+\.py)", line (\d+)')
_MOST = 500


class Config(TransformConfig):
    function: Annotated[str, StringConstraints(pattern=_PATTERN)] = Field(
        description="A function in a file beside the DAG file: ./my_code.py:clean."
    )
    params: dict[str, Any] = Field(default={}, description="What the function finds in ctx.params.")


@dataclass(frozen=True, slots=True)
class Context:
    """What the function is told besides its inputs."""

    # A session of this task alone, for frames that come from no input.
    spark: SparkSession
    # The blocks that the rows are of; None: everything.
    start: int | None
    end: int | None
    params: Mapping[str, Any]
    log: OperatorLog
    # Raises once the task has to stop: to be called between long steps.
    check: Callable[[], None]


class Inputs(Mapping[str, "DataFrame"]):
    """By any of an input's names; each is read when it is first asked for."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._read: dict[int, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        index = self._reads.names[name]
        if index not in self._read:
            self._read[index] = self._reads.read(index)
        return self._read[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._reads.names)

    def __len__(self) -> int:
        return len(self._reads.names)


class PythonTransform:
    name: ClassVar[str] = "python_transform"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None
    accepts: ClassVar[Accepts] = ANYTHING
    emits: ClassVar[Updates | None] = None
    commits_ticks: ClassVar[bool] = True
    writes: ClassVar[Writes | None] = "files"
    # Of the job, put there by the worker that has its code.
    function: ClassVar[Function | None] = None

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        function = type(self).function
        if function is None:
            raise InvalidConfig("this worker runs no code that lies beside DAG files")
        return run(task, config, lambda reads: _called(function, task, config, reads), _named)


def calling(function: Function) -> type[PythonTransform]:
    """The operator with a job's own function."""
    return type("PythonTransform", (PythonTransform,), {"function": staticmethod(function)})


def _called(
    function: Function, task: TaskContext, config: Config, reads: Reads
) -> dict[str, DataFrame]:
    blocks: BlockRange | None = reads.blocks
    context = Context(
        spark=reads.spark,
        start=blocks.start if blocks else None,
        end=blocks.end if blocks else None,
        params=config.params,
        log=task.log,
        check=task.check,
    )
    with _named():
        made = function(Inputs(reads), context)
    return _by_output(made, [output.name for output in task.outputs], config.function)


def _by_output(made: Any, outputs: list[str], function: str) -> dict[str, DataFrame]:
    from pyspark.sql import DataFrame

    name = own_code.short(function).partition("@")[0]
    found = dict(made) if isinstance(made, Mapping) else {outputs[0]: made}
    if missing := [output for output in outputs if not isinstance(found.get(output), DataFrame)]:
        raise InvalidConfig(
            f"{name} returned no DataFrame for output {missing[0]}",
            hint="return a DataFrame, or of several outputs a dict: { output: DataFrame }",
        )
    if strange := found.keys() - set(outputs):
        raise InvalidConfig(
            f"{name} returned rows for {strange.pop()!r}, which is no output of the job",
            hint=f"it has {', '.join(outputs)}",
        )
    return cast("dict[str, DataFrame]", found)


@contextmanager
def _named() -> Iterator[None]:
    """An error of the function says where in its file it was raised, also one of an executor."""
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        frames = _OWN_FRAME.findall(text)
        if not frames or (isinstance(error, TraceError) and error.__cause__ is None):
            raise
        file, line = frames[-1]
        raise OperatorCrashed(f"{file}:{line}: {_said(error)}") from error


def _said(error: Exception) -> str:
    if isinstance(error, TraceError):
        return error.message[:_MOST]
    first = (str(error).strip().splitlines() or ["no message"])[0]
    return f"{type(error).__name__}: {first}"[:_MOST]
