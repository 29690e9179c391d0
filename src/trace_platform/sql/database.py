"""A DuckDB for strangers' statements: it loads, fetches and finds nothing by itself."""

from __future__ import annotations

import duckdb

from trace_platform.sql import chain_functions


def open_database(memory_mb: int, threads: int, spill: str) -> duckdb.DuckDBPyConnection:
    """With the functions of ours. Whoever opens it locks it before a statement runs."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_unsigned_extensions": False,
            "allow_persistent_secrets": False,
            "python_enable_replacements": False,
            "memory_limit": f"{memory_mb}MiB",
            "threads": threads,
            "temp_directory": spill,
            # Where in the statement, and what was meant: in words of their own, not in the text.
            "errors_as_json": True,
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    chain_functions.add(connection)
    return connection
