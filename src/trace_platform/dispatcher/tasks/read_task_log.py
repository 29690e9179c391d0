"""What an attempt said, from where its worker left it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import msgspec

from trace_platform.dispatcher.tasks.show_task import find_task
from trace_platform.domain.errors import Conflict, NotFound
from trace_platform.domain.prefix import log_uri
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview, tasks
from trace_platform.state.overview import TaskNow
from trace_platform.state.task_rows import AttemptRow
from trace_platform.wire.control import TaskLog

# A worker cuts a log long before; whatever else lies there is not read into memory.
MAX_BYTES = 8 << 20
MAX_BRACKETS = 200
PART_BYTES = 1 << 20


async def read_task_log(
    state: Database,
    store: ObjectStore,
    bucket: str,
    org_id: UUID,
    task_id: UUID,
    attempt: int | None,
) -> TaskLog:
    """Of the newest attempt unless another is named."""
    ended, attempts = await _find(state, org_id, task_id, attempt)
    wanted = ended.attempt
    uri = log_uri(bucket, org_id, task_id, wanted)
    # Asked of the store, not of the record: an attempt that was given up may have left its lines.
    body = await asyncio.to_thread(_read, store, uri)
    # Where nothing was logged, such as by a function or a worker that was killed, its end is known.
    if body is None and ended.error_code is None:
        raise _no_log(task_id, attempts, wanted)
    return TaskLog(
        task_id=task_id,
        attempt=wanted,
        lines=_lines(body or b""),
        outcome=ended.outcome,
        error_code=ended.error_code,
        error_message=ended.error_message,
    )


async def open_task_log(
    state: Database,
    store: ObjectStore,
    bucket: str,
    org_id: UUID,
    task_id: UUID,
    attempt: int | None,
) -> tuple[int, Iterator[bytes]]:
    """How many bytes it has, and these as the worker left them: a log of any length, in parts."""
    ended, attempts = await _find(state, org_id, task_id, attempt)
    uri = log_uri(bucket, org_id, task_id, ended.attempt)
    size = await asyncio.to_thread(store.size, uri)
    if size is None:
        raise _no_log(task_id, attempts, ended.attempt)
    return size, _parts(store, uri, size)


def _parts(store: ObjectStore, uri: str, size: int) -> Iterator[bytes]:
    """As many bytes as were promised: a worker may leave more of a log in the meantime."""
    filesystem, path = store.filesystem(uri)
    with filesystem.open_input_file(path) as file:
        while size > 0:
            part = file.read(min(size, PART_BYTES))
            if not part:
                return
            size -= len(part)
            yield part


async def _find(
    state: Database, org_id: UUID, task_id: UUID, attempt: int | None
) -> tuple[AttemptRow, list[AttemptRow]]:
    """The attempt, and all of its task."""
    async with overview.snapshot(state) as tx:
        task = await find_task(tx, org_id, task_id)
        attempts = await tasks.attempts_of(tx, task_id)
    wanted = task.attempt if attempt is None else attempt
    found = next((each for each in attempts if each.attempt == wanted), None)
    if found is None:
        raise NotFound(_no_attempt(task, attempt), hint=_with_logs(attempts))
    return found, attempts


def _no_log(task_id: UUID, attempts: list[AttemptRow], wanted: int) -> NotFound:
    return NotFound(
        f"attempt {wanted} of task {task_id} has no log", hint=_why_none(attempts, wanted)
    )


def _read(store: ObjectStore, uri: str) -> bytes | None:
    size = store.size(uri)
    if size is None:
        return None
    if size > MAX_BYTES:
        raise Conflict(f"the log is too large to show: {size:,} bytes", hint=f"it lies at {uri}")
    return store.get(uri)


def _lines(body: bytes) -> list[dict[str, Any]]:
    return [_line(text) for text in body.decode(errors="replace").splitlines() if text.strip()]


def _line(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text) if _is_shallow(text) else None
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"event": text}


def _is_shallow(text: str) -> bool:
    """No answer can carry objects that are nested without end."""
    return text.count("{") + text.count("[") <= MAX_BRACKETS


def _no_attempt(task: TaskNow, attempt: int | None) -> str:
    if not task.attempt:
        return f"task {task.task_id} has not started yet: there is nothing to read"
    return f"task {task.task_id} has no attempt {attempt}: its newest is {task.attempt}"


def _why_none(attempts: list[AttemptRow], wanted: int) -> str:
    if any(each.attempt == wanted and each.ended_at is None for each in attempts):
        return "it still runs: its lines are kept from time to time, and when it ends"
    return _with_logs(attempts) or "its operator said nothing; trace logs worker has the rest"


def _with_logs(attempts: list[AttemptRow]) -> str | None:
    logs = [str(each.attempt) for each in attempts if each.has_log]
    return f"attempts with a log: {', '.join(logs)}" if logs else None
