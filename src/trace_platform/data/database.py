"""Postgres data, as a role reaches it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DataDatabase:
    """Picklable: Spark's executors get a copy. The connection string holds a password: never log
    it, never put it in an error or into a plan."""

    dsn: str = field(repr=False)
    # On whose behalf: whoever is alerted wants to know.
    dag: str | None = None
    job: str | None = None
