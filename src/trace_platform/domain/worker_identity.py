"""Who a worker is, over all its restarts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Only one worker at a time has this name; each that starts with it counts one further."""

    name: str
    incarnation: int
    pid: int

    def __str__(self) -> str:
        """The worker's id. The Dispatcher reads the name and the incarnation out of it again
        (`abandoned_leases` in tasks.sql)."""
        return f"{self.name}#{self.incarnation}/{self.pid}"
