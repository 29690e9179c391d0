"""What a role can do to the server besides its work: a stolen one must not stop the others."""

from __future__ import annotations

from typing import LiteralString

import psycopg
from psycopg import sql

# Of all connections that a server takes: whatever these roles do, some are left for the dispatcher.
_SHARES = {
    "trace_queue": 0.2,
    "trace_data_writer": 0.4,
    "trace_data_janitor": 0.05,
    "trace_query": 0.15,
}
_FEWEST = 5
# A session may set others for itself: they end what was forgotten, and keep nobody out.
_TIMEOUTS = {"trace_queue": {"statement_timeout": "60s", "transaction_timeout": "60s"}}
# Only a superuser can set it, and no role can raise it.
_TEMPORARY_FILES = {"trace_queue": "64MB", "trace_data_janitor": "64MB"}

# Everybody may call them by default. Locks that nobody else sees the meaning of fill the table of
# locks for all; large objects and messages in the log fill the disk.
_CLOSED: LiteralString = r"""
SELECT oid::regprocedure::text FROM pg_proc
 WHERE pronamespace = 'pg_catalog'::regnamespace
   AND (proname LIKE 'pg\_advisory\_%' OR proname LIKE 'pg\_try\_advisory\_%'
        OR proname LIKE 'lo\_%' OR proname IN ('lowrite', 'loread', 'pg_logical_emit_message'))
"""


def limit_connections(connection: psycopg.Connection, roles: tuple[str, ...]) -> None:
    """So many at once of each role, and time-outs that it starts with."""
    for role in roles:
        name = sql.Identifier(role)
        if role in _SHARES:
            limit = max(_FEWEST, int(_SHARES[role] * _max_connections(connection)))
            connection.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT {}").format(name, limit))
        for setting, value in _settings(connection, role).items():
            statement = sql.SQL("ALTER ROLE {} SET {} = {}")
            connection.execute(statement.format(name, sql.Identifier(setting), sql.Literal(value)))


def close_functions(connection: psycopg.Connection, owner: str) -> None:
    """In the database of this connection, to all but its owner. It takes a superuser: on a server
    of somebody else's they stay open."""
    if not _is_superuser(connection):
        return
    for (function,) in connection.execute(_CLOSED).fetchall():
        which = sql.SQL(function)
        connection.execute(sql.SQL("REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC").format(which))
        connection.execute(
            sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(which, sql.Identifier(owner))
        )


def _settings(connection: psycopg.Connection, role: str) -> dict[str, str]:
    known = {
        name: value
        for name, value in _TIMEOUTS.get(role, {}).items()
        # The second is younger than the oldest server that will do.
        if name != "transaction_timeout" or connection.info.server_version >= 170000
    }
    if role in _TEMPORARY_FILES and _is_superuser(connection):
        known["temp_file_limit"] = _TEMPORARY_FILES[role]
    return known


def _max_connections(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT current_setting('max_connections')::integer").fetchone()
    return int(row[0]) if row else 0


def _is_superuser(connection: psycopg.Connection) -> bool:
    return connection.info.parameter_status("is_superuser") == "on"
