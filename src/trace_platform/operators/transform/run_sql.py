"""The steps of a `sql_transform`, run by Spark over views of one attempt."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from trace_platform.domain.errors import InvalidConfig, InvalidQuery
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.statement import SparkStep
from trace_platform.operators.transform.parameters import END, START, columns
from trace_platform.operators.transform.private_session import add_macros
from trace_platform.operators.transform.run import Reads
from trace_platform.operators.transform.spark_plan import refuse_plan
from trace_platform.operators.transform.sql_errors import named_step, said_by_spark
from trace_platform.operators.transform.sql_transform import Config
from trace_platform.sql.spark import functions
from trace_platform.sql.spark.bind import tables_of
from trace_platform.sql.spark.read import Refused, read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WORD = re.compile(r"[a-z_]+")


def frames_of(task: TaskContext, config: Config, reads: Reads) -> dict[str, DataFrame]:
    """By output. Raise InvalidQuery for a statement that may not run, or does not fit its inputs,
    with the step and its place."""
    program = config.program()
    if any(functions.MACROS & set(_WORD.findall(step.sql.lower())) for step in program.steps):
        add_macros(reads.spark)
    given = columns(dict(config.params) | _blocks(reads))
    made: dict[str, DataFrame] = {}
    for step in program.steps:
        _show_inputs(step, _tables(step, program.words), reads, made)
        made[step.name.lower()] = _run(step, reads, given)
    return {
        output.name: made[_step(program.step_of(output.name, len(task.outputs)), output.name)]
        for output in task.outputs
    }


def _step(name: str | None, output: str) -> str:
    if name is None:
        raise InvalidConfig(
            f"no step makes the rows of output {output}",
            hint="give a step that name, or say under outputs which step it has",
        )
    return name.lower()


def _blocks(reads: Reads) -> dict[str, int]:
    return {} if reads.blocks is None else {START: reads.blocks.start, END: reads.blocks.end}


def _tables(step: SparkStep, words: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return _read(step.sql, words)
    except Refused as refused:
        first = refused.problems[0]
        raise InvalidQuery(
            f"{named_step(step, first.line, first.column)}: {first.said}",
            step=step.name,
            line=first.line,
            column=first.column,
        ) from None


@lru_cache(256)
def _read(sql: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """What it reads. Every task of a job runs the same text."""
    return tuple(dict.fromkeys(table.name.lower() for table in tables_of(read(sql, words))))


def _show_inputs(
    step: SparkStep, tables: tuple[str, ...], reads: Reads, made: dict[str, DataFrame]
) -> None:
    """What the step reads, under the names that it has for it."""
    for name in tables:
        if name in made:
            made[name].createOrReplaceTempView(name)
        elif name in reads.names:
            reads.read(reads.names[name]).createOrReplaceTempView(name)
        else:
            known = ", ".join(sorted({*reads.names, *made}))
            raise InvalidQuery(
                f"{named_step(step)}: {name!r} is no input of the job and no earlier step",
                hint=f"there are {known}",
                step=step.name,
            )


def _run(step: SparkStep, reads: Reads, given: dict[str, Column]) -> DataFrame:
    with said_by_spark(step), reads.data.actions():
        refuse_plan(reads.spark, step.sql)
        return reads.spark.sql(step.sql, args=given)
