"""A task as whoever runs it sees it: its inputs with their files, its outputs with their places."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trace_platform.dispatcher.abis.pin_abis import abis_of_tasks
from trace_platform.domain.freshness import Given, merges
from trace_platform.domain.prefix import attempt_prefix, log_uri
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.transform.mode import TRANSFORMS
from trace_platform.state import appends, reads
from trace_platform.state.task_rows import DefinedTask, Pinned, TaskRow
from trace_platform.wire.abi import TaskAbi
from trace_platform.wire.check_spec import CheckModel, ForeignKey, Sql
from trace_platform.wire.task import TaskPayload

# What a statement of a check calls an input.
_INPUT = re.compile(r"\binput_[0-9]", re.IGNORECASE)


async def task_payloads(tx: Tx, tasks: Sequence[DefinedTask], bucket: str) -> list[TaskPayload]:
    inputs = await reads.with_files(tx, tasks)
    await _name_inputs(tx, tasks, inputs)
    outputs = await appends.with_files(tx, tasks)
    abis = await abis_of_tasks(tx, tasks)
    return [_payload(*each, bucket) for each in zip(tasks, inputs, outputs, abis, strict=True)]


async def _name_inputs(tx: Tx, tasks: Sequence[DefinedTask], inputs: Sequence[list[Given]]) -> None:
    """Of transforms, whose statements read inputs by name."""
    named = [n for n, task in enumerate(tasks) if task.operator in TRANSFORMS]
    if named:
        await reads.name_inputs(tx, [tasks[n] for n in named], [inputs[n] for n in named])


def output_prefix(bucket: str, task: TaskRow, pinned: Pinned) -> str:
    """Where an attempt stages one of the outputs that its claim pinned."""
    return attempt_prefix(
        bucket,
        task.org_id,
        pinned["dataset_uuid"],
        pinned["dataset_version"],
        task.id,
        task.attempt,
    )


def _without_inputs(payload: TaskPayload) -> TaskPayload:
    """Of a task that reads no input: its checks are those that need none."""
    checks = [each for each in payload.checks if not _reads_input(each)]
    return payload.model_copy(update={"checks": checks})


def _reads_input(check: CheckModel) -> bool:
    if isinstance(check, ForeignKey):
        return check.references.input is not None
    return isinstance(check, Sql) and _INPUT.search(check.sql) is not None


def _payload(
    task: DefinedTask,
    inputs: list[Given],
    outputs: list[Pinned],
    abis: list[TaskAbi],
    bucket: str,
) -> TaskPayload:
    payload = TaskPayload.model_validate(
        {
            "task_id": task.id,
            "attempt": task.attempt,
            "org_id": task.org_id,
            "job": {"dag_name": task.dag_name, "name": task.job_name},
            "operator": task.operator,
            "config": task.config,
            "inputs": inputs,
            "outputs": [
                pinned | {"prefix": output_prefix(bucket, task, pinned)} for pinned in outputs
            ],
            "timeout_seconds": task.timeout_seconds,
            "heartbeat_timeout_seconds": task.heartbeat_timeout_seconds,
            "checks": task.checks or [],
            "abis": abis,
            "log_uri": log_uri(bucket, task.org_id, task.id, task.attempt),
        }
    )
    return _without_inputs(payload) if merges(task.inputs) else payload
