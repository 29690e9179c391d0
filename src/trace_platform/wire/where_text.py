"""Filters on an input as SQL writes them, and the mapping that says the same.

    severity = 'critical' and chain_id in (1, 10) and block_number >= 100 and resolved_at is null

The mapping is what is kept: a filter has one meaning and one fingerprint, however it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from trace_platform.wire.where import Comparison, Path, Scalar, problems

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)(?![A-Za-z0-9_.])
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    | (?P<end>\Z)
    | (?P<other>[-+]?[0-9]\S*|\S)
    )""",
    re.VERBOSE,
)
_COMPARISONS: dict[str, Comparison] = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_KEYWORDS = ("and", "or", "not", "in", "is", "null", "between", "like", "true", "false")
_VALUES = "text in single quotes, a number, true or false"
_MAX_NUMBER = 1_000


class WrongText(Exception):
    """What is wrong with a filter that is text: how many characters into it, and of which column or
    condition."""

    def __init__(self, at: int, said: str, path: Path = ()) -> None:
        super().__init__(said)
        self.at, self.said, self.path = at, said, path


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def key(self) -> str:
        """A sign, or a word in lower case."""
        return self.text.lower() if self.kind in ("word", "sign") else ""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"{self.text[:40]!r}"


def parse_where(text: str) -> dict[str, Any]:
    """The mapping. Raise WrongText for the first thing that is wrong."""
    parser = _Parser(text)
    found = parser.conditions()
    for path, said in problems(found):
        raise WrongText(parser.begins.get(str(path[0]), 0) if path else 0, said, path)
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0
        # By column: where its last condition begins.
        self.begins: dict[str, int] = {}
        self._found: dict[str, Any] = {}

    def conditions(self) -> dict[str, Any]:
        if self._token.kind == "end":
            raise WrongText(0, "is empty: leave `where` out to read all rows")
        self._condition()
        while self._token.kind != "end":
            self._and()
            self._condition()
        return self._found

    def _and(self) -> None:
        if self._token.key == "or":
            cure = "for several values of one column write COLUMN in (...)"
            raise self._wrong(f"all conditions have to hold, so there is no OR: {cure}")
        try:
            self._expect("and", "AND goes between two conditions")
        except WrongText as error:
            # Of the last column: what is found may be a piece of its value.
            raise WrongText(error.at, error.said, (next(reversed(self.begins)),)) from None

    def _condition(self) -> None:
        token = self._token
        if token.key == "not":
            raise self._wrong("there is no NOT: say which values the column has")
        if token.kind != "word" or token.key in _KEYWORDS:
            shape = "a condition is COLUMN = VALUE, such as severity = 'critical'"
            raise self._wrong(f"a column belongs here, without quotes: {shape} (found {token})")
        column = self._take().text
        self.begins[column] = token.at
        try:
            self._comparison(column)
        except WrongText as error:
            raise WrongText(error.at, error.said, (column,)) from None

    def _comparison(self, column: str) -> None:
        sign = self._token
        if sign.key in ("=", "=="):
            self._take()
            self._set(column, sign, self._value())
        elif sign.key in _COMPARISONS:
            self._take()
            self._bound(column, sign, _COMPARISONS[sign.key])
        elif sign.key == "in":
            self._take()
            self._set(column, sign, {"in": self._values()})
        elif sign.key == "between":
            self._take()
            self._bound(column, sign, "gte")
            self._expect("and", "BETWEEN needs two values: BETWEEN 1 AND 10")
            self._bound(column, sign, "lte")
        elif sign.key == "is":
            self._take()
            self._expect("null", "only IS NULL is there, for rows without a value")
            self._set(column, sign, None)
        else:
            known = "=, <, <=, >, >=, IN (...), BETWEEN, IS NULL"
            raise self._wrong(f"a comparison belongs here: {known} (found {sign})")

    def _values(self) -> list[Scalar]:
        shape = "IN has its values in brackets, with commas between: IN (1, 10)"
        self._expect("(", shape)
        values = [self._value()]
        while self._token.key == ",":
            self._take()
            values.append(self._value())
        self._expect(")", shape)
        return values

    def _value(self) -> Scalar:
        token = self._token
        if token.kind not in ("text", "number") and token.key not in ("true", "false"):
            raise self._wrong(_no_value(token))
        self._take()
        return _literal(token)

    def _set(self, column: str, sign: _Token, condition: Any) -> None:
        if column in self._found:
            raise WrongText(
                sign.at, "the column has a condition already: one, or the two ends of a range"
            )
        self._found[column] = condition

    def _bound(self, column: str, sign: _Token, comparison: Comparison) -> None:
        bounds = self._found.setdefault(column, {})
        if not isinstance(bounds, dict) or "in" in bounds or comparison in bounds:
            raise WrongText(
                sign.at, "the column has a condition already: one, or the two ends of a range"
            )
        bounds[comparison] = self._value()

    def _expect(self, key: str, said: str) -> None:
        if self._token.key != key:
            raise self._wrong(f"{said} (found {self._token})")
        self._take()

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _wrong(self, said: str) -> WrongText:
        return WrongText(self._token.at, said)


def _tokens(text: str) -> list[_Token]:
    """Up to the end, which is one too."""
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        found.append(_Token(kind, match[kind], match.start(kind)))
        if kind == "end":
            break
    return found


def _no_value(token: _Token) -> str:
    if token.key == "null":
        return "in SQL nothing equals NULL: write COLUMN is null"
    if token.text.lower().startswith("0x"):
        return f"bytes are text too: write '{token.text[:40]}'"
    if token.text.startswith('"'):
        return "text is in single quotes, not in double ones"
    if token.text.startswith("'"):
        return "the quote is not closed; one inside of text is written twice"
    if token.kind == "word":
        return f"text is in single quotes: write '{token.text[:40]}'"
    return f"a value belongs here: {_VALUES} (found {token})"


def _literal(token: _Token) -> Scalar:
    if token.kind == "text":
        return token.text[1:-1].replace("''", "'")
    if token.kind == "word":
        return token.key == "true"
    if len(token.text) > _MAX_NUMBER:
        raise WrongText(token.at, "numbers lie between -2^256 and 2^256")
    whole = re.fullmatch(r"[-+]?[0-9]+", token.text)
    return int(token.text) if whole else float(token.text)
