"""Become an unprivileged user, then run a command: Postgres refuses to run as root.

Run as a script by path (`python -I -S drop_root.py WAY UID GID FOLDER COMMAND...`), so it needs
nothing but the standard library and starts in a few milliseconds. WAY is one of

same       stay who we are
account    change to UID and GID for good
namespace  enter a user namespace where our own files belong to UID and GID: the way out when a
           parent folder lets nobody but root through
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")


def enter_account(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def enter_namespace(uid: int, gid: int) -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    # The kernel accepts a gid map from an ordinary process only after this.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outer_gid} 1")


def main(arguments: list[str]) -> None:
    way, uid, gid, folder, *command = arguments
    if way == "account":
        enter_account(int(uid), int(gid))
    elif way == "namespace":
        enter_namespace(int(uid), int(gid))
    os.umask(0o077)
    os.chdir(folder)
    # No PG* variable may bend the server, and none of our secrets belongs in its environment.
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    os.execve(command[0], command, {**kept, "LC_ALL": "C", "TZ": "UTC"})  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
