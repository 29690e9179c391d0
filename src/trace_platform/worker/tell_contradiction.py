"""A node whose answers cannot be true is something to know, and not just an attempt that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trace_platform.data.alerts import Alert, record
from trace_platform.data.database import DataDatabase
from trace_platform.domain.errors import (
    MalformedBlock,
    NodeContradictsItself,
    ProvidersDisagree,
    TraceError,
)
from trace_platform.domain.masking import mask_text
from trace_platform.wire.task import TaskPayload


def tell_contradiction(
    error: TraceError, task: TaskPayload, data: Callable[[], DataDatabase], log: Any
) -> None:
    """One alert for a task, however many of its attempts meet it."""
    if not _is_contradiction(error, task.attempt):
        return
    alert = Alert(
        "warning",
        error.code,
        mask_text(error.message),
        f"contradiction:{task.task_id}",
        facts={"task_id": str(task.task_id), "attempt": task.attempt},
    )
    try:
        record(data(), alert)
    except TraceError as failure:
        # Without Postgres data the attempt has failed all the same, and says why.
        log.warning("alert_not_recorded", code=failure.code, reason=failure.message)


def _is_contradiction(error: TraceError, attempt: int) -> bool:
    """A block that is no block may be of a chain that moved while it was read: then the next
    attempt finds it whole."""
    return isinstance(error, ProvidersDisagree | NodeContradictsItself) or (
        isinstance(error, MalformedBlock) and attempt > 1
    )
