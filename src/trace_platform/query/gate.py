"""The first layer: what a statement may say, read from DuckDB's own parse tree.

Deny by default. A kind of node, a function or a relation that is not known here is refused, so a
new DuckDB feature stays closed until someone has looked at it.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

import duckdb

from trace_platform.domain.errors import InvalidQuery
from trace_platform.query.functions import TABLE_FUNCTIONS, allowed_functions, fold, is_denied

_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"})
_TABLE_NODES = frozenset(
    {
        "BASE_TABLE",
        "SUBQUERY",
        "JOIN",
        "TABLE_FUNCTION",
        "EMPTY",
        "EXPRESSION_LIST",
        "PIVOT",
        "SHOW_REF",
    }
)
_MODIFIERS = frozenset(
    {
        "ORDER_MODIFIER",
        "LIMIT_MODIFIER",
        "DISTINCT_MODIFIER",
        "ORDER_DEFAULT",
        "ASCENDING",
        "DESCENDING",
    }
)
_NODES = _QUERY_NODES | _TABLE_NODES | _MODIFIERS
_EXPRESSIONS = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
        "OPERATOR",
        "POSITIONAL_REFERENCE",
        "STAR",
        "SUBQUERY",
        "TYPE",
        "WINDOW",
    }
)
_NAMES_SHOWN = 20

Node = dict[str, Any]
Scope = frozenset[str]


def check(connection: duckdb.DuckDBPyConnection, sql: str, published: Collection[str]) -> list[str]:
    """The published datasets that `sql` reads, in order. Raise InvalidQuery for anything else."""
    tree = parse(connection, sql)
    try:
        return _Walk(sql, published).datasets_of(tree)
    except (KeyError, IndexError, TypeError, AttributeError):
        # A node without the parts that its kind always had is a node we do not know.
        raise InvalidQuery("the statement has a form that is not allowed") from None


def parse(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """The tree of the one SELECT statement in `sql`."""
    if "\0" in sql:
        raise InvalidQuery("the statement holds a NUL character")
    try:
        row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
        parsed = json.loads(row[0]) if row else {}
    except (duckdb.Error, RecursionError, UnicodeError, ValueError):
        raise InvalidQuery("the statement cannot be parsed or is nested too deeply") from None
    if parsed.get("error"):
        _raise_parse_error(sql, parsed)
    statements = parsed.get("statements") or []
    if len(statements) != 1:
        found = "no statement" if not statements else f"{len(statements)} statements"
        raise InvalidQuery(f"a query is exactly one SELECT; this is {found}")
    tree: Node = statements[0]
    return tree


def _raise_parse_error(sql: str, parsed: Node) -> NoReturn:
    message = str(parsed.get("error_message", "the statement cannot be parsed"))
    if parsed.get("error_type") == "not implemented":
        raise InvalidQuery(
            "only SELECT statements can be run (DESCRIBE and SUMMARIZE of one too)",
            hint="data is written by the jobs of a DAG, never by a query",
        )
    if "expression depth" in message:
        raise InvalidQuery("the statement is nested too deeply")
    position = str(parsed.get("position", ""))
    if not position.isdigit():
        raise InvalidQuery(message)
    line, column = _line_and_column(sql, int(position))
    raise InvalidQuery(
        f"{message} (line {line}, column {column})",
        line=line,
        column=column,
        position=int(position),
    )


def _line_and_column(sql: str, byte_position: int) -> tuple[int, int]:
    before = sql.encode()[:byte_position].decode(errors="replace")
    return before.count("\n") + 1, len(before) - before.rfind("\n")


class _Walk:
    """One pass over a tree, with a stack of its own: the tree may be deeper than Python's."""

    def __init__(self, sql: str, published: Collection[str]) -> None:
        self._sql = sql
        self._published = frozenset(published)
        self._found: dict[str, None] = {}
        self._stack: list[tuple[Any, Scope]] = []

    def datasets_of(self, tree: Node) -> list[str]:
        self._stack.append((tree, frozenset()))
        while self._stack:
            node, scope = self._stack.pop()
            if isinstance(node, list):
                self._stack.extend((child, scope) for child in reversed(node))
            elif isinstance(node, dict):
                self._visit(node, scope)
        return list(self._found)

    def _visit(self, node: Node, scope: Scope) -> None:
        self._check_kind(node)
        for name, body, visible in _common_tables(node, scope):
            self._stack.append((body, visible))
            scope = scope | {name}
        if "class" in node:
            self._check_expression(node)
        elif node.get("type") == "BASE_TABLE":
            self._check_relation(node, scope)
        elif node.get("type") == "TABLE_FUNCTION":
            self._check_table_function(node)
            # Its arguments are expressions like any other; the function itself was just checked.
            node = {"arguments": node["function"]["arguments"]}
        elif node.get("type") == "SHOW_REF":
            self._check_show(node)
        if node.get("type") == "RECURSIVE_CTE_NODE":
            scope = scope | {fold(str(node.get("cte_name", "")))}
        children = [child for key, child in node.items() if key != "cte_map"]
        self._stack.extend((child, scope) for child in reversed(children))

    def _check_kind(self, node: Node) -> None:
        if "class" in node:
            if node["class"] not in _EXPRESSIONS:
                kind = str(node["class"]).lower().replace("_", " ")
                self._refuse(node, f"expressions of the kind '{kind}' are not allowed")
        elif isinstance(node.get("type"), str) and node["type"] not in _NODES:
            kind = str(node["type"]).lower().replace("_", " ")
            self._refuse(node, f"'{kind}' is not allowed in a query")

    def _check_expression(self, node: Node) -> None:
        if node["class"] in ("FUNCTION", "WINDOW"):
            self._check_function(node)
        elif node["class"] == "TYPE" and len(_path(node)) != 1:
            self._refuse(node, "types are named without a schema")

    def _check_function(self, node: Node) -> None:
        # `column.upper()` is parsed as a schema and a function: only the last part decides.
        for name in {fold(str(node["function_name"])), fold(_path(node)[-1])}:
            if name in allowed_functions():
                continue
            if is_denied(name):
                self._refuse(node, f"the function {name!r} is not allowed in a query")
            close = difflib.get_close_matches(name, allowed_functions(), 3)
            self._refuse(node, f"there is no function {name!r} for queries", _did_you_mean(close))

    def _check_table_function(self, node: Node) -> None:
        function = node["function"]
        if function.get("class") != "FUNCTION" or len(_path(function)) != 1:
            self._refuse(node, "only a plain function call can stand for a table")
        name = fold(_path(function)[0])
        if name not in TABLE_FUNCTIONS or fold(str(function["function_name"])) != name:
            self._refuse(
                node,
                f"the table function {name!r} is not allowed in a query",
                f"a table is a published dataset, a WITH of the query, or one of"
                f" {', '.join(sorted(TABLE_FUNCTIONS))}",
            )

    def _check_show(self, node: Node) -> None:
        if node.get("show_type") not in ("DESCRIBE", "SUMMARY") or not node.get("query"):
            self._refuse(node, "SHOW is not allowed in a query", "GET /v1/datasets lists datasets")

    def _check_relation(self, node: Node, scope: Scope) -> None:
        path = _path(node)
        name = fold(path[-1])
        if len(path) != 1 or fold(str(node["table_name"])) != name:
            shown = ".".join(path)
            self._refuse(node, f"{shown!r}: datasets are named without a schema or catalog")
        if node.get("at_clause"):
            self._refuse(node, "AT is not supported: a query reads the current generation")
        if name in scope:
            return
        if name not in self._published:
            close = difflib.get_close_matches(name, sorted(self._published), 3)
            known = sorted(self._published)[:_NAMES_SHOWN]
            hint = _did_you_mean(close) or f"published datasets: {', '.join(known) or 'none yet'}"
            self._refuse(node, f"there is no published dataset {path[-1]!r}", hint, datasets=known)
        self._found[name] = None

    def _refuse(
        self, node: Node, reason: str, hint: str | None = None, **facts: object
    ) -> NoReturn:
        position = node.get("query_location")
        if isinstance(position, int) and position <= len(self._sql.encode()):
            line, column = _line_and_column(self._sql, position)
            raise InvalidQuery(reason, hint=hint, line=line, column=column, **facts)
        raise InvalidQuery(reason, hint=hint, **facts)


def _path(node: Node) -> list[str]:
    return [str(part) for part in node["qualified_name"]["path"]]


def _common_tables(node: Node, scope: Scope) -> Iterator[tuple[str, Any, Scope]]:
    """Each WITH of a query node and what its body may see: only those before it.

    So that `WITH blocks AS (SELECT … FROM blocks)` reads the dataset inside and the WITH outside.
    """
    for entry in (node.get("cte_map") or {}).get("map", []):
        name = fold(str(entry["key"]))
        yield name, entry["value"], scope
        scope = scope | {name}


def _did_you_mean(names: Collection[str]) -> str | None:
    return f"did you mean {' or '.join(names)}?" if names else None
