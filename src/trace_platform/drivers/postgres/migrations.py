"""Numbered SQL files, applied in order, each in one transaction, once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import psycopg

from trace_platform.domain.errors import SetupError

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
# Any number will do, as long as every starter takes the same.
_LOCK = 7_726_163_101
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    sha256     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrate(dsn: str, folder: Path) -> list[str]:
    """Bring the database up to the folder. Returns what was applied; safe with two starters."""
    wanted = read_migrations(folder)
    with psycopg.connect(dsn, autocommit=True) as connection:
        # Let go with the connection, whatever happens in between.
        connection.execute("SET lock_timeout = '120s'")
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        connection.execute(_LEDGER)
        done = _check_applied(connection, wanted)
        pending = wanted[done:]
        for migration in pending:
            _apply(connection, migration)
    return [migration.name for migration in pending]


def read_migrations(folder: Path) -> list[Migration]:
    found = [_read(path) for path in sorted(folder.glob("*.sql"))]
    versions = [migration.version for migration in found]
    if versions != list(range(1, len(found) + 1)):
        raise SetupError(f"{folder}: migrations must be numbered 0001, 0002, ... without a gap")
    return found


def _read(path: Path) -> Migration:
    matched = _NAME.fullmatch(path.name)
    if matched is None:
        raise SetupError(f"{path}: a migration is named NNNN_what_it_does.sql")
    return Migration(int(matched[1]), path.stem, path.read_text())


def _check_applied(connection: psycopg.Connection, wanted: list[Migration]) -> int:
    """How many of `wanted` are in the database: the first so many, unchanged, and no others."""
    query = "SELECT version, name, sha256 FROM schema_migrations ORDER BY version"
    applied = connection.execute(query).fetchall()
    if len(applied) > len(wanted):
        raise SetupError(
            f"the database has {len(applied)} migrations, this version of Trace only {len(wanted)}",
            hint="a newer Trace prepared it: run that one",
        )
    for (version, name, sha256), migration in zip(applied, wanted, strict=False):
        if (version, sha256) != (migration.version, migration.sha256):
            raise SetupError(
                f"migration {name} was applied to the database and changed since",
                hint="restore the file, and put the change into a new migration",
            )
    return len(applied)


def _apply(connection: psycopg.Connection, migration: Migration) -> None:
    record = "INSERT INTO schema_migrations (version, name, sha256) VALUES (%s, %s, %s)"
    try:
        with connection.transaction():
            connection.execute(migration.sql)
            connection.execute(record, (migration.version, migration.name, migration.sha256))
    except psycopg.Error as error:
        where = _line_of(migration.sql, error.diag.statement_position)
        raise SetupError(
            f"migration {migration.name}{where} failed: {error.diag.message_primary or error}"
        ) from error


def _line_of(sql: str, position: str | None) -> str:
    return f" line {sql.count(chr(10), 0, int(position) - 1) + 1}" if position else ""
