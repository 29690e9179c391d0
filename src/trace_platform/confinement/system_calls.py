"""System calls that a query child never makes, refused by the kernel (seccomp).

What DuckDB and Arrow need stays: files, memory, threads. Gone are programs and other processes,
sockets, links and owners of files, namespaces and mounts, and the doors of the kernel that exploits
come through.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_CLONE_THREAD = 0x10000
# Anything younger is unknown to this list, and answered as a kernel of its age would.
_NEWEST = 451

# Name, then its number on x86_64 and on aarch64.
_REFUSED = """
    execve 59 221, execveat 322 281, fork 57 -, vfork 58 -, ptrace 101 117, kcmp 312 272,
    process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440,
    process_mrelease 448 448, pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424,
    kill 62 129, tkill 200 130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,

    socket 41 198, socketpair 53 199, connect 42 203, bind 49 200, listen 50 201, accept 43 202,
    accept4 288 242, sendto 44 206, sendmsg 46 211, sendmmsg 307 269, recvfrom 45 207,
    recvmsg 47 212, recvmmsg 299 243,

    symlink 88 -, symlinkat 266 36, link 86 -, linkat 265 37, mknod 133 -, mknodat 259 33,
    chmod 90 -, fchmod 91 52, fchmodat 268 53, chown 92 -, lchown 94 -, fchown 93 55,
    fchownat 260 54, truncate 76 45, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15,
    fremovexattr 199 16, name_to_handle_at 303 264, open_by_handle_at 304 265,
    fanotify_init 300 262, fanotify_mark 301 263, inotify_init 253 -, inotify_init1 294 26,
    inotify_add_watch 254 27, quotactl 179 60, quotactl_fd 443 443,

    setuid 105 146, setgid 106 144, setreuid 113 145, setregid 114 143, setresuid 117 147,
    setresgid 119 149, setgroups 116 159, setfsuid 122 151, setfsgid 123 152, capset 126 91,

    mount 165 40, umount2 166 39, move_mount 429 429, open_tree 428 428, fsopen 430 430,
    fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, unshare 272 97,
    setns 308 268, chroot 161 51, pivot_root 155 41,

    bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, io_uring_setup 425 425,
    io_uring_enter 426 426, io_uring_register 427 427, io_setup 206 0, io_submit 209 2,
    memfd_create 319 279, memfd_secret 447 447, add_key 248 217, request_key 249 218,
    keyctl 250 219, shmget 29 194, shmat 30 196, shmctl 31 195, msgget 68 186, msgsnd 69 189,
    msgrcv 70 188, msgctl 71 187, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192,
    mq_open 240 180, mq_unlink 241 181, move_pages 279 239, migrate_pages 256 238,

    init_module 175 105, finit_module 313 273, delete_module 176 106, kexec_load 246 104,
    kexec_file_load 320 294, reboot 169 142, swapon 167 224, swapoff 168 225, acct 163 89,
    syslog 103 116, sethostname 170 161, setdomainname 171 162, settimeofday 164 170,
    clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266, iopl 172 -, ioperm 173 -,
    modify_ldt 154 -, personality 135 92, vhangup 153 58
"""


@dataclass(frozen=True)
class Machine:
    """An architecture: how the kernel names it, and its numbers of the calls."""

    audit_name: int
    seccomp: int
    clone: int
    clone3: int
    tgkill: int
    prlimit: int
    column: int


MACHINES = {
    "x86_64": Machine(0xC000003E, 317, 56, 435, 234, 302, 0),
    "aarch64": Machine(0xC00000B7, 277, 220, 435, 131, 261, 1),
}

_LOAD, _EQUAL, _GREATER, _HAS_BITS, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse(libc: ctypes.CDLL) -> bool:
    """For every thread of this process, for good; False where it cannot be had.

    Needs no_new_privs.
    """
    machine = MACHINES.get(os.uname().machine)
    if machine is None or sys.maxsize < 2**32 or sys.byteorder != "little":
        return False
    code = program(machine, os.getpid())
    filter_ = _Program(len(code) // 8, code)
    result = libc.syscall(machine.seccomp, _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(filter_))
    return bool(result == 0)


def refused(machine: Machine) -> dict[str, int]:
    """The calls that fail whatever their arguments are."""
    rows = (entry.split() for entry in _REFUSED.split(","))
    return {name: int(n[machine.column]) for name, *n in rows if n[machine.column] != "-"}


def program(machine: Machine, pid: int) -> bytes:
    """The filter, in the kernel's byte code."""
    return b"".join(struct.pack("HBBI", *step) for step in _steps(machine, pid))


Step = tuple[int, int, int, int]


def _steps(machine: Machine, pid: int) -> Iterator[Step]:
    """Code, how many steps to skip if true and if false, operand."""
    denied, unknown = _FAIL | errno.EPERM, _FAIL | errno.ENOSYS
    yield (_LOAD, 0, 0, _MACHINE)
    yield from _when(_EQUAL, machine.audit_name, otherwise=_KILL)
    yield (_LOAD, 0, 0, _NUMBER)
    # Among them all of x32, whose numbers begin at 2**30.
    yield from _when(_GREATER, _NEWEST, then=unknown)
    # The C library falls back to clone, whose flags can be seen.
    yield from _when(_EQUAL, machine.clone3, then=unknown)
    for number in refused(machine).values():
        yield from _when(_EQUAL, number, then=denied)
    # A thread, and no process; a signal to itself (abort), and its own limits.
    for number, test, operand in (
        (machine.clone, _HAS_BITS, _CLONE_THREAD),
        (machine.tgkill, _EQUAL, pid),
        (machine.prlimit, _EQUAL, 0),
    ):
        yield (_EQUAL, 0, 4, number)
        yield (_LOAD, 0, 0, _FIRST_ARGUMENT)
        yield from _when(test, operand, then=_ALLOW)
        yield (_RETURN, 0, 0, denied)
    yield (_RETURN, 0, 0, _ALLOW)


def _when(
    test: int, operand: int, *, then: int | None = None, otherwise: int | None = None
) -> Iterator[Step]:
    """Return one of the two, or go on."""
    if then is not None:
        yield (test, 0, 1, operand)
        yield (_RETURN, 0, 0, then)
    if otherwise is not None:
        yield (test, 1, 0, operand)
        yield (_RETURN, 0, 0, otherwise)
