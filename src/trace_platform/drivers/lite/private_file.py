"""Files that only their owner reads, and folders that several processes change."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait for everybody else who changes this folder. The lock ends with the process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_private(path: Path, content: bytes) -> None:
    """A file for its owner alone; it appears whole or not at all. Call it `alone_in` the folder."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)  # of a writer that was killed
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        give_to_owner_of(path.parent, partial)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def give_to_owner_of(folder: Path, path: Path) -> None:
    """What root makes must not lock out the user who runs the instance."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
