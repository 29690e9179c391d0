"""Finds the ends of statements: a `;` that is not in a string, a name or a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(
    r"""
    [eE]'(?:[^'\\]|''|\\.)*(?:'|\\?\Z)   # a string with escapes, or one that is still open
  | '(?:[^']|'')*(?:'|\Z)
  | "(?:[^"]|"")*(?:"|\Z)               # a name
  | [^\W\d][\w$]*                       # a word: what follows it is no `E` and no tag
  | --[^\n]*
  | (?P<comment>/\*)
  | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=tag)|\Z)
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def split(text: str) -> tuple[list[str], str]:
    """The statements that end with `;`, without it, and what follows the last of them."""
    statements, start, at = [], 0, 0
    for piece in _pieces(text):
        if piece == ";":
            statements.append(text[start:at].strip())
            start = at + 1
        at += len(piece)
    return [each for each in statements if says_something(each)], text[start:]


def says_something(text: str) -> bool:
    """False of space and comments."""
    return any(not (piece.isspace() or piece.startswith(("--", "/*"))) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while found := _PIECE.match(text, at):
        end = _end_of_comment(text, found.end()) if found["comment"] else found.end()
        yield text[at:end]
        at = end


def _end_of_comment(text: str, at: int) -> int:
    """Comments may hold comments."""
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(text, at)):
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return len(text) if depth else at
