"""Which files a process can open, decided by the kernel whatever user it runs as (Landlock)."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence

# The same numbers on every architecture that Landlock runs on.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_TRUNCATE = 1 << 14
_READ = _READ_FILE | _READ_DIR
# No links, sockets, pipes or devices; no program is run from there, or from anywhere.
_WRITE = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_FILE | _TRUNCATE
_OF_A_FILE = _WRITE_FILE | _READ_FILE | _TRUNCATE

# How many file-access rights each version of Landlock knows.
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_FS_RIGHTS_NEWEST = 16
_TCP_BIND_AND_CONNECT = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def restrict(libc: ctypes.CDLL, readable: Sequence[str], writable: Sequence[str]) -> bool:
    """Open nothing but what is below these, no connection, and signal no other process.

    Holds for this thread and those that it starts. False where the kernel has no Landlock. What
    does not exist yet is not allowed later either. Needs no_new_privs.
    """
    version = libc.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    if version < 1:
        return False
    handled = (1 << _FS_RIGHTS.get(version, _FS_RIGHTS_NEWEST)) - 1
    # Handled and granted by no rule means denied.
    rules = _Ruleset(handled, _TCP_BIND_AND_CONNECT, _ABSTRACT_SOCKETS_AND_SIGNALS)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), size, 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow(libc, ruleset, path, _READ)
        for path in writable:
            _allow(libc, ruleset, path, (_READ | _WRITE) & handled)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        access &= _OF_A_FILE
    rule = _PathBeneath(access, place)
    libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    # Left open in /proc: the kernel forgets unused entries of it, and with them the rule.
    if not path.startswith("/proc/"):
        os.close(place)
