"""A task as whoever runs it sees it: its inputs with their files, its outputs with their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trace_platform.domain.prefix import attempt_prefix, log_uri
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import datasets
from trace_platform.wire.task import TaskPayload


async def task_payloads(tx: Tx, tasks: Sequence[Row], bucket: str) -> list[TaskPayload]:
    given = [each for task in tasks for each in task["inputs"]]
    files = iter(await datasets.files_of_inputs(tx, given))
    return [_payload(task, files, bucket) for task in tasks]


def output_prefix(bucket: str, task: Row, pinned: dict[str, Any]) -> str:
    """Where an attempt stages one of the outputs that its claim pinned."""
    return attempt_prefix(
        bucket,
        task["org_id"],
        pinned["dataset_uuid"],
        pinned["dataset_version"],
        task["id"],
        task["attempt"],
    )


def _payload(task: Row, files: Iterator[list[str]], bucket: str) -> TaskPayload:
    return TaskPayload.model_validate(
        {
            "task_id": task["id"],
            "attempt": task["attempt"],
            "org_id": task["org_id"],
            "job": {"dag_name": task["dag_name"], "name": task["job_name"]},
            "operator": task["operator"],
            "config": task["config"],
            "inputs": [given | {"files": next(files)} for given in task["inputs"]],
            "outputs": [
                pinned | {"prefix": output_prefix(bucket, task, pinned)}
                for pinned in task["outputs"] or ()
            ],
            "timeout_seconds": task["timeout_seconds"],
            "heartbeat_timeout_seconds": task["heartbeat_timeout_seconds"],
            "log_uri": log_uri(bucket, task["org_id"], task["id"], task["attempt"]),
        }
    )
