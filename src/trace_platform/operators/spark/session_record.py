"""What Spark of a worker is doing, in a file beside its logs: for those who look from outside."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from trace_platform.operators.spark.private_folder import make_private


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that runs has an application; one that could not start has an error."""

    master: str
    pid: int | None = None  # of its JVM
    application: str | None = None
    error: str | None = None


def write_session_record(scratch: Path, record: SessionRecord) -> None:
    make_private(scratch)
    partial = _file(scratch).with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(asdict(record)))
    partial.replace(_file(scratch))


def clear_session_record(scratch: Path) -> None:
    _file(scratch).unlink(missing_ok=True)


def read_session_record(scratch: Path) -> SessionRecord | None:
    """The one of a session that lives, or of a start that failed; else None."""
    try:
        record = SessionRecord(**json.loads(_file(scratch).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return record if record.error or _lives(record.pid) else None


def _lives(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _file(scratch: Path) -> Path:
    return scratch / "session.json"
