"""The words of a SQL statement, without what stands between them for people: comments and blanks.

Two statements with the same words mean the same, so a job whose SQL is only written differently is
the same job. Upper and lower case stay as they are: within quotes they count.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | --[^\n]* | /\*(?!\+)(?:(?!/\*|\*/).)*\*/ )
  | (?P<word>
        [rR]'[^']*' | [rR]"[^"]*"
      | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `[^`]*`
      | \w+ (?: \. \w* )*
      | (?P<open> /\* | \*/ | ['"`] )
      | .
    )
    """,
    re.VERBOSE | re.DOTALL,
)


def words(sql: str) -> list[str]:
    """What cannot be told apart for sure, such as a quote or a comment without its end, stays as it
    is written."""
    found: list[str] = []
    for token in _TOKEN.finditer(sql):
        if token["open"] is not None and token[0] != "*/":
            return [sql]
        if token["word"] is not None:
            found.append(token["word"])
    return found
