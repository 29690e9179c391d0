"""The third layer: what the kernel takes away from a query child, for good.

All of it is done before the first database is opened, since a Landlock domain reaches only the
threads that start after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import resource
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
# The same numbers on every architecture that Landlock runs on.
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION = 1
_READ_FILE_AND_DIR = 0b1100
_TCP_BIND_AND_CONNECT = 0b11
# How many file-access rights each Landlock version knows.
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_FS_RIGHTS_NEWEST = 16


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64), ("handled_access_net", ctypes.c_uint64))


def confine() -> bool:
    """Die with the parent; write no file, run no program, open no connection.

    False where the kernel has no Landlock: the process limits still hold there.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with contextlib.suppress(AttributeError):  # no prctl outside Linux
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return _deny_writes_and_network(libc)


def _deny_writes_and_network(libc: ctypes.CDLL) -> bool:
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION)
    if version < 1:
        return False
    rights = (1 << _FS_RIGHTS.get(version, _FS_RIGHTS_NEWEST)) - 1
    # Handled without a single rule means denied everywhere.
    rules = _Ruleset(rights & ~_READ_FILE_AND_DIR, _TCP_BIND_AND_CONNECT if version >= 4 else 0)
    size = ctypes.sizeof(rules) if version >= 4 else ctypes.sizeof(ctypes.c_uint64)
    ruleset = libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(rules), size, 0)
    return bool(ruleset >= 0 and libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0)


def limit_memory(extra_mb: int) -> None:
    """Allow this much address space beyond what the warm process has mapped.

    DuckDB's own limit misses some allocations (a huge string, a huge list); this one does not.
    """
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    ceiling = mapped + (extra_mb << 20)
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))


def limit_cpu(seconds: float) -> None:
    """End the process when it uses this much more CPU time, even if nobody watches it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds) + 1, hard))
