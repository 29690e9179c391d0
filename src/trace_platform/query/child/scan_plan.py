"""What a statement needs of each table, as DuckDB's own optimizer finds it.

The statement is planned over stubs: tables of the same columns, whose few rows tell no more than
the types do. What the optimizer then asks of a stub's scan holds for every row that matters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import duckdb

from trace_platform.query.child.explain import Explained
from trace_platform.query.protocol import relation as views
from trace_platform.query.protocol.messages import Filter, Relation, Scan
from trace_platform.sql.gate import Statement
from trace_platform.sql.mistakes import FROM
from trace_platform.sql.relations import Column
from trace_platform.sql.sql_text import quoted, without_semicolon

# They replace a scan by two, or plan what cannot be written as JSON; or they know what no row of a
# stand-in fulfils, such as a text that is longer than all of its texts.
DISABLED_OPTIMIZERS = (
    "statistics_propagation",
    "late_materialization",
    "compressed_materialization",
    "top_n_window_elimination",
)

Node = dict[str, Any]
Value = str | int | float | bool
Comparison = Literal["=", ">", ">=", "<", "<=", "in"]
# How the column's values compare, and with what.
Term = tuple[Comparison, tuple[Value, ...]]

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_SIGNED = {kind: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for kind, bits in _BITS.items()}
_UNSIGNED = {f"U{kind}": (0, 2**bits - 1) for kind, bits in _BITS.items()}
_INTEGERS = _SIGNED | _UNSIGNED
# The least and the greatest value of each type on which a filter can reach Postgres.
_EXTREMES: dict[str, tuple[Any, Any]] = {
    **_INTEGERS,
    "BOOLEAN": (False, True),
    "DOUBLE": (-math.inf, math.nan),
    "VARCHAR": ("", "\U0010ffff" * 64),
    "BLOB": (b"", b"\xff" * 64),
}
_COMPARISONS: dict[str, Comparison] = {
    "COMPARE_EQUAL": "=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
}
_BLOB = re.compile(r"\\x([0-9A-Fa-f]{2})|([^\\])")
# The statement's own mistakes; anything else only means that there is no plan to read.
_MISTAKES = ("binder", "catalog")


def plan(
    connection: duckdb.DuckDBPyConnection,
    statement: Statement,
    relations: Sequence[Relation],
    explained: Explained,
) -> dict[str, Scan]:
    """By view, of the relations that are tables. Raise InvalidQuery for a statement that does not
    fit the columns. What is not understood exactly is not asked for: fewer filters and more columns
    are always right."""
    tables = {f"stub_{n}": each for n, each in enumerate(relations) if each.hot_columns}
    if not tables or not all(each.columns for each in relations):
        return {each.view: Scan() for each in tables.values()}
    # Rows that are not committed: of others DuckDB knows their number, and plans without a scan.
    connection.begin()
    try:
        for n, each in enumerate(relations):
            _create_stub(connection, f"stub_{n}", each)
        found = _optimized(connection, statement.sql)
    finally:
        connection.rollback()
    if found.get("error"):
        if found.get("error_type") in _MISTAKES:
            facts = {**found, "exception_message": found.get("error_message", "")}
            raise explained.refusal(str(found["error_type"]).title(), facts, statement)
        return {each.view: Scan() for each in tables.values()}
    scans = list(_scans(found))
    return {
        each.view: _scan([one for one in scans if _table(one) == name], each)
        for name, each in tables.items()
    }


def _create_stub(connection: duckdb.DuckDBPyConnection, name: str, relation: Relation) -> None:
    """A table with a row of nulls and two with the extremes, and the relation's view over it.

    Other types are text in the stub: of a value that is cast, statistics tell nothing.
    """
    kinds = [each.type if each.type in _EXTREMES else "VARCHAR" for each in relation.columns]
    declared = ", ".join(
        f"{quoted(each.name)} {kind}" for each, kind in zip(relation.columns, kinds, strict=True)
    )
    connection.execute(f"CREATE TABLE {name} ({declared})")
    holes = ", ".join("?" * len(kinds))
    for values in zip(*((None, *_EXTREMES[kind]) for kind in kinds), strict=True):
        connection.execute(f"INSERT INTO {name} VALUES ({holes})", values)
    typed = ", ".join(_typed(each) for each in relation.columns)
    rows = f"(SELECT {typed} FROM {name}) AS r"
    connection.execute(views.create_view(relation, relation.columns, rows))


def _typed(column: Column) -> str:
    name = quoted(column.name)
    return name if column.type in _EXTREMES else f"CAST({name} AS {column.type}) AS {name}"


def _optimized(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    whole = f"{FROM}{without_semicolon(sql)}\n)"
    call = "SELECT json_serialize_plan(?::VARCHAR, optimize := true)"
    row = connection.execute(call, [whole]).fetchone()
    try:
        found: Node = json.loads(row[0]) if row else {"error": True}
    except (ValueError, RecursionError):
        return {"error": True}
    return found


def _scans(plan: Node) -> Iterator[Node]:
    stack: list[Any] = [plan]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            stack.extend(node.values())
            if node.get("type") == "LOGICAL_GET":
                yield node


def _table(scan: Node) -> str | None:
    data = scan.get("function_data")
    return data.get("table") if isinstance(data, dict) else None


def _scan(scans: Sequence[Node], relation: Relation) -> Scan:
    """What all scans of one table need together. None of them: nothing can be said."""
    if not scans:
        return Scan()
    try:
        needed = {name for scan in scans for name in _columns(scan)}
        shared = set.intersection(*(set(_conditions(scan, relation)) for scan in scans))
    except (KeyError, IndexError, TypeError):
        # A plan of another form than the ones known here.
        return Scan()
    hot = [each.name for each in relation.hot_columns]
    columns = [name for name in hot if name in needed]
    if not columns:
        columns = [views.BLOCK if views.BLOCK in hot else hot[0]]
    filters = [Filter(name, how, list(values)) for name, (how, values) in sorted(shared, key=repr)]
    return Scan(columns=columns, filters=filters)


def _columns(scan: Node) -> list[str]:
    names = scan["names"]
    indexes = (each["index"] for each in scan["column_indexes"])
    # Beyond them are columns that only the stub has, such as its row number.
    return [names[index] for index in indexes if index < len(names)]


def _conditions(scan: Node, relation: Relation) -> Iterator[tuple[str, Term]]:
    if scan["table_filters_by_projection"] is not True or scan["extra_info"]["sample_options"]:
        return
    kinds = _filterable(relation)
    for each in scan["table_filters"]["filters"]:
        index = scan["column_indexes"][each["key"]]["index"]
        name = scan["names"][index] if index < len(scan["names"]) else None
        if name in kinds:
            yield from ((name, term) for term in _understood(each["value"], kinds[name]))


def _filterable(relation: Relation) -> dict[str, str]:
    """Columns whose values compare in Postgres as they do here, with their types."""
    hot = {each.name: each.type for each in relation.hot_columns}
    masked = views.masked_columns(relation, relation.columns)
    return {
        each.name: each.type
        for each in relation.columns
        if each.type in _EXTREMES
        and each.name not in masked
        and hot.get(each.name) == ("BIGINT" if each.type in _INTEGERS else each.type)
    }


def _understood(node: Node, kind: str) -> Iterator[Term]:
    match node["filter_type"]:
        case "LEGACY_CONSTANT_COMPARISON":
            comparison = _COMPARISONS.get(node["comparison_type"])
            value = _value(node["constant"], kind)
            if comparison is not None and value is not None:
                yield comparison, (value,)
        case "LEGACY_CONJUNCTION_AND":
            for child in node["child_filters"]:
                yield from _understood(child, kind)
        case "LEGACY_OPTIONAL_FILTER":
            # Rows that do not meet it are of no use; whether they are left out is optional.
            if node["child_filter"]:
                yield from _understood(node["child_filter"], kind)
        case "LEGACY_IN_FILTER":
            yield from _among([_value(each, kind) for each in node["values"]])
        case "LEGACY_CONJUNCTION_OR":
            children = [list(_understood(child, kind)) for child in node["child_filters"]]
            if all(len(each) == 1 and each[0][0] in ("=", "in") for each in children):
                yield from _among([value for ((_, values),) in children for value in values])


def _among(values: list[Value | None]) -> Iterator[Term]:
    known = [value for value in values if value is not None]
    if known and len(known) == len(values):
        yield "in", tuple(known)


def _value(constant: Node, kind: str) -> Value | None:
    """None: it is not a value of this type that Postgres has too."""
    if constant["is_null"] or constant["type"]["id"] != kind:
        return None
    match kind, constant["value"]:
        case "BLOB", str(value):
            return _hex(value)
        case "DOUBLE", int(value) | float(value):
            return float(value) if math.isfinite(value) else None
        case ("VARCHAR", str(value)) | ("BOOLEAN", bool(value)):
            return value
        case _, int(value) if kind in _INTEGERS:
            return value
    return None


def _hex(written: str) -> str | None:
    """Bytes as DuckDB writes them: ASCII, and \\xAB for the rest."""
    parts = list(_BLOB.finditer(written))
    if not written.isascii() or sum(len(part[0]) for part in parts) != len(written):
        return None
    return "0x" + "".join(part[1].lower() if part[1] else f"{ord(part[2]):02x}" for part in parts)
