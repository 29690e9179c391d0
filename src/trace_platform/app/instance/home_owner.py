"""A home that somebody else made, or put something into, is not used."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trace_platform.domain.accounts import HOME_GROUP, POSTGRES, QUERY
from trace_platform.domain.errors import SetupError


def refuse_strangers(root: Path, content: tuple[str, ...]) -> None:
    """Before anything in it is read: its settings name programs to run, its secrets open it, and
    what is written to it goes where its links lead. Root is nobody's stranger. What others could
    not have put where it is, they did not: `postgres` may be any user's there."""
    planted = _is_open_to_writers(root)
    for path in _looked_at(root, content):
        allowed = {0, os.geteuid()}
        if path == root / "postgres":
            if not planted:
                continue
            allowed |= {POSTGRES}
        for owner in _owners(path):
            if owner not in allowed:
                raise _strangers(root, path, owner)


def _looked_at(root: Path, content: tuple[str, ...]) -> Iterator[Path]:
    """The home, its parts, and all that is in folders which others may write to."""
    yield root
    for part in (root / name for name in content):
        yield part
        if part.name != "postgres" and _is_open_to_writers(part):
            for folder, folders, files in os.walk(part):
                yield from (Path(folder, name) for name in (*folders, *files))


def _owners(path: Path) -> set[int]:
    """Of a link also whose it leads to."""
    found = set()
    for look in (os.lstat, os.stat):
        try:
            found.add(look(path).st_uid)
        except OSError:
            break  # nothing is there, or we may not look
    return found


def _is_open_to_writers(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    # Groups of our own hold nobody but Postgres and the processes of queries.
    others = 0o002 if found.st_gid in (HOME_GROUP, QUERY) else 0o022
    return stat.S_ISDIR(found.st_mode) and bool(found.st_mode & others)


def _strangers(root: Path, path: Path, owner: int) -> SetupError:
    who = f"uid {owner}"
    with suppress(KeyError):
        who = pwd.getpwuid(owner).pw_name
    return SetupError(
        f"{path} belongs to another user ({who}), and what is in it is not trusted",
        hint=f"choose another --home; if {root} is yours, become {who} or change its owner (chown)",
    )
