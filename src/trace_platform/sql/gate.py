"""The first layer: what a statement may say, read from DuckDB's own parse tree.

Deny by default. A kind of node, a part of one or a function that is not known here is refused, so
a new DuckDB feature stays closed until someone has looked at it. Which datasets there are is not
known here: every name that is no WITH of the statement is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import duckdb

from trace_platform.domain.alike import alike, did_you_mean
from trace_platform.domain.errors import InvalidQuery, QueryTooLarge
from trace_platform.sql import catalog
from trace_platform.sql.functions import TABLE_FUNCTIONS, allowed_functions, fold, is_denied
from trace_platform.sql.hex_text import QUOTES_HINT
from trace_platform.sql.parse_tree import EXPRESSIONS, NODES, PARTS
from trace_platform.sql.pins import (
    BadPin,
    Edited,
    Pin,
    pin_in_text,
    pin_in_tree,
    quote_pins,
    read_pin,
)
from trace_platform.sql.relations import Reference
from trace_platform.sql.spellings import Explaining, spelled

_LOCATION = frozenset({"query_location", "query_location_length"})
# Published names and the aliases of a token. Files and URLs are none.
_DATASET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# As many as are resolved at once.
_MAX_RELATIONS = 64
_PIN_HINT = "a generation is named NAME@ID, with 4 to 36 hex digits and dashes of its id"
_VALUE_HINT = (
    "write the value into the statement; in a job there are $start and $end, or $tick, of what"
    " wakes it"
)
# What DuckDB stumbles over in 0xd8da…, of which it reads the 0.
_BARE_HEX = re.compile(r'at or near "x[0-9a-f]*"', re.IGNORECASE)

Node = dict[str, Any]
Scope = frozenset[str]


@dataclass(frozen=True, slots=True)
class Statement:
    """What passed the gate: the text to run, and every relation that it reads, each once, in the
    order of the text."""

    sql: str
    references: list[Reference]
    # From the caller's text to `sql`.
    edits: tuple[Edited, ...]
    # Its plan is wanted instead of its rows.
    explaining: Explaining | None = None
    # It reads the catalog (catalog.py).
    reads_catalog: bool = False
    # The view that it describes, if that is all it does.
    describes: str | None = None

    def place(self, position: int) -> tuple[int, int]:
        """Line and column, in the caller's text, of a byte of `sql`."""
        return _place(self.edits, position)[1:]


def check(connection: duckdb.DuckDBPyConnection, sql: str) -> Statement:
    """Raise InvalidQuery for anything but one SELECT in which all is known to be harmless."""
    if "\0" in sql:
        raise InvalidQuery("the statement holds a NUL character")
    try:
        asked = spelled(sql)
        quoted = quote_pins(asked.edited.sql)
        written = (asked.edited, quoted)
        walk = _Walk(written)
        tree = _parse(connection, written)
        walk.walk(tree)
        edits = (*written, *_pinned(connection, quoted.sql, tree, walk.pinned))
        describes = _described(tree, walk.references())
    except (RecursionError, UnicodeError):
        raise InvalidQuery("the statement cannot be parsed or is nested too deeply") from None
    except (KeyError, IndexError, TypeError, AttributeError):
        # A node without the parts that its kind always had is a node we do not know.
        raise InvalidQuery("the statement has a form that is not allowed") from None
    return Statement(
        edits[-1].sql,
        walk.references(),
        edits,
        explaining=asked.explaining,
        reads_catalog=walk.reads_catalog,
        describes=describes,
    )


def _described(tree: Node, references: Sequence[Reference]) -> str | None:
    shown = (tree["node"].get("from_table") or {}) if len(references) == 1 else {}
    if shown.get("type") != "SHOW_REF" or shown["show_type"] != "DESCRIBE":
        return None
    is_plain = tree["node"]["select_list"][0]["class"] == "STAR"
    of = shown["query"].get("from_table") or {}
    is_whole = [each["class"] for each in shown["query"].get("select_list", ())] == ["STAR"]
    return references[0].view if is_plain and is_whole and of.get("type") == "BASE_TABLE" else None


def _parse(connection: duckdb.DuckDBPyConnection, edits: Sequence[Edited]) -> Node:
    """The tree of the one SELECT statement."""
    try:
        call = "SELECT json_serialize_sql(?::VARCHAR)"
        row = connection.execute(call, [edits[-1].sql]).fetchone()
        parsed = json.loads(row[0]) if row else {}
    except duckdb.OutOfMemoryException:
        raise _too_large() from None
    except (duckdb.Error, ValueError):
        raise InvalidQuery("the statement cannot be parsed or is nested too deeply") from None
    if parsed.get("error"):
        _raise_parse_error(edits, parsed)
    statements = parsed.get("statements") or []
    if len(statements) != 1:
        found = "no statement" if not statements else f"{len(statements)} statements"
        raise InvalidQuery(f"a query is exactly one SELECT; this is {found}")
    tree: Node = statements[0]
    return tree


def _too_large() -> QueryTooLarge:
    return QueryTooLarge("the statement is too large to be parsed", retire=True)


def _syntax_hint(message: str) -> str | None:
    if _BARE_HEX.search(message):
        return QUOTES_HINT
    return _PIN_HINT if message.endswith('near "@"') else None


def _raise_parse_error(edits: Sequence[Edited], parsed: Node) -> NoReturn:
    message = str(parsed.get("error_message", "the statement cannot be parsed"))
    if parsed.get("error_type") == "not implemented":
        raise InvalidQuery(
            "only SELECT statements can be run (SHOW TABLES, DESCRIBE, SUMMARIZE and EXPLAIN too)",
            hint="data is written by the jobs of a DAG, never by a query; a PIVOT needs its values:"
            " ON column IN (…)",
        )
    if "expression depth" in message:
        raise InvalidQuery("the statement is nested too deeply")
    if "Allocation failure" in message or "Failed to allocate" in message:
        raise _too_large()
    found = str(parsed.get("position", ""))
    if not found.isdigit():
        raise InvalidQuery(message)
    position, line, column = _place(edits, int(found))
    raise InvalidQuery(
        f"{message} (line {line}, column {column})",
        hint=_syntax_hint(message),
        line=line,
        column=column,
        position=position,
    )


def _place(edits: Sequence[Edited], position: int) -> tuple[int, int, int]:
    """Byte, line and column of the caller's text."""
    for edited in reversed(edits):
        position = edited.original(position)
    before = edits[0].before.encode()[:position].decode(errors="replace")
    return position, before.count("\n") + 1, len(before) - before.rfind("\n")


def _pinned(
    connection: duckdb.DuckDBPyConnection, sql: str, tree: Node, pinned: Sequence[tuple[Node, Pin]]
) -> list[Edited]:
    """The text with each pinned relation under the name of its view, and proof that nothing else
    of it has changed: it parses to the tree that was checked."""
    if not pinned:
        return []
    edited = Edited(sql, pin_in_text(sql, pinned))
    for node, pin in pinned:
        pin_in_tree(node, pin)
    try:
        same = _plain(_parse(connection, (edited,))) == _plain(tree)
    except InvalidQuery:
        same = False
    if not same:
        raise InvalidQuery(
            "the statement cannot be run with its AT or @",
            hint='pin the dataset in a WITH: WITH old AS (SELECT * FROM "blocks@4f2a61c0") …',
        )
    return [edited]


def _plain(tree: Node) -> str:
    """A tree without the places of its parts."""
    found = json.loads(
        json.dumps(tree),
        object_hook=lambda node: {key: node[key] for key in node if key not in _LOCATION},
    )
    return json.dumps(found)


class _Walk:
    """One pass over a tree, with a stack of its own: the tree may be deeper than Python's."""

    def __init__(self, edits: Sequence[Edited]) -> None:
        self._edits = edits
        self._bytes = len(edits[-1].sql.encode())
        self._found: dict[str, tuple[int, Reference]] = {}
        self._stack: list[tuple[Any, Scope]] = []
        # Relations whose text has to change.
        self.pinned: list[tuple[Node, Pin]] = []
        self.reads_catalog = False

    def walk(self, tree: Node) -> None:
        self._stack.append((tree, frozenset()))
        while self._stack:
            node, scope = self._stack.pop()
            if isinstance(node, list):
                self._stack.extend((child, scope) for child in reversed(node))
            elif isinstance(node, dict):
                self._visit(node, scope)

    def references(self) -> list[Reference]:
        return [
            reference for _, reference in sorted(self._found.values(), key=lambda each: each[0])
        ]

    def _visit(self, node: Node, scope: Scope) -> None:
        self._check_kind(node)
        for name, body, visible in _common_tables(node, scope):
            self._stack.append((body, visible))
            scope = scope | {name}
        kind = None if "class" in node else node.get("type")
        if "class" in node:
            self._check_expression(node)
        elif kind == "BASE_TABLE":
            self._check_relation(node, scope)
        elif kind == "TABLE_FUNCTION":
            self._check_table_function(node)
        elif kind == "SHOW_REF":
            self._check_show(node)
        for key, child in reversed(node.items()):
            if key == "function" and kind == "TABLE_FUNCTION":
                # The function itself was just checked; what it is given is like any other part.
                self._stack.append((list(child.values()), scope))
            elif key != "cte_map":
                self._stack.append((child, _seen_by(node, key, scope)))

    def _check_kind(self, node: Node) -> None:
        if "class" in node:
            if node["class"] == "PARAMETER":
                reason = "a query has no parameters such as $1 or ?"
                self._refuse(node, reason, _VALUE_HINT)
            if node["class"] not in EXPRESSIONS:
                kind = str(node["class"]).lower().replace("_", " ")
                self._refuse(node, f"expressions of the kind '{kind}' are not allowed")
        elif isinstance(node.get("type"), str) and node["type"] not in NODES:
            kind = str(node["type"]).lower().replace("_", " ")
            self._refuse(node, f"'{kind}' is not allowed in a query")
        elif node.get("pivot_enum"):
            self._refuse(node, "a PIVOT over a type is not allowed", "list its values: IN (…)")
        for part in node:
            if part not in PARTS:
                self._refuse(node, f"the statement has a part that is not known here: {part}")

    def _check_expression(self, node: Node) -> None:
        if node["class"] in ("FUNCTION", "WINDOW"):
            self._check_function(node)
        elif node["class"] == "TYPE" and len(_path(node)) != 1:
            self._refuse(node, "types are named without a schema")

    def _check_function(self, node: Node) -> None:
        if node.get("export_state"):
            self._refuse(node, "the state of an aggregate cannot be exported")
        # `column.upper()` is parsed as a schema and a function: only the last part decides.
        for name in {fold(str(node["function_name"])), fold(_path(node)[-1])}:
            if name in allowed_functions():
                continue
            if is_denied(name):
                self._refuse(node, f"the function {name!r} is not allowed in a query")
            close = alike(name, allowed_functions(), 3)
            self._refuse(
                node,
                f"there is no function {name!r} for queries",
                did_you_mean(close) or None,
                suggestions=close,
            )

    def _check_table_function(self, node: Node) -> None:
        function = node["function"]
        self._check_kind(function)
        if function.get("class") != "FUNCTION" or len(_path(function)) != 1:
            self._refuse(node, "only a plain function call can stand for a table")
        name = fold(_path(function)[0])
        if name not in TABLE_FUNCTIONS or fold(str(function["function_name"])) != name:
            self._refuse(
                node,
                f"the table function {name!r} is not allowed in a query",
                catalog.HINT
                if name.startswith(("duckdb_", "pragma_"))
                else f"a table is a published dataset, a WITH of the query, or one of"
                f" {', '.join(sorted(TABLE_FUNCTIONS))}",
            )

    def _check_show(self, node: Node) -> None:
        of_query = node["query"] and not node["table_name"] and not _path(node)
        if node["show_type"] not in ("DESCRIBE", "SUMMARY") or not of_query:
            self._refuse(
                node,
                "this SHOW is not allowed in a query",
                "SHOW TABLES lists the datasets, DESCRIBE NAME the columns of one",
            )

    def _check_relation(self, node: Node, scope: Scope) -> None:
        path = _path(node)
        name = fold(path[-1])
        if catalog.is_relation(list(map(fold, path))) and not node["at_clause"]:
            self.reads_catalog = True
            return
        is_common = name in scope
        # Of a recursive WITH that has keys: all its rows so far.
        if is_common and len(path) == 2 and fold(path[0]) == "recurring":
            path = path[1:]
        if len(path) != 1 or fold(str(node["table_name"])) != name:
            shown = ".".join(path)
            self._refuse(
                node,
                f"{shown!r}: datasets are named without a schema or catalog",
                catalog.HINT if fold(path[-2]) == "information_schema" else None,
            )
        if is_common and node["at_clause"]:
            self._refuse(node, f"{path[0]!r} is a WITH of the query: it has no generations")
        if not is_common:
            self._check_dataset(node, scope)

    def _check_dataset(self, node: Node, scope: Scope) -> None:
        try:
            pin = read_pin(node)
        except BadPin as error:
            self._refuse(node, error.reason, error.hint)
        said = str(node["table_name"])
        name, view = (pin.name, pin.view) if pin else (fold(said), fold(said))
        if _DATASET_NAME.fullmatch(name) is None:
            self._refuse(
                node,
                f"{said!r} cannot be the name of a dataset",
                "a query reads published datasets by name; it cannot open files or URLs",
            )
        if view in scope:
            self._refuse(node, f"a WITH of the query has the name of a generation, {view!r}")
        position = node["query_location"]
        if pin is not None and (self._is_place(position) or node["at_clause"]):
            self.pinned.append((node, pin))
        self._add(Reference(**_said(name, view, pin), **self._line_of(node)), position)

    def _add(self, reference: Reference, position: int) -> None:
        known = self._found.get(reference.view)
        if known is None or position < known[0]:
            self._found[reference.view] = (position, reference)
        if len(self._found) > _MAX_RELATIONS:
            raise InvalidQuery(
                f"a query reads at most {_MAX_RELATIONS} datasets",
                hint="join fewer of them, or let a job do it in steps",
            )

    def _line_of(self, node: Node) -> dict[str, Any]:
        position = node.get("query_location")
        if not self._is_place(position):
            return {}
        _, line, column = _place(self._edits, int(str(position)))
        return {"line": line, "column": column}

    def _is_place(self, position: object) -> bool:
        return isinstance(position, int) and position <= self._bytes

    def _refuse(
        self, node: Node, reason: str, hint: str | None = None, **facts: object
    ) -> NoReturn:
        raise InvalidQuery(reason, hint=hint, **self._line_of(node), **facts)


def _path(node: Node) -> list[str]:
    return [str(part) for part in node["qualified_name"]["path"]]


def _said(name: str, view: str, pin: Pin | None) -> dict[str, Any]:
    said = {"name": name, "view": view}
    return said | {"version": pin.version, "at": pin.at} if pin else said


def _common_tables(node: Node, scope: Scope) -> Iterator[tuple[str, Any, Scope]]:
    """Each WITH of a query node and what its body may see: only those before it.

    So that `WITH blocks AS (SELECT … FROM blocks)` reads the dataset inside and the WITH outside.
    """
    for entry in (node.get("cte_map") or {}).get("map", []):
        name = fold(str(entry["key"]))
        yield name, entry["value"], scope
        scope = scope | {name}


def _seen_by(node: Node, key: str, scope: Scope) -> Scope:
    """A recursive WITH is seen by its second part. In the first its name is a dataset's still."""
    if node.get("type") == "RECURSIVE_CTE_NODE" and key == "right":
        return scope | {fold(str(node["cte_name"]))}
    return scope
