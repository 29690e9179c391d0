"""Give up root: another user where that one can still do the work, and no capability in any case.

A root without capabilities is bound by the permissions of files like everyone else: what belongs to
Postgres's user is closed to it too.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from trace_platform.domain.accounts import HOME_GROUP, QUERY

_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64
_ENTER, _READ = 1, 4


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop(libc: ctypes.CDLL, needed: Iterable[str], scratch: str) -> list[str]:
    """What was achieved: "user", "capabilities".

    `needed` are the folders that have to stay readable, with what is made in them later: who makes
    it sees to that. `scratch` is handed over.
    """
    for capability in range(_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    changed = os.geteuid() == 0 and _is_enough(needed, scratch) and _change_user(scratch)
    return ["user"] * changed + ["capabilities"] * _forget_capabilities(libc)


def _change_user(scratch: str) -> bool:
    try:
        os.chown(scratch, QUERY, QUERY)
        os.setgroups([HOME_GROUP])
        os.setresgid(QUERY, QUERY, QUERY)
        os.setresuid(QUERY, QUERY, QUERY)
    except OSError:
        return False
    return True


def _forget_capabilities(libc: ctypes.CDLL) -> bool:
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    none = (ctypes.c_uint32 * 6)()
    header = _Header(_CAPABILITY_VERSION_3, 0)
    return bool(libc.capset(ctypes.byref(header), ctypes.byref(none)) == 0)


def _is_enough(needed: Iterable[str], scratch: str) -> bool:
    """Could that user read these folders, and come as far as `scratch`?"""
    try:
        return _entered(os.path.dirname(os.path.realpath(scratch))) and all(
            _entered(path) and _may(path, _READ) for path in map(os.path.realpath, needed)
        )
    except OSError:
        return False


def _entered(path: str) -> bool:
    return all(_may(each, _ENTER) for each in (path, *map(str, Path(path).parents)))


def _may(path: str, what: int) -> bool:
    found = os.stat(path)
    of_group = found.st_gid in (HOME_GROUP, QUERY)
    return bool(found.st_mode >> (3 if of_group else 0) & what)
