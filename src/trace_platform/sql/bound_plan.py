"""DuckDB's plan of a statement, bound over relations that have columns and no rows.

What a function is given that is constant DuckDB works out before it shows its plan: a BIGNUM that
would be rounded is not seen any more, and one that was worked out it cannot write as JSON, so that
there is no plan at all. So constants of that type are bound as something that could be another
value with every row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

from trace_platform.sql.pins import Edit, Edited
from trace_platform.sql.relations import Column
from trace_platform.sql.sql_text import quoted

Node = dict[str, Any]

# What a macro of DuckDB's own functions is given DuckDB works out without a trace.
_TRACED = (
    "CREATE OR REPLACE MACRO to_0x(bytes BLOB)"
    " AS '0x' || lower(hex(CASE WHEN random() < 2 THEN bytes END))"
)
_MAY_BE_TRACED = "to_0x"
_VARYING = (b"(CASE WHEN random() < 2 THEN ", b" END)")
_WIDEST = "BIGNUM"
# With fewer it fits 128 bits.
_WIDE_DIGITS = 39
_MAY_BE_WIDEST = re.compile(rf"{_WIDEST}|[0-9][0-9_]{{{_WIDE_DIGITS - 1},}}", re.IGNORECASE)
UNREAD: Node = {"error": True}


def bound_plan(
    connection: duckdb.DuckDBPyConnection, sql: str, relations: Mapping[str, Sequence[Column]]
) -> Node:
    """With places of `sql`. With an `error` if it cannot be bound, or its plan not be read."""
    connection.begin()
    try:
        if _MAY_BE_TRACED in sql.lower():
            connection.execute(_TRACED)
        for view, columns in relations.items():
            # Not a view: its columns would be in the plan, used or not.
            typed = ", ".join(f"{quoted(name)} {kind}" for name, kind in _distinct(columns))
            connection.execute(f"CREATE TABLE {quoted(view)} ({typed})")
        edited = _varying(connection, sql)
        plan = _serialized(connection, "plan", edited.sql)
        if plan.get("error_type") and edited.sql != sql:
            return _serialized(connection, "plan", sql)
        for node in nodes(plan):
            _put_back(node, edited)
        return plan
    except (ValueError, RecursionError):
        return UNREAD
    finally:
        connection.rollback()


def _distinct(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Names and types; of names that differ in their case alone all but the first with a number, as
    DuckDB calls them in a view."""
    taken: set[str] = set()
    for column in columns:
        name, n = column.name, 0
        while name.lower() in taken:
            n += 1
            name = f"{column.name}_{n}"
        taken.add(name.lower())
        yield name, column.type


def nodes(plan: Node) -> Iterator[Node]:
    """The bound expressions of a plan."""
    return (node for node in nodes_of(plan) if "expression_class" in node)


def parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """The parse tree of a statement, with an `error` if it is none."""
    return _serialized(connection, "sql", sql)


def _serialized(connection: duckdb.DuckDBPyConnection, what: str, sql: str) -> Node:
    row = connection.execute(f"SELECT json_serialize_{what}(?::VARCHAR)", [sql]).fetchone()
    found: Node = json.loads(row[0]) if row and row[0] else UNREAD
    return found


def _varying(connection: duckdb.DuckDBPyConnection, sql: str) -> Edited:
    if _MAY_BE_WIDEST.search(sql) is None:
        return Edited(sql)
    tree = parsed(connection, sql)
    written = sql.encode()
    return Edited(sql, [edit for node in nodes_of(tree) for edit in _made_varying(node, written)])


def _made_varying(node: Node, written: bytes) -> Sequence[Edit]:
    before, after = _VARYING
    if _is_widest_literal(node):
        start, length = node["query_location"], node["query_location_length"]
        number = node["literal"]["text"].replace("_", "").encode()
        made = before + b"'" + number + b"'::BIGNUM" + after
        return (Edit(start, start + length, made),)
    cast = _cast_of_a_constant(node, written)
    if cast is None:
        return ()
    start, end = cast
    return Edit(start, start, before), Edit(end, end, after)


def _is_widest_literal(node: Node) -> bool:
    literal = node.get("literal") or {}
    if literal.get("kind") != "INTEGER" or len(literal["text"]) < _WIDE_DIGITS:
        return False
    return not -(2**127) <= int(literal["text"]) < 2**128


def _cast_of_a_constant(node: Node, written: bytes) -> tuple[int, int] | None:
    """Where one to BIGNUM begins and ends, in either writing, by way of other types too."""
    if node.get("class") != "CAST":
        return None
    if str(node["type_expr"].get("type_name")).upper() != _WIDEST:
        return None
    chain = [node]
    while chain[-1].get("class") == "CAST":
        chain.append(chain[-1]["child"])
    if chain[-1].get("class") != "CONSTANT" or _is_widest_literal(chain[-1]):
        return None
    start = min(each["query_location"] for each in chain)
    end = node["query_location"] + node["query_location_length"]
    while written.count(b"(", start, end) < written.count(b")", start, end):
        start = written.rfind(b"(", 0, start)
    return start, end


def _put_back(node: Node, edited: Edited) -> None:
    start = node["query_location"]
    end = start + node["query_location_length"]
    if end <= len(edited.sql.encode()):
        first = edited.original(start)
        node["query_location"] = first
        node["query_location_length"] = edited.original(end) - first


def nodes_of(tree: Any) -> Iterator[Node]:
    """Of a parse tree or a plan."""
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            stack.extend(node.values())
            yield node
