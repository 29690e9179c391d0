"""The third layer: what the kernel takes away from a query child, for good.

Each part holds without the others, and one that a kernel does not have is left out.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import sys
from collections.abc import Sequence

from trace_platform.confinement import landlock, privileges, system_calls

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_OPEN_FILES = 4096

# Libraries, time zones, and what allocators and thread pools ask of the machine.
_SYSTEM_FILES = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/urandom",
    "/proc/self/statm",
    "/proc/self/cgroup",
    "/proc/sys/vm/overcommit_memory",
    "/sys/kernel/mm/transparent_hugepage",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
)
_NOTHING = "/dev/null"


def confine(readable: Sequence[str], scratch: str) -> list[str]:
    """Die with the parent; read files below `readable`, write files below `scratch`, and nothing
    else: no other file, no program, no connection, no other process.

    Call it once, before there is a second thread: Landlock and capabilities belong to a thread.
    Returns what holds for the whole process: "user", "capabilities", "landlock", "seccomp".
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if sys.platform != "linux":
        return []
    alone = len(os.listdir("/proc/self/task")) == 1
    libc = ctypes.CDLL(None, use_errno=True)
    python = _python_folders()
    dropped = privileges.drop(libc, [*readable, *python], scratch)
    # Only now: a change of the user clears the first of them.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    files_held = landlock.restrict(libc, [*readable, *python, *_SYSTEM_FILES], [scratch, _NOTHING])
    # Last: it refuses what the others need.
    calls_held = system_calls.refuse(libc)
    held = [*dropped, *["landlock"] * files_held, *["seccomp"] * calls_held]
    return held if alone else [name for name in held if name in ("user", "seccomp")]


def _python_folders() -> list[str]:
    """Where modules and their libraries come from."""
    folders = [path for path in sys.path if os.path.isabs(path) and os.path.isdir(path)]
    return [*folders, os.path.join(sys.base_prefix, "lib")]


def limit_files(spill_mb: int) -> None:
    """No single file may grow larger."""
    size = spill_mb << 20
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def limit_memory(extra_mb: int) -> None:
    """Allow this much memory beyond what the warm process has: of address space, and of pages that
    it may write to, because the heaps of its threads have reserved more than they use yet.

    DuckDB's own limit misses some allocations (a huge string, a huge list); these do not.
    """
    for limit, used in _memory_used().items():
        ceiling = used + (extra_mb << 20)
        resource.setrlimit(limit, (ceiling, ceiling))


def memory_left_mb() -> int:
    """Memory that can still be asked for. What was freed is not always given back."""
    left = [resource.getrlimit(limit)[0] - used for limit, used in _memory_used().items()]
    return min(left) >> 20


def _memory_used() -> dict[int, int]:
    """In bytes, by the limit that counts it."""
    with open("/proc/self/statm") as file:
        pages = [int(each) for each in file.read().split()]
    size = resource.getpagesize()
    return {resource.RLIMIT_AS: pages[0] * size, resource.RLIMIT_DATA: pages[5] * size}


def limit_cpu(seconds: float) -> None:
    """End the process when it uses this much more CPU time, even if nobody watches it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds) + 1, hard))
