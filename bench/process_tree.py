"""CPU seconds: of a process with everything it started, and of the whole machine."""

from __future__ import annotations

import contextlib

import psutil


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and its descendants, the ended ones included: those
    are in the account of the parent that waited for them. Take the difference of two calls."""
    root = psutil.Process(pid)
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def machine_cpu_seconds() -> float:
    """Of everything that runs here. What the measured processes did not use, others did."""
    times = psutil.cpu_times()
    idle = times.idle + times.iowait
    return float(sum(times) - idle - times.guest - times.guest_nice)  # guests are in user
