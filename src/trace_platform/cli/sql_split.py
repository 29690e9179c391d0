"""Finds the ends of statements: a `;` that is not in a string, a name or a comment."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"""
    '(?:[^']|'')*(?:'|\Z)            # a string, or one that is still open
  | "(?:[^"]|"")*(?:"|\Z)            # a name
  | --[^\n]*
  | /\*.*?(?:\*/|\Z)
  | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=tag)|\Z)
  | (?P<end>;)
  | .
    """,
    re.VERBOSE | re.DOTALL,
)


def split(text: str) -> tuple[list[str], str]:
    """The statements that end with `;`, without it, and what follows the last of them."""
    statements, start = [], 0
    for piece in _PIECE.finditer(text):
        if piece["end"]:
            statements.append(text[start : piece.start()].strip())
            start = piece.end()
    return [each for each in statements if says_something(each)], text[start:]


def says_something(text: str) -> bool:
    """False of space and comments."""
    return any(
        not (piece[0].isspace() or piece[0].startswith(("--", "/*")))
        for piece in _PIECE.finditer(text)
    )
