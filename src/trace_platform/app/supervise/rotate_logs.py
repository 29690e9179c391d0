"""No log of an instance grows without end, or is kept for ever, whatever its processes say."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

_EVERY_S = 5.0
_DAY_S = 86_400.0
# The first lines of a file in which its beginning is looked for: a crash's last words have no time.
_LINES_WITH_TIME = 20


@dataclass(frozen=True, slots=True)
class Rotation:
    """A log is moved aside when it is so large, or began so long ago; what was moved aside stays
    for so many days after its last line, and of one process so many bytes."""

    max_bytes: int = 20_000_000
    max_s: float = 7 * _DAY_S
    keep_s: float = 30 * _DAY_S
    keep_bytes: int = 60_000_000

    @classmethod
    def of(cls, keep_days: float, max_mb: float) -> Rotation:
        """A quarter of each is in the file that is written to."""
        total = int(max_mb * 1_000_000)
        return cls(total // 4, keep_days * _DAY_S / 4, keep_days * _DAY_S, total - total // 4)


@contextmanager
def rotating(folder: Path, rotation: Rotation) -> Iterator[None]:
    """While the block runs, and once before."""
    rotate_all(folder, rotation)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            rotate_all(folder, rotation)

    watching = threading.Thread(target=watch, name="logs", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def rotate_all(folder: Path, rotation: Rotation) -> None:
    """Copy each log that is due aside, and empty it: NAME.jsonl.1 is the newest of the old ones.
    Its writers append, and go on; what they write between the two is lost."""
    for path in folder.glob("*.jsonl"):
        try:
            if _is_due(path, rotation):
                _rotate(path)
        except OSError as error:
            log.warning("log_not_rotated", path=str(path), reason=error.strerror)
    for path in {each.with_suffix("") for each in folder.glob("*.jsonl.*")}:
        _forget(path, rotation)


def _is_due(path: Path, rotation: Rotation) -> bool:
    size = path.stat().st_size
    return size >= rotation.max_bytes or (size > 0 and _age_s(path) > rotation.max_s)


def _age_s(path: Path) -> float:
    """Of its first line that says when it was written."""
    with path.open("rb") as lines:
        for _, line in zip(range(_LINES_WITH_TIME), lines, strict=False):
            with suppress(ValueError, KeyError, TypeError):
                began = datetime.fromisoformat(json.loads(line)["timestamp"])
                return time.time() - began.timestamp()
    return 0.0


def _rotate(path: Path) -> None:
    for old in reversed(_old(path)):
        old.replace(path.with_name(f"{path.name}.{_number(old) + 1}"))
    shutil.copy2(path, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)


def _forget(path: Path, rotation: Rotation) -> None:
    """The oldest of what was moved aside."""
    held = 0
    for old in _old(path):
        with suppress(OSError):
            found = old.stat()
            held += found.st_size
            if held > rotation.keep_bytes or time.time() - found.st_mtime > rotation.keep_s:
                old.unlink()


def _old(path: Path) -> list[Path]:
    """The newest first."""
    found = (each for each in path.parent.glob(f"{path.name}.*") if each.suffix[1:].isdigit())
    return sorted(found, key=_number)


def _number(old: Path) -> int:
    return int(old.suffix[1:])
