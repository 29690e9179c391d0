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
# Only a superuser can set these, and no role can change them for itself.
_TEMPORARY_FILES = {
    "trace_queue": "64MB",
    "trace_data_janitor": "64MB",
    "trace_data_writer": "1GB",
    "trace_query": "1GB",
}
# The server's log has no limit, and a text of an error may be as long as a role likes. Whoever made
# the error is told, and logs it.
_LOGGED = "fatal"

# Everybody may call them by default. Locks that nobody else sees the meaning of fill the table of
# locks for all; large objects and messages in the log fill the disk.
_CLOSED: LiteralString = r"""
SELECT oid::regprocedure::text FROM pg_proc
 WHERE pronamespace = 'pg_catalog'::regnamespace
   AND (proname LIKE 'pg\_advisory\_%' OR proname LIKE 'pg\_try\_advisory\_%'
        OR proname LIKE 'lo\_%' OR proname IN ('lowrite', 'loread', 'pg_logical_emit_message'))
"""


# Where a role has settings of its own; NULL is everywhere.
_OWN_SETTINGS: LiteralString = """
SELECT d.datname FROM pg_db_role_setting s
  LEFT JOIN pg_database d ON d.oid = s.setdatabase
 WHERE s.setrole = (SELECT oid FROM pg_roles WHERE rolname = %s)
"""


def reset_settings(connection: psycopg.Connection, role: str) -> None:
    """Each role may change its own settings for good, and so may whoever stole it: at the next
    start none of them is left."""
    for (database,) in connection.execute(_OWN_SETTINGS, (role,)).fetchall():
        where = (
            sql.SQL("IN DATABASE {}").format(sql.Identifier(database)) if database else sql.SQL("")
        )
        statement = sql.SQL("ALTER ROLE {} {} RESET ALL")
        connection.execute(statement.format(sql.Identifier(role), where))


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
    to_owner = sql.Identifier(owner)
    # Whoever may use it writes to the server's log what they like. Functions that are there run for
    # whoever may call them.
    connection.execute("REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC")
    connection.execute(sql.SQL("GRANT USAGE ON LANGUAGE plpgsql TO {}").format(to_owner))
    for (function,) in connection.execute(_CLOSED).fetchall():
        which = sql.SQL(function)
        connection.execute(sql.SQL("REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC").format(which))
        connection.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(which, to_owner))


def _settings(connection: psycopg.Connection, role: str) -> dict[str, str]:
    known = {
        name: value
        for name, value in _TIMEOUTS.get(role, {}).items()
        # The second is younger than the oldest server that will do.
        if name != "transaction_timeout" or connection.info.server_version >= 170000
    }
    if role in _TEMPORARY_FILES and _is_superuser(connection):
        known |= {"temp_file_limit": _TEMPORARY_FILES[role], "log_min_messages": _LOGGED}
    return known


def _max_connections(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT current_setting('max_connections')::integer").fetchone()
    return int(row[0]) if row else 0


def _is_superuser(connection: psycopg.Connection) -> bool:
    return connection.info.parameter_status("is_superuser") == "on"
