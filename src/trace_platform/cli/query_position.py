"""Shows where in the statement an error is."""

from __future__ import annotations

from rich.cells import cell_len

from trace_platform.cli.words import printable
from trace_platform.domain.errors import TraceError

# Of a long line, on each side of the position.
_AROUND = 60


def pointed(error: TraceError, sql: str) -> TraceError:
    """The error with the line and a caret below its column, where the service named them."""
    line, column = error.facts.get("line"), error.facts.get("column")
    lines = sql.splitlines()
    if not (isinstance(line, int) and isinstance(column, int) and 1 <= line <= len(lines)):
        return error
    excerpt = _excerpt(lines[line - 1], max(column, 1) - 1, f"{line} | ")
    return type(error)(f"{error.message}\n{excerpt}", hint=error.hint, **error.facts)


def _excerpt(text: str, offset: int, label: str) -> str:
    start = max(0, offset - _AROUND)
    before = ("…" if start else "") + _plain(text[start:offset])
    after = _plain(text[offset : offset + _AROUND]) + ("…" if len(text) > offset + _AROUND else "")
    return f"  {label}{before}{after}\n  {' ' * cell_len(label + before)}^"


def _plain(text: str) -> str:
    return printable(text.replace("\t", " "))
