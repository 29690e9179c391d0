"""Pins: a dataset as one of its generations has it, or as it was at a moment.

    blocks@4f2a61c0    "blocks@4f2a61c0"    blocks AT (VERSION => '4f2a61c0')
    blocks AT (TIMESTAMP => TIMESTAMP '2026-01-31 12:00:00')

DuckDB knows only the quoted one, as a table of that name; the others are written so before it
parses or runs them. Every edit is remembered: an error names a place of the caller's own text.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import duckdb

from trace_platform.sql.functions import fold
from trace_platform.sql.sql_text import quoted

_VERSION = re.compile(r"(?=[0-9a-fA-F-]{4,36}(?![0-9a-fA-F-]))[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*")
# In the text, where `--` begins a comment; what follows must not read on as a word.
_WRITTEN_VERSION = re.compile(rb"[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*(?![0-9A-Za-z_$\x80-\xff])")
_BARE_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_VERSION_CHARS = range(4, 37)
_MOMENT_CHARS = range(4, 65)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENTS = frozenset({"timestamp", "datetime", "timestamptz", "timestamp with time zone"})
_TIMESTAMP_HINT = "write AT (TIMESTAMP => TIMESTAMP '2026-01-31 12:00:00'), which is in UTC"

Node = dict[str, Any]


class BadPin(Exception):
    """It cannot be read; says why, and what would be right."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


@dataclass(frozen=True, slots=True)
class Pin:
    name: str
    # What the relation is called when the statement runs.
    view: str
    version: str | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """These bytes of a text become others."""

    start: int
    end: int
    text: bytes


class Edited:
    """A text after edits that do not overlap."""

    def __init__(self, before: str, edits: Iterable[Edit] = ()) -> None:
        self.before = before
        self._edits = sorted(edits)
        written, parts, done = before.encode(), [], 0
        for edit in self._edits:
            parts += [written[done : edit.start], edit.text]
            done = edit.end
        self.sql = b"".join([*parts, written[done:]]).decode()

    def original(self, position: int) -> int:
        """Where in the text before a byte of the text after was."""
        shift = 0
        for edit in self._edits:
            begin = edit.start + shift
            if position < begin:
                break
            if position < begin + len(edit.text):
                return edit.start
            shift += len(edit.text) - (edit.end - edit.start)
        return position - shift


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    # Without the space after it.
    text: bytes
    kind: duckdb.token_type

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def quote_pins(sql: str) -> Edited:
    """`name@version` as `"name@version"`, wherever DuckDB's own tokenizer sees a name and an @."""
    written = sql.encode()
    tokens = _tokens(sql)
    edits = []
    for name, operator in itertools.pairwise(tokens):
        if operator.text != b"@" or operator.start != name.end or not _is_name(name):
            continue
        version = _WRITTEN_VERSION.match(written, operator.end)
        if version is not None and len(version[0]) in _VERSION_CHARS:
            pinned = b'"' + written[name.start : version.end()] + b'"'
            edits.append(Edit(name.start, version.end(), pinned))
    return Edited(sql, edits)


def read_pin(node: Node) -> Pin | None:
    """How a relation of the tree is pinned, if it is. Raise BadPin."""
    name = str(node["table_name"])
    if node["at_clause"] is not None:
        return _read_clause(fold(name), node["at_clause"])
    if "@" not in name:
        return None
    bare, _, version = name.rpartition("@")
    return _generation(fold(bare), version)


def pin_in_tree(node: Node, pin: Pin) -> None:
    """The relation as it has to run: the view's name, and the dataset's as alias."""
    node["alias"] = node["alias"] or _bare(node)
    if node["at_clause"] is not None:
        node.update(table_name=pin.view, qualified_name={"path": [pin.view]}, at_clause=None)


def pin_in_text(sql: str, pinned: Iterable[tuple[Node, Pin]]) -> list[Edit]:
    """The same as edits of the text. Called before `pin_in_tree`."""
    written, tokens = sql.encode(), _tokens(sql)
    starts = [each.start for each in tokens]
    edits: list[Edit] = []
    for node, pin in pinned:
        start, length = node["query_location"], node["query_location_length"]
        own = tokens[bisect_left(starts, start) : bisect_left(starts, start + length)]
        edits += _pin(written, own, node, pin)
    return edits


def _pin(written: bytes, tokens: Sequence[_Token], node: Node, pin: Pin) -> list[Edit]:
    # `alias: name`
    name = tokens[2] if len(tokens) > 2 and tokens[1].text == b":" else tokens[0]
    alias = "" if node["alias"] else f" AS {quoted(_bare(node))}"
    if node["at_clause"] is None:
        return [Edit(name.end, name.end, alias.encode())]
    view = Edit(name.start, name.end, (quoted(pin.view) + alias).encode())
    clause = _clause(tokens, node["at_clause"]["expr"]["query_location"])
    # The lines stay, so that what follows is still on its own.
    lines = b"\n" * written.count(b"\n", clause.start, clause.stop)
    return [view, Edit(clause.start, clause.stop, lines)]


def _clause(tokens: Sequence[_Token], value_start: int) -> range:
    """From AT to the bracket that closes it."""
    first = max(n for n, each in enumerate(tokens) if _is_at(each) and each.start < value_start)
    open_ = 0
    for each in tokens[first + 1 :]:
        open_ += {b"(": 1, b")": -1}.get(each.text, 0)
        if each.text == b")" and open_ == 0:
            return range(tokens[first].start, each.end)
    return range(tokens[first].start, tokens[-1].end)


def _read_clause(name: str, clause: Node) -> Pin:
    unit = clause["unit"]
    if unit == "VERSION":
        return _generation(name, _constant(clause["expr"], "VERSION"))
    if unit == "TIMESTAMP":
        return _at(name, clause["expr"])
    raise BadPin(f"AT ({unit}) is not known", "use AT (VERSION => …) or AT (TIMESTAMP => …)")


def _generation(name: str, version: str) -> Pin:
    if _VERSION.fullmatch(version) is None:
        raise BadPin(
            f"{version!r} is no generation of a dataset",
            "give its id or the beginning of it: 4 to 36 hex digits and dashes",
        )
    version = fold(version)
    return Pin(name, f"{name}@{version}", version=version)


def _at(name: str, expression: Node) -> Pin:
    is_cast = expression["class"] == "CAST"
    if is_cast and fold(str(expression["type_expr"]["type_name"])) not in _MOMENTS:
        raise BadPin("the value of AT (TIMESTAMP) is no moment", _TIMESTAMP_HINT)
    said = _constant(expression["child"] if is_cast else expression, "TIMESTAMP").strip()
    if is_cast or _DATE.match(said):
        said = _moment(said)
    elif len(said) not in _MOMENT_CHARS:
        raise BadPin("the value of AT (TIMESTAMP) is no moment", _TIMESTAMP_HINT)
    return Pin(name, f"{name}@at {said}", at=said)


def _moment(said: str) -> str:
    """With its zone. Without one it is in UTC, as every other time of a statement is."""
    try:
        moment = datetime.fromisoformat(said)
        if moment.utcoffset() is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise BadPin(f"{said!r} is no moment", _TIMESTAMP_HINT) from None


def _constant(expression: Node, unit: str) -> str:
    if expression["class"] != "CONSTANT" or expression["literal"]["kind"] != "STRING":
        raise BadPin(
            f"the value of AT ({unit}) must be a string: it is read before anything runs",
            _TIMESTAMP_HINT if unit == "TIMESTAMP" else "write AT (VERSION => '4f2a61c0')",
        )
    return str(expression["literal"]["text"])


def _bare(node: Node) -> str:
    name = str(node["table_name"])
    return name if node["at_clause"] is not None else name.rpartition("@")[0]


def _tokens(sql: str) -> list[_Token]:
    written = sql.encode()
    found = duckdb.tokenize(sql)
    ends = [start for start, _ in found[1:]] + [len(written)]
    return [
        _Token(start, written[start:end].rstrip(), kind)
        for (start, kind), end in zip(found, ends, strict=False)
    ]


def _is_at(token: _Token) -> bool:
    return token.kind == duckdb.token_type.keyword and token.text.lower() == b"at"


def _is_name(token: _Token) -> bool:
    if _BARE_NAME.fullmatch(token.text) is None:
        return False
    kinds = duckdb.token_type
    return token.kind == kinds.identifier or (
        token.kind == kinds.keyword and fold(token.text.decode()) in _keywords_as_names()
    )


@cache
def _keywords_as_names() -> frozenset[str]:
    with duckdb.connect(":memory:") as connection:
        found = connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'unreserved'"
        ).fetchall()
    return frozenset(name for (name,) in found)
