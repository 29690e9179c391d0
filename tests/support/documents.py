"""The documents of the repository, taken apart: code, links and tables, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]

_FENCED = re.compile(
    r"^(?:<!-- not run: ([^\n]+) -->\n)?( *)```(\w*)\n(.*?)^\2```$", re.MULTILINE | re.DOTALL
)
# Within a paragraph it may go on in the next line.
_CODE = re.compile(r"`((?:[^`\n]|\n(?!\n))+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_RULER = re.compile(r"\|(-+\|)+")


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Block(Said):
    language: str
    not_run: str | None = None  # the reason, from an invisible comment above it


@dataclass(frozen=True, slots=True)
class Row:
    cells: dict[str, str]
    line: int


@dataclass(frozen=True)
class Document:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def prose(self) -> str:
        """What is outside of fenced blocks, every line where it was."""
        return _FENCED.sub(lambda found: "\n" * found[0].count("\n"), self.text)

    @cached_property
    def blocks(self) -> list[Block]:
        return [
            Block(dedent(found[4]), _line(found, 4), found[3], found[1])
            for found in _FENCED.finditer(self.text)
        ]

    @cached_property
    def codes(self) -> list[Said]:
        """`code` in the prose."""
        return [
            Said(" ".join(found[1].split()), _line(found)) for found in _CODE.finditer(self.prose)
        ]

    @cached_property
    def links(self) -> list[Said]:
        return [
            Said(found[1], _line(found))
            for found in _LINK.finditer(self.prose)
            if "://" not in found[1]
        ]

    @cached_property
    def anchors(self) -> set[str]:
        """As GitHub makes them of headings."""
        titles = _HEADING.findall(self.prose)
        return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}

    @cached_property
    def rows(self) -> list[Row]:
        """Of tables, by the titles of their columns; without cells when there are no titles."""
        return list(self._rows())

    def lines(self) -> Iterator[Said]:
        return (Said(text, n) for n, text in enumerate(self.text.splitlines(), 1))

    def _rows(self) -> Iterator[Row]:
        titles: list[str] = []
        lines = self.prose.splitlines()
        for n, line in enumerate(lines):
            if not line.startswith("|"):
                titles = []
            elif lines[n + 1 : n + 2] and _RULER.fullmatch(lines[n + 1]):
                titles = _cells(line)
            elif not _RULER.fullmatch(line):
                yield Row(dict(zip(titles, _cells(line), strict=False)), n + 1)


def _line(found: re.Match[str], group: int = 0) -> int:
    return found.string.count("\n", 0, found.start(group)) + 1


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


DOCUMENTS = [
    Document(ROOT / "README.md"),
    Document(ROOT / "CONTRIBUTING.md"),
    *(Document(path) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
