"""Give up root: another user where that one can still do the work, and no capability in any case.

A root without capabilities is bound by the permissions of files like everyone else.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

# Linux's own "nobody": owns no file that matters, on every machine.
NOBODY = 65534

_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64
_OTHERS_ENTER, _OTHERS_READ = 0o001, 0o004


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop(libc: ctypes.CDLL, needed: Iterable[str], scratch: str) -> list[str]:
    """What was achieved: "user", "capabilities".

    `needed` are the folders that have to stay readable; `scratch` is handed over.
    """
    for capability in range(_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    changed = os.geteuid() == 0 and _for_everyone(needed, scratch) and _become_nobody(scratch)
    return ["user"] * changed + ["capabilities"] * _forget_capabilities(libc)


def _become_nobody(scratch: str) -> bool:
    try:
        os.chown(scratch, NOBODY, NOBODY)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:
        return False
    return True


def _forget_capabilities(libc: ctypes.CDLL) -> bool:
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    none = (ctypes.c_uint32 * 6)()
    header = _Header(_CAPABILITY_VERSION_3, 0)
    return bool(libc.capset(ctypes.byref(header), ctypes.byref(none)) == 0)


def _for_everyone(needed: Iterable[str], scratch: str) -> bool:
    """Could any user of the machine read these folders, and come as far as `scratch`?"""
    # Files that are written later: with the same mask as this process has.
    mask = os.umask(0o077)
    os.umask(mask)
    if mask & _OTHERS_READ:
        return False
    try:
        return _entered(os.path.dirname(os.path.realpath(scratch))) and all(
            _entered(path) and os.stat(path).st_mode & _OTHERS_READ
            for path in map(os.path.realpath, needed)
        )
    except OSError:
        return False


def _entered(path: str) -> bool:
    return all(each.stat().st_mode & _OTHERS_ENTER for each in (Path(path), *Path(path).parents))
