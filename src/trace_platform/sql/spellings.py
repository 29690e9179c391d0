"""What people type to look around, in the words that the gate reads.

    SHOW TABLES              FROM trace_catalog.show_tables
    SHOW blocks              DESCRIBE blocks
    PRAGMA table_info('t')   a SELECT over DESCRIBE FROM "t"
    duckdb_tables()          trace_catalog.duckdb_tables
    information_schema.x     trace_catalog.x
    EXPLAIN SELECT …         SELECT …, and that its plan is wanted

Nothing is allowed here: the text that comes out is parsed and checked like any other. What is not
known is left as it is, for the gate to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import duckdb

from trace_platform.sql.catalog import FUNCTIONS, SCHEMA, VIEWS
from trace_platform.sql.functions import fold
from trace_platform.sql.pins import Edit, Edited
from trace_platform.sql.sql_text import quoted

Explaining = Literal["plan", "analyze"]

_IS_NAME = re.compile(r"[a-z_][a-z0-9_@-]*").fullmatch
_SHOWS = {
    ("show", "tables"): "show_tables",
    ("pragma", "show_tables"): "show_tables",
    ("show", "all", "tables"): "show_all_tables",
    ("show",): "show_all_tables",
    ("describe",): "show_all_tables",
    ("desc",): "show_all_tables",
}
# Beside tables and datasets these are what SHOW knows in DuckDB.
_OTHER_SHOWS = frozenset({"all", "databases", "schemas", "tables", "variables"})


@dataclass(frozen=True, slots=True)
class Spelled:
    edited: Edited
    # What is wanted instead of the rows.
    explaining: Explaining | None = None


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    # Folded, and without its quotes.
    text: str
    # Of a name or a string.
    quote: str = ""


def spelled(sql: str) -> Spelled:
    words = _words(sql)
    explaining, begin = _explained(words)
    edits = list(_edits(words[begin:]))
    if begin:
        # Blanks, so that every other byte stays where it is.
        first, last = words[0], words[begin - 1]
        edits.append(Edit(first.start, last.end, b" " * (last.end - first.start)))
    return Spelled(Edited(sql, edits), explaining)


def _explained(words: Sequence[_Word]) -> tuple[Explaining | None, int]:
    """What is to be explained, and at which word it begins."""
    if _command(words, 0) != "explain" or _command(words, 1) == "(":
        return None, 0
    return ("analyze", 2) if _command(words, 1) == "analyze" else ("plan", 1)


def _edits(words: Sequence[_Word]) -> Iterator[Edit]:
    at = 0
    while at < len(words):
        edit, used = _edit(words, at)
        if edit is not None:
            yield edit
        at += used


def _edit(words: Sequence[_Word], at: int) -> tuple[Edit | None, int]:
    """The edit of what begins here, and how many words that is."""
    begins = at == 0 or words[at - 1].text == "("
    if begins and (shown := _shown(words, at)):
        return shown
    if begins and (described := _described(words, at)):
        return described
    return _named(words, at) or (None, 1)


def _shown(words: Sequence[_Word], at: int) -> tuple[Edit, int] | None:
    """SHOW, and DESCRIBE of nothing."""
    for said, view in _SHOWS.items():
        # Of one word: in brackets it may be a column.
        may_be_here = at == 0 or len(said) > 1
        end = at + len(said)
        if may_be_here and _commands(words, at, end) == said and _ends(words, end):
            return _over(words, at, len(said), f"FROM {SCHEMA}.{view}"), len(said)
    if _command(words, at) == "show" and _is_dataset(words, at + 1, must_end=at > 0):
        return _over(words, at, 1, "DESCRIBE"), 1
    return None


def _is_dataset(words: Sequence[_Word], at: int, *, must_end: bool) -> bool:
    name = words[at] if at < len(words) else None
    if name is None or name.text in _OTHER_SHOWS or name.quote == "'":
        return False
    return not must_end or (_IS_NAME(name.text) is not None and _command(words, at + 1) == ")")


def _described(words: Sequence[_Word], at: int) -> tuple[Edit, int] | None:
    """A PRAGMA about the columns of a dataset; and what DuckDB tells no place of otherwise."""
    is_pragma = _commands(words, at, at + 3) == ("pragma", "table_info", "(")
    if is_pragma and _command(words, at + 4) == ")":
        return _over(words, at, 5, f"FROM {_table_info(words[at + 3])}"), 5
    is_command = _command(words, at) in ("describe", "desc", "summarize")
    if is_command and _catalog_view(words, at + 1):
        return Edit(words[at].end, words[at].end, b" FROM"), 1
    return None


def _named(words: Sequence[_Word], at: int) -> tuple[Edit, int] | None:
    """A relation of the catalog, wherever it is named."""
    if _catalog_view(words, at):
        return _over(words, at, 1, SCHEMA), 3
    name = _text(words, at)
    is_relation = at > 0 and _command(words, at - 1) in ("from", "join", ",")
    if name in FUNCTIONS and is_relation and _commands(words, at + 1, at + 3) == ("(", ")"):
        return _over(words, at, 3, f"{SCHEMA}.{name}"), 3
    is_info = name == "pragma_table_info" and _command(words, at + 1) == "("
    if is_info and _command(words, at + 3) == ")" and words[at + 2].quote == "'":
        return _over(words, at, 4, _table_info(words[at + 2])), 4
    return None


def _catalog_view(words: Sequence[_Word], at: int) -> bool:
    schema, dot, view = (_text(words, at + n) for n in range(3))
    return schema == "information_schema" and dot == "." and view in VIEWS


def _table_info(named: _Word) -> str:
    return (
        "(SELECT CAST(row_number() OVER () - 1 AS INTEGER) AS cid, column_name AS name,"
        ' column_type AS type, false AS "notnull", CAST(NULL AS VARCHAR) AS dflt_value,'
        f" false AS pk FROM (DESCRIBE FROM {quoted(named.text)}))"
    )


def _over(words: Sequence[_Word], at: int, count: int, text: str) -> Edit:
    return Edit(words[at].start, words[at + count - 1].end, text.encode())


def _ends(words: Sequence[_Word], at: int) -> bool:
    return at >= len(words) or _command(words, at) in (";", ")")


def _commands(words: Sequence[_Word], start: int, end: int) -> tuple[str, ...]:
    return tuple(_command(words, at) for at in range(start, end))


def _command(words: Sequence[_Word], at: int) -> str:
    """A word that is no name and no string for being in quotes."""
    return words[at].text if at < len(words) and not words[at].quote else ""


def _text(words: Sequence[_Word], at: int) -> str:
    return words[at].text if at < len(words) and words[at].quote != "'" else ""


def _words(sql: str) -> list[_Word]:
    written, tokens = sql.encode(), duckdb.tokenize(sql)
    ends = [start for start, _ in tokens[1:]] + [len(written)]
    words = []
    for (start, kind), end in zip(tokens, ends, strict=False):
        if kind == duckdb.token_type.comment:
            continue
        text = written[start:end].decode(errors="replace").rstrip()
        length = len(text.encode())
        words.append(_word(start, start + length, text))
    return words


def _word(start: int, end: int, text: str) -> _Word:
    quote = text[:1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else ""
    inner = text[1:-1].replace(2 * quote, quote) if quote else text
    return _Word(start, end, inner if quote == "'" else fold(inner), quote)
