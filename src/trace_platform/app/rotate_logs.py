"""No log of an instance grows without end, whatever strangers make its processes say."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

_EVERY_S = 5.0


@contextmanager
def rotating(folder: Path) -> Iterator[None]:
    """While the block runs, and once before."""
    rotate_all(folder)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            rotate_all(folder)

    watching = threading.Thread(target=watch, name="logs", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def rotate_all(folder: Path, max_bytes: int = 20_000_000, keep: int = 3) -> None:
    """Copy each log that grew large aside, and empty it: NAME.jsonl.1 is the newest of the old
    ones. Its writers append, and go on; what they write between the two is lost."""
    for path in folder.glob("*.jsonl"):
        try:
            if path.stat().st_size >= max_bytes:
                _rotate(path, keep)
        except OSError as error:
            log.warning("log_not_rotated", path=str(path), reason=error.strerror)


def _rotate(path: Path, keep: int) -> None:
    old = [path.with_name(f"{path.name}.{number}") for number in range(1, keep + 1)]
    for newer, older in reversed(list(pairwise(old))):
        if newer.exists():
            newer.replace(older)
    shutil.copyfile(path, old[0])
    os.truncate(path, 0)
