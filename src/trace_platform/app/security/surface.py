"""What an instance shows to others: its ports, the modes of its files, the rights of its roles.

Read from one that runs. docs/security.md has the same tables, and a test compares the two: a port,
a file or a grant that nobody described is noticed.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg.rows import dict_row

from trace_platform.app.instance.close_home import lets_in
from trace_platform.app.instance.home import Home
from trace_platform.app.security.instance_processes import instance_processes

_RIGHTS = Path(__file__).with_name("rights.sql")


@dataclass(frozen=True, slots=True, order=True)
class Port:
    part: str
    program: str
    address: str
    count: int


@dataclass(frozen=True, slots=True, order=True)
class Mode:
    name: str
    mode: str


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """What a role may do in a database, and with what."""

    role: str
    database: str
    rights: str
    objects: str


def ports(home: Home) -> list[Port]:
    """Where something listens, by who does."""
    found: Counter[tuple[str, str, str]] = Counter()
    for each in instance_processes(home):
        try:
            listening = each.process.net_connections("inet")
        except psutil.Error:
            continue  # it ended, or is another user's
        for one in listening:
            if one.status == psutil.CONN_LISTEN:
                found[each.part, each.program, one.laddr[0]] += 1
    return sorted(Port(*who, count) for who, count in found.items())


def modes(home: Home) -> list[Mode]:
    """Of the home and what is directly in it."""
    inside = sorted(home.root.iterdir())
    return [_mode(home.root, "."), *(_mode(path, path.name) for path in inside)]


def open_paths(home: Home) -> Iterator[Path]:
    """What others can read, write or enter. What lies in a folder that keeps them out is not."""
    if not _is_open(home.root):
        return
    yield home.root
    for folder, inside, files in os.walk(home.root):
        inside[:] = [name for name in inside if _is_open(Path(folder, name))]
        yield from (Path(folder, name) for name in inside)
        yield from (path for name in files if _is_open(path := Path(folder, name)))


def _is_open(path: Path) -> bool:
    try:
        return lets_in(path.lstat())
    except OSError:
        return False  # it went meanwhile


def _mode(path: Path, name: str) -> Mode:
    found = path.lstat()
    folder = "/" if stat.S_ISDIR(found.st_mode) else ""
    return Mode(f"{name}{folder}", f"{stat.S_IMODE(found.st_mode):04o}")


def rights(dsn: str) -> list[Right]:
    """Of all of Trace's roles in one database. Tables are named as in the migrations; those that
    are made for a dataset count as one."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        database = connection.info.dbname
        rows: list[dict[str, Any]] = connection.execute(_RIGHTS.read_bytes()).fetchall()
    return sorted(Right(r["role"], database, r["rights"], r["objects"]) for r in rows)
