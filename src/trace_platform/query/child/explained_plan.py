"""EXPLAIN: DuckDB's plan of a statement as lines of text, without what it knows of the files.

A plan tells where rows lie and what views are made of. So it is read as JSON, and of each operator
only those properties are shown that repeat the caller's own statement or count rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from trace_platform.domain.errors import InvalidQuery
from trace_platform.query.child.explain import Explained
from trace_platform.query.protocol.messages import Relation
from trace_platform.sql.gate import Statement
from trace_platform.sql.mistakes import DESCRIBE_FROM
from trace_platform.sql.sql_text import listed, without_semicolon

Node = dict[str, Any]

# Everything else that DuckDB says of an operator stays here.
_SHOWN = (
    "Projections",
    "Filters",
    "Dynamic Filters",
    "Expression",
    "Join Type",
    "Conditions",
    "Groups",
    "Aggregates",
    "Order By",
    "Top",
)
# How DuckDB writes bytes: letters where there are some.
_BYTES = re.compile(r"'((?:\\x[0-9A-F]{2}|[^'\\])*)'::BLOB")
_BYTE = re.compile(r"\\x(..)|(.)", re.DOTALL)
_COUNTED = {"rows_scanned": "rows read", "intermediate_rows": "rows"}
# Of the measurement itself.
_FRAMES = frozenset({"RESULT_COLLECTOR", "EXPLAIN_ANALYZE"})


def planned(
    connection: duckdb.DuckDBPyConnection,
    statement: Statement,
    relations: Sequence[Relation],
    explained: Explained,
) -> Statement:
    """A statement that answers with the plan, a line each. ANALYZE runs the statement for it."""
    if any(each.where for each in relations):
        raise InvalidQuery(
            "a plan counts rows, also those that the task's token does not grant",
            hint="run the statement itself",
        )
    inner = without_semicolon(statement.sql)
    # First as a part of another, as it is run: an error has its place then.
    connection.execute(f"{DESCRIBE_FROM}{inner}\n)")
    how = "ANALYZE, " if statement.explaining == "analyze" else ""
    rows = connection.execute(f"EXPLAIN ({how}FORMAT json) {inner}").fetchall()
    told = json.loads(rows[0][1])
    roots = told["operator"] if isinstance(told, dict) else told
    lines = [*_read(relations), *_times(told)]
    for root in roots:
        lines += _lines(root, 0)
    shown = listed(_with_hex(explained.without_names(line)) for line in lines)
    return replace(statement, sql=f"SELECT unnest({shown}) AS plan")


def _read(relations: Sequence[Relation]) -> Iterator[str]:
    for each in relations:
        files = f"{len(each.files)} file{'' if len(each.files) == 1 else 's'}"
        hot = f", rows of Postgres from block {each.seam}" if each.seam is not None else ""
        yield f"{each.view}: {files}{hot}"


def _times(told: object) -> Iterator[str]:
    if isinstance(told, dict):
        query = told.get("query", {})
        yield f"took {float(query.get('total_time', 0)) * 1000:.1f} ms"


def _lines(node: Mapping[str, Any], depth: int) -> Iterator[str]:
    name = str(node.get("name") or node.get("type"))
    is_frame = name in _FRAMES
    if not is_frame:
        indent = "  " * depth
        yield f"{indent}{name.replace('_', ' ')}{_counts(node)}"
        extra = node.get("extra_info") or {}
        yield from (f"{indent}    {key}: {_said(extra[key])}" for key in _SHOWN if key in extra)
    for child in node.get("children", ()):
        yield from _lines(child, depth if is_frame else depth + 1)


def _counts(node: Mapping[str, Any]) -> str:
    if "timing" not in node:
        about = (node.get("extra_info") or {}).get("Estimated Cardinality")
        return f"  (about {about} rows)" if about is not None else ""
    said = [f"{node[key]} {word}" for key, word in _COUNTED.items() if key in node]
    if "total_row_groups_to_scan" in node:
        said.append(
            f"{node.get('row_groups_scanned', 0)} of {node['total_row_groups_to_scan']} row groups"
        )
    said.append(f"{float(node['timing']) * 1000:.2f} ms")
    return f"  ({', '.join(said)})"


def _said(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _with_hex(line: str) -> str:
    """Bytes as answers show them, and as a statement takes them."""
    return _BYTES.sub(lambda written: f"'0x{_digits(written[1])}'::BLOB", line)


def _digits(written: str) -> str:
    return "".join((hexed or f"{ord(char):02x}").lower() for hexed, char in _BYTE.findall(written))
