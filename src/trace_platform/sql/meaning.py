"""What DuckDB would take a statement's values for, and what they mean: read from its bound plan.

DuckDB compares text with bytes by taking each character for a byte, and multiplies integers of more
than 128 bits as doubles. Neither is an error there, and both are wrong here. So each statement is
bound once over relations that have columns and no rows: a hex literal where bytes are wanted
becomes those bytes, all else is refused by name, with the cure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import duckdb

from trace_platform.domain.errors import InvalidQuery
from trace_platform.sql.bound_plan import Node, bound_plan, nodes
from trace_platform.sql.gate import Statement
from trace_platform.sql.hex_lists import hex_lists
from trace_platform.sql.hex_text import BYTES_HINT, converts, hint_of, misread_number, mistake
from trace_platform.sql.pins import Edit, Edited
from trace_platform.sql.relations import Column
from trace_platform.sql.sql_text import without_semicolon

_HEX = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})*)")
_ALMOST_HEX = re.compile(r"(?:0[xX])?[0-9a-fA-F]+")
_HEX_LITERAL = re.compile(rb"'(?:0[xX])?[0-9a-fA-F]*'")
_SELECT = b"SELECT "
_WRITTEN_CAST = re.compile(rb"::|(?:try_)?cast\s*\(", re.IGNORECASE)
_INTEGERS = frozenset(
    f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")
) | {"INTEGER", "UINTEGER", "BIGNUM"}
_WIDE = frozenset({"HUGEINT", "UHUGEINT", "BIGNUM"})
# What turns wide integers into doubles, and what does not.
_EXACT = {
    "*": "mul_exact(a, b)",
    "multiply": "mul_exact(a, b)",
    "//": "div_exact(a, b)",
    "divide": "div_exact(a, b)",
    "%": "mod_exact(a, b)",
    "mod": "mod_exact(a, b)",
    "sum": "sum_exact(x)",
    "abs": "greatest(x, -x)",
    "@": "greatest(x, -x)",
    **dict.fromkeys(("+", "add"), "a::BIGNUM + b"),
    **dict.fromkeys(("-", "subtract"), "a::BIGNUM - b"),
    **dict.fromkeys(("ceil", "ceiling", "floor", "round", "trunc"), "x itself, which is whole"),
}
# These are doubles of every integer, as everybody knows; but who writes BIGNUM wants all digits.
_EXACT_OF_BIGNUM = {
    **dict.fromkeys(("**", "^", "pow", "power"), "mul_exact(a, a) for a square, and so on"),
    "product": "list_reduce(list(x) FILTER (x IS NOT NULL), lambda a, b: mul_exact(a, b))",
}


def understood(
    connection: duckdb.DuckDBPyConnection,
    statement: Statement,
    relations: Mapping[str, Sequence[Column]],
) -> Statement:
    """The statement as it has to run. `relations` are columns by view. Raise InvalidQuery for text
    that is compared with bytes, and for integers that would be rounded."""
    statement, bound = _bound(connection, statement, relations)
    sql = without_semicolon(statement.sql)
    if bound.get("error"):
        _refuse_unread(bound, sql)
        return statement
    edits = _edits(connection, bound, sql, statement)
    if not edits:
        return statement
    edited = Edited(statement.sql, edits)
    return replace(statement, sql=edited.sql, edits=(*statement.edits, edited))


def _bound(
    connection: duckdb.DuckDBPyConnection,
    statement: Statement,
    relations: Mapping[str, Sequence[Column]],
) -> tuple[Statement, Node]:
    """DuckDB casts no list of text to one of bytes: where it finds no plan, lists of hex in which
    something is looked for are bytes, if that has one."""
    bound = bound_plan(connection, without_semicolon(statement.sql), relations)
    casts = hex_lists(connection, statement.sql) if bound.get("error_type") == "binder" else ()
    if not casts:
        return statement, bound
    edited = Edited(statement.sql, casts)
    meant = replace(statement, sql=edited.sql, edits=(*statement.edits, edited))
    found = bound_plan(connection, without_semicolon(meant.sql), relations)
    return (statement, bound) if found.get("error") else (meant, found)


def _edits(
    connection: duckdb.DuckDBPyConnection, bound: Node, sql: str, statement: Statement
) -> set[Edit]:
    """What a function is given that is constant DuckDB works out before it shows its plan: each of
    these parts is bound once more, by itself."""
    expressions = list(nodes(bound))
    for node in expressions:
        _refuse_rounded(node, sql, statement)
        _refuse_cut(node, statement)
        _refuse_mistaken(node, sql, statement)
    found = {_edit(node, sql, statement) for node in expressions if _makes_bytes(node)}
    edits = {edit for edit in found if edit is not None}
    for part in {_worked_out(node, sql, statement) for node in expressions} - {None, sql}:
        assert part is not None
        edits |= _edits(connection, bound_plan(connection, part, {}), part, statement)
    return edits


def _worked_out(node: Node, sql: str, statement: Statement) -> str | None:
    """What DuckDB has made a constant of, as a statement in which every byte is where it was. None:
    without hex, or in the text of a macro."""
    if node["expression_class"] != "BOUND_CONSTANT" or node["value"]["is_null"]:
        return None
    written, start = sql.encode(), node["query_location"]
    end = start + node["query_location_length"]
    if end > len(written):
        return None
    if written[start:end].startswith(b"::"):
        # The place is that of the sign alone.
        literal = _literal_before(written[:start])
        if literal is None:
            _refuse_letters(node, statement)
            return None
        start = literal
    part = written[start:end]
    is_literal = _HEX_LITERAL.fullmatch(part) is not None
    if is_literal or start < len(_SELECT) or _HEX_LITERAL.search(part) is None:
        return None
    # A place of a macro's text may be amid a character of this one.
    return (_SELECT.ljust(start) + part).decode(errors="replace")


def _literal_before(written: bytes) -> int | None:
    """Where the text begins that is the last word."""
    offset, kind = duckdb.tokenize(written.decode())[-1]
    return offset if kind == duckdb.token_type.string_const else None


def _refuse_letters(node: Node, statement: Statement) -> None:
    """Of what was cast to bytes, and is more than one literal."""
    kind, value = node["value"]["type"], node["value"]["value"]
    if converts(kind, kind, "BLOB", "BLOB") and any(map(_ALMOST_HEX.fullmatch, _texts(value))):
        _refuse(node, statement, "text is not bytes, and DuckDB would compare its letters")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def _refuse_unread(bound: Node, sql: str) -> None:
    """A statement's own mistakes are explained where it runs. One whose plan cannot be read must
    not have hex that could be compared as text, nor numbers that could be rounded."""
    if bound.get("error_type") not in (None, "not implemented", "serialization"):
        return
    if "bignum" in sql.lower():
        raise InvalidQuery(
            "it cannot be told whether the numbers in this statement would be rounded",
            hint="cast plain numbers to BIGNUM, such as 5::BIGNUM, and nothing worked out of them",
        )
    if re.search(r"'0[xX][0-9a-fA-F]*'", sql):
        raise InvalidQuery(
            "it cannot be told whether the hex in this statement is text or bytes",
            hint="write unhex('…') for bytes",
        )


def _is_cast(node: Node) -> bool:
    return node.get("type") == "OPERATOR_CAST"


def _makes_bytes(node: Node) -> bool:
    return _is_cast(node) and converts(node["arguments"][0], node["return_type"], "VARCHAR", "BLOB")


def _edit(cast: Node, sql: str, statement: Statement) -> Edit | None:
    """The literal as DuckDB writes its bytes, in the same quotes. None: it is right already."""
    child = cast["children"][0]
    if child["expression_class"] != "BOUND_CONSTANT":
        _refuse(cast, statement, "text is not bytes, and DuckDB would compare its letters")
    if child["value"]["is_null"]:
        return None
    value = str(child["value"]["value"])
    hexed = _HEX.fullmatch(value)
    if hexed is None:
        if _is_written(cast, sql) and not _ALMOST_HEX.fullmatch(value):
            return None
        _refuse(cast, statement, f"the text {value[:80]!r} is not bytes", hint_of(value))
    start, length = child["query_location"], child["query_location_length"]
    if sql.encode()[start : start + length] != b"'" + value.encode() + b"'":
        _refuse(cast, statement, f"the text {value[:80]!r} is not bytes here")
    return Edit(start, start + length, b"'" + _escaped(hexed[1]) + b"'")


def _escaped(digits: str) -> bytes:
    return b"".join(rb"\x" + digits[at : at + 2].encode() for at in range(0, len(digits), 2))


def _is_written(cast: Node, sql: str) -> bool:
    """Whether the statement itself has this cast; one of DuckDB's is where its value is."""
    child, at = cast["children"][0], cast["query_location"]
    known = len(sql.encode())
    if at > known:
        return False
    if child["query_location"] <= known:
        return bool(child["query_location"] != at)
    return child["expression_class"] == "BOUND_CONSTANT" or bool(
        _WRITTEN_CAST.match(sql.encode(), at)
    )


def _refuse_rounded(node: Node, sql: str, statement: Statement) -> None:
    name = str((node.get("qname") or {}).get("path", [""])[-1])
    exact, wide_kinds = _EXACT.get(name), _WIDE
    if exact is None:
        exact, wide_kinds = _EXACT_OF_BIGNUM.get(name), frozenset({"BIGNUM"})
    if exact is None or node["return_type"]["id"] != "DOUBLE":
        return
    kinds = [_implicit_double(child, sql) for child in node["children"]]
    wide = next((kind for kind in kinds if kind in wide_kinds), None)
    if wide is None or not all(kind in _INTEGERS for kind in kinds):
        return
    _refuse(
        node,
        statement,
        f"{name!r} of {wide} would be a DOUBLE, which rounds beyond 2^53",
        f"write {exact}, or CAST(… AS DOUBLE) where rounding does not matter",
    )


def _refuse_cut(node: Node, statement: Statement) -> None:
    """DuckDB cuts a BIGNUM off at 128 bits when it becomes another integer, without a word."""
    if not _is_cast(node):
        return
    for kind in _INTEGERS - {"BIGNUM"}:
        if converts(node["arguments"][0], node["return_type"], "BIGNUM", kind):
            _refuse(
                node,
                statement,
                f"a BIGNUM that is too large for {kind} would lose its highest digits",
                f"write CAST(CAST(… AS VARCHAR) AS {kind}), which refuses it instead",
            )


def _refuse_mistaken(node: Node, sql: str, statement: Statement) -> None:
    """DuckDB's own casts, as those of SUMMARIZE, are nowhere in the text. Nor are the nodes of a
    macro, whose places are of its own text."""
    misread = misread_number(node)
    if misread is not None:
        raise InvalidQuery(misread[0], hint=misread[1])
    is_own = not _is_cast(node) or node["query_location"] <= len(sql.encode())
    found = mistake(node) if is_own else None
    if found is not None:
        _refuse(node, statement, *found)


def _implicit_double(node: Node, sql: str) -> str | None:
    """The type that DuckDB makes a DOUBLE of on its own."""
    if not _is_cast(node) or _is_written(node, sql):
        return None
    return str(node["arguments"][0]["id"])


def _refuse(node: Node, statement: Statement, reason: str, hint: str = BYTES_HINT) -> NoReturn:
    at = node["query_location"]
    place = {}
    if at <= len(statement.sql.encode()):
        line, column = statement.place(at)
        place = {"line": line, "column": column}
    raise InvalidQuery(reason, hint=hint, **place)
