"""Which functions a query may call: DuckDB's own, without those that reach outside the query."""

from __future__ import annotations

import re
import string
from functools import cache

import duckdb

from trace_platform.sql import chain_functions

# Everything else that stands where a table stands is refused.
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})

# Special forms of the binder that its function catalog does not list.
_SPECIAL_FORMS = frozenset({"unnest"})

_DENIED = frozenset(
    {
        # operators called as functions: unchecked, they take one type for another
        *("=", "!=", "<>", "<", "<=", ">", ">="),
        *("is distinct from", "is not distinct from", "__between", "__cast"),
        # run text as SQL, or read and write SQL as data
        "query",
        "query_table",
        "json_execute_serialized_sql",
        "json_serialize_sql",
        "json_deserialize_sql",
        "json_serialize_plan",
        # settings, variables and the environment
        "current_setting",
        "getenv",
        "getvariable",
        "which_secret",
        # state that outlives an expression
        "nextval",
        "currval",
        "setval",
        "write_log",
        # hold a process for as long as the caller likes
        "sleep_ms",
        # take bytes of the caller's for what DuckDB has in memory
        "to_aggregate_state",
        "finalize",
        "combine",
        "combine_aggr",
        "variant_bytes_to_variant",
        "variant_to_parquet_variant",
        "variant_comparator",
        "vector_type",
        # the catalog: it knows the views' files
        "current_query",
        "format_type",
        "col_description",
        "obj_description",
        "shobj_description",
        "in_search_path",
        "current_connection_id",
        "current_query_id",
        "current_transaction_id",
        "txid_current",
        "get_block_size",
        "index_key",
        "stats",
        "glob",
        "sniff_csv",
        "seq_scan",
        "summary",
        "checkpoint",
        "force_checkpoint",
    }
)

_DENIED_SHAPES = re.compile(
    r"__internal.*|read_.*|duckdb_.*|pragma_.*|parquet_.*|inet_.*|has_.*_privilege"
    r"|pg_(?!typeof$|size_pretty$).*|.*_scan|.*_external_resource.*|(en|dis)able_.*"
    r"|parse_duckdb_.*"
)

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """A name as DuckDB compares it: ASCII letters only, so that no other letter folds into one."""
    return name.translate(_ASCII_LOWER)


@cache
def allowed_functions() -> frozenset[str]:
    """Built-in scalar, aggregate and window functions, minus the denied ones, and our own."""
    with duckdb.connect(":memory:") as connection:
        found = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')"
        ).fetchall()
    names = {fold(name) for (name,) in found} | _SPECIAL_FORMS | chain_functions.NAMES
    return frozenset(name for name in names if not is_denied(name))


def is_denied(name: str) -> bool:
    return name in _DENIED or _DENIED_SHAPES.fullmatch(name) is not None
