"""Try, as each role of the databases, what none of them may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
from psycopg import sql

from trace_platform.app.instance.databases import DATA, STATE, Database
from trace_platform.app.security.attempt import Attempt
from trace_platform.drivers.lite.embedded_postgres import ADMIN

# By role, its connection string.
Dsn = Callable[[str], str]

_NOBODY_MAY = (
    "SELECT rolpassword FROM pg_authid",
    "SELECT pg_read_file('postgresql.conf')",
    "SELECT pg_ls_dir('.')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_create(0)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_lock_shared(1)",
    "SELECT pg_logical_emit_message(false, 'x', 'x')",
    "SELECT pg_switch_wal()",
    "SELECT pg_reload_conf()",
    "SELECT pg_stat_reset()",
    "DO $$ BEGIN RAISE LOG 'trace_probe'; END $$",
    "SET log_min_messages = debug1",
    "ALTER ROLE CURRENT_USER SET log_min_messages = debug1",
    "ALTER ROLE CURRENT_USER SET temp_file_limit = -1",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY (SELECT 1) TO '/tmp/trace-probe'",
    "CREATE TABLE trace_probe (n integer)",
    "CREATE TEMPORARY TABLE trace_probe (n integer)",
    "CREATE SCHEMA trace_probe",
    "CREATE ROLE trace_probe",
    "CREATE EXTENSION dblink",
    "CREATE FUNCTION trace_probe() RETURNS integer LANGUAGE sql RETURN 1",
    "ALTER SYSTEM SET work_mem = '1GB'",
    "ALTER ROLE CURRENT_USER CREATEROLE",
    "SET session_replication_role = replica",
    "SET temp_file_limit = -1",
    "TABLE schema_migrations",
    "LOCK TABLE schema_migrations IN ACCESS SHARE MODE",
)
# Whoever may change the rows of a table may lock it as well.
_TABLES = """
SELECT format('%%I.%%I', n.nspname, c.relname),
       has_table_privilege(%(role)s, c.oid, 'UPDATE, DELETE')
       OR has_any_column_privilege(%(role)s, c.oid, 'UPDATE')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
   AND n.nspname NOT LIKE 'pg\\_toast%%' ORDER BY 1
"""
# What takes a table away from everybody else.
_LOCK = "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE"
_TO_TABLES = ("TRUNCATE {}", "ALTER TABLE {} ADD COLUMN trace_probe integer", "DROP TABLE {}")


def as_roles(dsn: Dsn) -> Iterator[Attempt]:
    """Whatever one of them succeeds with is rolled back."""
    for database in (STATE, DATA):
        for role in database.users:
            yield from _in_own_database(role, dsn(role), dsn(database.owner))
            yield from _in_others(role, dsn(role), database)


def _in_own_database(role: str, dsn: str, owner: str) -> Iterator[Attempt]:
    with psycopg.connect(owner) as connection:
        tables = connection.execute(_TABLES.encode(), {"role": role}).fetchall()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in _NOBODY_MAY:
            yield _tried(connection, role, statement)
        for other in (*STATE.roles, *DATA.roles, ADMIN):
            if other != role:
                yield _tried(connection, role, f"SET ROLE {other}")
        for table, changes in tables:
            for statement in _TO_TABLES if changes else (_LOCK, *_TO_TABLES):
                yield _tried(connection, role, statement.format(table))


def _in_others(role: str, dsn: str, own: Database) -> Iterator[Attempt]:
    others = [each.name for each in (STATE, DATA) if each is not own]
    for name in (*others, "postgres", "template1"):
        what = f"connect to {name}"
        try:
            psycopg.connect(dsn, dbname=name, connect_timeout=5).close()
            yield Attempt(role, what, "connected")
        except psycopg.OperationalError:
            yield Attempt(role, what)


def _tried(connection: psycopg.Connection, role: str, statement: str) -> Attempt:
    try:
        with connection.transaction(force_rollback=True):
            # What waits for a lock was let in.
            connection.execute("SET LOCAL lock_timeout = '1s'")
            connection.execute(sql.SQL(statement))
        return Attempt(role, statement, "done")
    except psycopg.errors.LockNotAvailable:
        return Attempt(role, statement, "it may, and waited")
    except psycopg.Error:
        return Attempt(role, statement)
