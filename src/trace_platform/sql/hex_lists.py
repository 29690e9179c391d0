"""Lists of hex literals in which a statement looks for something: `= ANY (['0x…'])`, `IN ['0x…']`,
`list_contains(['0x…'], column)`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

from trace_platform.sql.bound_plan import Node, nodes_of, parsed
from trace_platform.sql.pins import Edit

_HEX = re.compile(r"0[xX](?:[0-9a-fA-F]{2})*")
# Also what IN and NOT IN of a list are.
_LOOKS = frozenset(
    f"{kind}_{does}"
    for kind in ("list", "array")
    for does in ("contains", "has", "position", "indexof", "has_any", "has_all")
) | {"contains", "unnest"}
_LISTS = frozenset({"list_value", "list_pack"})


def hex_lists(connection: duckdb.DuckDBPyConnection, sql: str) -> Sequence[Edit]:
    """What makes their literals bytes. Lists of anything else are left as they are."""
    if not re.search(r"'0[xX]", sql):
        return ()
    lists = {
        each["expression"]["query_location"]: each["expression"]
        for node in nodes_of(parsed(connection, sql))
        if node.get("function_name") in _LOOKS
        for each in node["arguments"]
        if each["expression"].get("function_name") in _LISTS
    }
    return [edit for each in lists.values() for edit in _casts(each)]


def _casts(node: Node) -> Sequence[Edit]:
    members = [each["expression"] for each in node["arguments"]]
    if not all(map(_is_hex, members)):
        return ()
    ends = [each["query_location"] + each["query_location_length"] for each in members]
    return [Edit(end, end, b"::BLOB") for end in ends]


def _is_hex(node: Node) -> bool:
    literal = node.get("literal") or {}
    return literal.get("kind") == "STRING" and _HEX.fullmatch(literal["text"]) is not None
