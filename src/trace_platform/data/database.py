"""Postgres data, as a role reaches it."""

from __future__ import annotations

from dataclasses import dataclass, field

from psycopg.conninfo import make_conninfo

from trace_platform.drivers.secret_file import SecretFile


@dataclass(frozen=True, slots=True)
class DataDatabase:
    """Picklable: Spark's executors get a copy, in which the password is the name of a file."""

    # Who gives the password here instead keeps it away from Spark.
    dsn: str = field(repr=False)
    password: SecretFile | None = field(default=None, kw_only=True)
    # On whose behalf: whoever is alerted wants to know.
    dag: str | None = None
    job: str | None = None

    def conninfo(self) -> str:
        """What a driver connects with, password included: never log it, never keep it, never put
        it in an error or into a plan."""
        return make_conninfo(self.dsn, password=self.password.read()) if self.password else self.dsn
