"""Ready marks: a process says with a file that it serves."""

from __future__ import annotations

import fcntl
import os

from trace_platform.app.instance.home import Home


def mark_ready(home: Home, name: str, pid: int | None = None) -> None:
    """Call it once the process accepts work. The supervisor waits for the mark."""
    mark = home.run / f"{name}.ready"
    partial = mark.with_name(f".{mark.name}.{os.getpid()}")
    partial.write_text(str(pid or os.getpid()))
    if pid is None:
        # Left open: held as long as this process lives, by which clients see that it serves here,
        # and not where a copy of this directory says.
        fcntl.flock(os.open(partial, os.O_RDONLY), fcntl.LOCK_EX)
    partial.replace(mark)


def clear_ready(home: Home, name: str) -> None:
    (home.run / f"{name}.ready").unlink(missing_ok=True)


def is_ready(home: Home, name: str, pid: int) -> bool:
    """Whether that very process is ready; the mark of one that died before it does not count."""
    try:
        return (home.root / "run" / f"{name}.ready").read_text() == str(pid)
    except FileNotFoundError:
        return False
