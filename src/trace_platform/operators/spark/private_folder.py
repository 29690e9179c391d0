"""Folders of Spark's that nobody else on the machine can look into."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

# A Unix socket's path holds 107 bytes, and Spark adds a name of 42 to the folder.
_MAX_SOCKET_FOLDER = 60


def make_private(folder: Path) -> None:
    """Only its owner can enter it, whatever the umask is, and whoever has made it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)


def make_socket_folder(scratch: Path) -> Path:
    """An empty private folder with a path short enough for sockets.

    It is `scratch/sockets`. Where that is too long it has a name in the temporary folder that
    nobody can guess, and so prepare something there, and `scratch/sockets` is a link to it: the
    next start finds and clears what a killed process left.
    """
    remove_socket_folder(scratch)
    place = _place(scratch)
    if len(str(place)) < _MAX_SOCKET_FOLDER:
        place.mkdir(mode=0o700)
        return place
    short = Path(tempfile.mkdtemp(prefix="trace-"))
    place.symlink_to(short)
    return short


def remove_socket_folder(scratch: Path) -> None:
    """Python workers that are on their way out may be removing their own sockets meanwhile."""
    place = _place(scratch)
    if place.is_symlink():
        short = place.readlink()
        if _is_own_folder(short):
            shutil.rmtree(short, ignore_errors=True)
        place.unlink()
    else:
        shutil.rmtree(place, ignore_errors=True)


def _place(scratch: Path) -> Path:
    return scratch / "sockets"


def _is_own_folder(path: Path) -> bool:
    """Once the folder is gone, its name in the temporary folder is anybody's."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
