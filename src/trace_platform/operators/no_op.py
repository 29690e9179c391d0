"""`no_op`: does nothing, and with `emit` passes on what woke it. For trying out a DAG's wiring."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from trace_platform.operators.accepts import ANYTHING_OR_A_SOURCE, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.wire.task import DatasetEvent


class Config(OperatorConfig):
    emit: bool = Field(
        default=False,
        description="Whether to pass each update that woke the task on to every output.",
    )


class NoOp:
    name: ClassVar[str] = "no_op"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None
    accepts: ClassVar[Accepts] = ANYTHING_OR_A_SOURCE
    emits: ClassVar[Updates | None] = None

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        if not config.emit:
            return Result()
        return Result(
            events=[
                DatasetEvent(
                    dataset_uuid=output.dataset_uuid,
                    dataset_version=output.dataset_version,
                    cursor=given.cursor,
                    partition_key=given.partition_key,
                    start=given.start,
                    end=given.end,
                )
                for output in task.outputs
                for given in task.inputs
            ]
        )
