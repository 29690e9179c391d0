"""`wire_tap`: passes every event on to all outputs, and with `log` writes a line for each."""

from __future__ import annotations

from typing import Any

import structlog

from trace_platform.dag.event_operators import wire_tap
from trace_platform.dag.event_operators.wire_tap import Config
from trace_platform.dispatcher.operators.contract import EventTask, RepeatedEvent, relayed
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.wire.task import TaskInput

log = structlog.get_logger()


class WireTap(wire_tap.WireTap):
    async def run(self, tx: Tx, task: EventTask) -> list[RepeatedEvent]:
        config: Config = task.config
        if config.log:
            for given in task.inputs:
                log.info("wire_tap", **_facts(task, given))
        # A task is made once per materialisation of its input, and stands for it: a partition that
        # was committed again is passed on again.
        return [
            RepeatedEvent(**relayed(given, output).model_dump(), repeat=task.task_id)
            for output in task.outputs
            for given in task.inputs
        ]


def _facts(task: EventTask, given: TaskInput) -> dict[str, Any]:
    event = given.model_dump(mode="json", exclude_none=True, exclude={"files", "where"})
    return {
        "dag": task.job.dag_name,
        "job": task.job.name,
        "task_id": str(task.task_id),
        **event,
    }
