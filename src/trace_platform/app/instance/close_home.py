"""A home is its owner's alone: what is there is closed to others, and so is what will be made.

As root, Postgres and the processes of queries are users of their own
(docs/adr/0014-who-runs-as-whom.md): their groups get in where they have to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trace_platform.app.instance.home import CONTENT, Home
from trace_platform.app.instance.home_owner import refuse_strangers
from trace_platform.domain.accounts import HOME_GROUP, QUERY

_OWN_GROUPS = (HOME_GROUP, QUERY)


@dataclass(frozen=True, slots=True)
class _Door:
    """What a folder lets its group do (setgid, read, write, enter), and which group that is."""

    granted: int = 0
    group: int | None = None

    def fits(self, found: os.stat_result) -> bool:
        owned = self.group is None or found.st_gid == self.group
        return owned and self.mode(found) == stat.S_IMODE(found.st_mode)

    def mode(self, found: os.stat_result) -> int:
        """Its owner keeps what there was. Files are no programs of the group's."""
        own = stat.S_IMODE(found.st_mode) & 0o700
        return own | (self.granted if stat.S_ISDIR(found.st_mode) else self.granted & 0o040)


_CLOSED = _Door()
_PASSED_BY_ALL = _Door(0o010, HOME_GROUP)
_PASSED_BY_QUERIES = _Door(0o010, QUERY)
# What is made in it belongs to the same group.
_READ_BY_QUERIES = _Door(stat.S_ISGID | 0o050, QUERY)


def close_home(home: Home, bucket: str) -> None:
    """Let others neither read, enter nor write it, also when an older version or a copy made it.

    What is below a folder is looked at once: the folder's own mode, set last, says that it was.
    What belongs to somebody else, or is no part of an instance, stays as it is.
    """
    objects, queries = home.objects, home.query
    datasets = home.folder(f"objects/{bucket}")
    # It may have been made by somebody else since it was looked at.
    refuse_strangers(home.root, CONTENT)
    as_root = os.geteuid() == 0
    if _is_nothing_else(home):
        _set(_real(home.root), _PASSED_BY_ALL if as_root else _CLOSED)
    for passed in (objects, queries):
        _set(_real(passed), _PASSED_BY_QUERIES if as_root else _CLOSED)
    _close(datasets, _READ_BY_QUERIES if as_root else _CLOSED)
    # Postgres looks after the modes of its own folder, and refuses any other.
    done = {objects, queries, datasets, home.postgres}
    for path in {*_parts(home), *objects.iterdir()} - done:
        _close(path, _CLOSED)


def open_places(home: Home) -> list[Path]:
    """The home and what is directly in it, as far as others can get in."""
    if not home.root.is_dir():
        return []
    places = [home.root, *_parts(home)] if _is_nothing_else(home) else _parts(home)
    return [path for path in places if lets_in(_real(path).lstat())]


@contextmanager
def private_files() -> Iterator[None]:
    """What this process and its children make is for its owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def set_umask(*, writes_datasets: bool) -> None:
    """For good. As root, the files of datasets are for the group of the queries' processes too."""
    os.umask(0o027 if writes_datasets and os.geteuid() == 0 else 0o077)


def lets_in(found: os.stat_result) -> bool:
    """Whether others may read, write or enter it. Groups of our own hold nobody but Postgres and
    the processes of queries."""
    others = 0o007 if found.st_gid in _OWN_GROUPS else 0o077
    return not stat.S_ISLNK(found.st_mode) and bool(found.st_mode & others)


def _parts(home: Home) -> list[Path]:
    return [path for path in home.root.iterdir() if _is_part(path)]


def _is_part(path: Path) -> bool:
    # With a dot: what is being written.
    return path.name in CONTENT or path.name.startswith(tuple(f".{name}." for name in CONTENT))


def _is_nothing_else(home: Home) -> bool:
    """Whoever gives a folder that has other things in it does not expect it to be locked."""
    return all(map(_is_part, home.root.iterdir()))


def _real(path: Path) -> Path:
    """Of a folder that its owner has put elsewhere, such as on a larger disk: that place."""
    own = path.is_symlink() and path.is_dir() and path.lstat().st_uid == os.geteuid()
    return path.resolve() if own else path


def _close(path: Path, door: _Door) -> None:
    path = _real(path)
    with suppress(OSError):  # gone meanwhile, or another user's
        if door.fits(path.lstat()):
            return
        # Bottom up, and by descriptors: a folder that was open to others may hold their links.
        for _, folders, files, descriptor in os.fwalk(path, topdown=False):
            for name in (*folders, *files):
                _set(name, door, descriptor)
    _set(path, door)


def _set(path: str | Path, door: _Door, folder: int | None = None) -> None:
    """Links and sockets are left out: what they are in is closed."""
    with suppress(OSError):
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            found = os.fstat(opened)
            if not door.fits(found):
                os.fchmod(opened, (door if _give(opened, door) else _CLOSED).mode(found))
        finally:
            os.close(opened)


def _give(opened: int, door: _Door) -> bool:
    """False where root may not do that, as in a container that has few capabilities."""
    try:
        if door.group is not None:
            os.fchown(opened, -1, door.group)
    except PermissionError:
        return False
    return True
