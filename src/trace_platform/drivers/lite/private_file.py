"""Files that only their owner reads, whatever the umask, and folders that several change."""

from __future__ import annotations

import errno
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite.file_lock import locked


def alone_in(folder: Path) -> AbstractContextManager[None]:
    """Wait for everybody else who changes this folder. The lock ends with the process."""
    return locked(folder)


def append_private(path: Path) -> BinaryIO:
    """For what is written line by line, such as a log. Raise SetupError when it is a link: what is
    written must not go where somebody else has led it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        return open(os.open(path, flags, 0o600), "ab")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise SetupError(
            f"{path} is a link, and nothing is written there", hint="remove it"
        ) from None


def write_private(path: Path, content: bytes) -> None:
    """It appears whole or not at all. Call it `alone_in` the folder."""
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
