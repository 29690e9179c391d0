"""A file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

# What lies there was opened by another: `/dev/stderr` is a file where it was redirected to one.
_STREAMS = ("/dev", "/dev/fd", "/proc/self/fd")
# Of a folder that takes no other file, though one in it may be written.
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Written beside, and renamed when the block ends well: a reader sees the old or the new. One
    that takes the place of another has its owner and its mode, and is never open to more."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        there = None
    if there is not None and (not stat.S_ISREG(there.st_mode) or _is_stream(path)):
        with open(path, "ab") as stream:  # a pipe or a device has no whole
            yield stream
        return
    # Where a link points, and not the link, is what its owner wants written.
    target = Path(os.path.realpath(path))
    # Of its own: others may write the same file now. Short: the target's name may be as long as a
    # name can be.
    partial = target.with_name(f".trace-{uuid4().hex}.partial")
    try:
        with _opened(target, partial, there) as file:
            yield file
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _is_stream(path: str | os.PathLike[str]) -> bool:
    return os.path.dirname(os.path.abspath(path)) in _STREAMS


def _opened(
    target: Path, partial: Path, there: os.stat_result | None
) -> contextlib.AbstractContextManager[BinaryIO]:
    try:
        return _renamed(_created(partial, there), partial, target)
    except OSError as error:
        if there is None or error.errno not in _CLOSED:
            raise
        return _in_place(target)


@contextlib.contextmanager
def _renamed(file: BinaryIO, partial: Path, target: Path) -> Iterator[BinaryIO]:
    with file:
        yield file
        _settle(file)
    partial.replace(target)


def _created(partial: Path, there: os.stat_result | None) -> BinaryIO:
    """A new file obeys the umask. One for the place of another is its owner's alone at first."""
    mode = 0o666 if there is None else stat.S_IMODE(there.st_mode) & 0o700
    file = open(partial, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
    if there is not None:
        _make_like(file.fileno(), there)
    return file


def _make_like(descriptor: int, there: os.stat_result) -> None:
    mode = stat.S_IMODE(there.st_mode)
    try:
        os.fchown(descriptor, there.st_uid, there.st_gid)
    except PermissionError:
        mode &= ~stat.S_IRWXG  # what its group might do is not for another group
    os.fchmod(descriptor, mode)


@contextlib.contextmanager
def _in_place(target: Path) -> Iterator[BinaryIO]:
    """The bytes wait elsewhere until all of them are there."""
    with open(target, "r+b") as file, tempfile.TemporaryFile() as waiting:
        yield waiting
        waiting.seek(0)
        file.truncate()
        shutil.copyfileobj(waiting, file)
        _settle(file)


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
