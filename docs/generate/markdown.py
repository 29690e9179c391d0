"""Markdown of what is generated: tables, and the line that says where a page comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

NOTICE = "<!-- Written by `make docs` from the code: change what the code says, not this page. -->"


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *filter(None, parts)]) + "\n"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Empty when there are no rows."""
    lines = [_row(each) for each in rows]
    ruler = "|" + "---|" * len(titles)
    return "\n".join([_row(titles), ruler, *lines]) if lines else ""


def section(level: int, title: str, parts: Iterator[str]) -> str:
    return "\n\n".join(["#" * level + f" {title}", *filter(None, parts)])


def link(title: str) -> str:
    """To the section with this title, on the same page."""
    anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
    return f"[{title}](#{anchor})"


def default(field: dict[str, Any], *, required: bool) -> str:
    if required:
        return "required"
    value = field.get("default")
    if isinstance(value, dict) and value:
        return "its own"
    return "none" if value is None else f"`{json.dumps(value)}`"


def sentence(text: str) -> str:
    """One line, whatever lines it was written in."""
    told = " ".join(text.split())
    return told if not told or told.endswith((".", ":", "?")) else f"{told}."


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
