"""④ A worker turns a wake-up into a lease, a payload and a capability token."""

from __future__ import annotations

from typing import Any, Literal, cast

from trace_platform.dispatcher.task_tokens import TaskTokens
from trace_platform.domain.prefix import attempt_prefix
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import datasets, tasks
from trace_platform.wire.task import (
    Claimed,
    ClaimRequest,
    JobRef,
    NotClaimed,
    TaskInput,
    TaskOutput,
    TaskPayload,
)

Reason = Literal["AlreadyRunning", "Completed", "Failed", "Canceled", "NotFound"]


async def claim_task(
    state: Database, tokens: TaskTokens, bucket: str, request: ClaimRequest
) -> Claimed | NotClaimed:
    """Exactly one claimer of a queued task gets it; the others are told why not."""
    async with state.transaction() as tx:
        task = await tasks.claim(tx, request.task_id, request.worker_id)
        if task is None:
            return NotClaimed(reason=await _reason(tx, request))
        payload = await _payload(tx, task, bucket)
        pinned = [o.model_dump(mode="json") for o in payload.outputs]
        await tasks.pin_outputs(tx, task["id"], pinned)
    return Claimed(
        attempt=task["attempt"],
        lease_token=task["lease_token"],
        lease_expires_at=task["lease_expires_at"],
        capability_token=tokens.issue(task["org_id"], payload),
        task=payload,
    )


async def _reason(tx: Tx, request: ClaimRequest) -> Reason:
    task = await tasks.get(tx, request.task_id)
    if task is None:
        return "NotFound"
    # Failed here is waiting for its retry, which sends a wake-up of its own.
    status = "AlreadyRunning" if task["status"] in ("Running", "Queued") else task["status"]
    return cast(Reason, status)


async def _payload(tx: Tx, task: Row, bucket: str) -> TaskPayload:
    return TaskPayload(
        task_id=task["id"],
        attempt=task["attempt"],
        job=JobRef(dag_name=task["dag_name"], name=task["job_name"]),
        operator=task["operator"],
        config=task["config"],
        inputs=[await _input(tx, given) for given in task["inputs"]],
        outputs=await _outputs(tx, task, bucket),
        timeout_seconds=task["timeout_seconds"],
        heartbeat_timeout_seconds=task["heartbeat_timeout_seconds"],
    )


async def _input(tx: Tx, given: dict[str, Any]) -> TaskInput:
    return TaskInput(**given, files=await datasets.files_of_input(tx, given))


async def _outputs(tx: Tx, task: Row, bucket: str) -> list[TaskOutput]:
    rows = await datasets.outputs_of_job(tx, task["org_id"], task["dag_name"], task["job_name"])
    return [
        TaskOutput(
            output_index=row["output_index"],
            name=name,
            dataset_uuid=row["dataset_uuid"],
            dataset_version=row["dataset_version"],
            prefix=attempt_prefix(
                bucket,
                task["org_id"],
                row["dataset_uuid"],
                row["dataset_version"],
                task["id"],
                task["attempt"],
            ),
        )
        for row, name in zip(rows, task["output_names"], strict=False)
    ]
