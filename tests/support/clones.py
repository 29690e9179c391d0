"""Databases that tests borrow: cloned from the migrated template, and emptied for the next test.

Emptying takes a hundredth of a clone's time. A database whose schema a test changed is dropped."""

from __future__ import annotations

import itertools
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from trace_platform.app.instance import databases

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

_numbers = itertools.count(1)
# Which transactions wrote the definitions of this database: DDL, GRANT and ALTER DATABASE show.
_SCHEMA = """
SELECT ARRAY[
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_class WHERE relpersistence <> 't'),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_attribute),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_proc),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_trigger),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_constraint),
  (SELECT (count(*), max(xmin::text::bigint))::text FROM pg_largeobject_metadata),
  (SELECT count(*)::text FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
    WHERE d.datname = current_database())
] AS schema
"""
_TABLES = """
SELECT format('%I.%I', schemaname, relname) FROM pg_stat_user_tables
 WHERE relname <> 'schema_migrations' ORDER BY 1
"""
_SEQUENCES = """
SELECT format('SELECT setval(%L, %s, %L)', format('%I.%I', schemaname, sequencename),
              coalesce(last_value, start_value), last_value IS NOT NULL)
  FROM pg_sequences ORDER BY 1
"""
# Who is still connected has outlived its test.
_DISCONNECT = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


@dataclass(frozen=True)
class Clone:
    name: str
    schema: list[str]
    # Gives every table the rows, and every sequence the value, that the template has.
    emptying: str


class Clones:
    """The databases of one server that nobody uses at the moment."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._free: dict[str, list[Clone]] = defaultdict(list)

    @contextmanager
    def lend(self, database: databases.Database) -> Iterator[str]:
        free = self._free[database.name]
        clone = free.pop() if free else self._make(database)
        try:
            yield clone.name
        finally:
            if self._empty(clone):
                free.append(clone)
            else:
                self._drop(clone)

    def _make(self, database: databases.Database) -> Clone:
        name = f"test_{os.getpid()}_{next(_numbers)}"
        names = [sql.Identifier(each) for each in (name, database.name, database.owner)]
        with self._server.admin() as admin:
            # Copies files instead of logging every page: the server of the tests may lose them.
            admin.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {} STRATEGY FILE_COPY").format(*names)
            )
        with self._server.admin(name) as inside:
            # A clone has the template's tables and grants on them, but not who may connect.
            databases.allow_roles(inside, database, name)
            return Clone(name, _one(inside, _SCHEMA), _emptying(inside))

    def _empty(self, clone: Clone) -> bool:
        try:
            with self._server.admin(clone.name) as inside:
                inside.execute(_DISCONNECT)
                if _one(inside, _SCHEMA) != clone.schema:
                    return False
                inside.execute(clone.emptying)
        except psycopg.OperationalError:  # the test has broken it, or the server is gone
            return False
        return True

    def _drop(self, clone: Clone) -> None:
        with self._server.admin() as admin:
            name = sql.Identifier(clone.name)
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def _emptying(inside: psycopg.Connection) -> str:
    tables = [name for (name,) in inside.execute(_TABLES).fetchall()]
    restarts = [statement for (statement,) in inside.execute(_SEQUENCES).fetchall()]
    statements = [
        "BEGIN",
        # Foreign keys and triggers are not looked at: all rows go together.
        "SET LOCAL session_replication_role = replica",
        *(f"DELETE FROM {table}" for table in tables),
        *(statement for table in tables for statement in _template_rows(inside, table)),
        *restarts,
        "COMMIT",
    ]
    return "; ".join(statements)


def _template_rows(inside: psycopg.Connection, table: str) -> Iterator[str]:
    rows = _one(inside, f"SELECT json_agg(t) FROM {table} t")
    if rows is not None:
        given = sql.Literal(json.dumps(rows)).as_string(inside)
        yield f"INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, {given})"


def _one(inside: psycopg.Connection, statement: str) -> Any:
    row = inside.execute(statement).fetchone()
    assert row is not None
    return row[0]
