"""Where a character of a text stands in the file: YAML folds lines, indents and escapes."""

from __future__ import annotations

from dataclasses import dataclass

_BLOCKS = ("|", ">")
_SPACE = " \t\r\n"
# Of an escape in double quotes: how many characters it has with its backslash.
_LONG_ESCAPES = {"x": 4, "u": 6, "U": 10}
# Of the others, those that stand for space or end a line.
_SPACE_ESCAPES = "nrt \t\n"


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A text of the file: its value, and from where to where it is written."""

    file: str
    start: int
    end: int
    value: str
    # As YAML calls it: None (plain), ', ", | or >.
    style: str | None

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Line and column in the file of those of the value, all from 1."""
        at = self._written_at(_offset(self.value, line, column))
        before = self.file[:at]
        return before.count("\n") + 1, at - before.rfind("\n")

    def _written_at(self, wanted: int) -> int:
        """Where the character of the value is written; behind the last one, where that ends."""
        at = self._first()
        found = at
        for character in self.value[: wanted + 1]:
            found, at = self._next(character, at)
        return found if wanted < len(self.value) else at

    def _first(self) -> int:
        if self.style in _BLOCKS:
            line_end = self.file.find("\n", self.start, self.end)
            return self.end if line_end < 0 else line_end + 1
        return self.start + (self.style is not None)

    def _next(self, character: str, at: int) -> tuple[int, int]:
        """Where it is written, and what is behind it. Space may stand for other space, or for none:
        all else is written in the order of the value."""
        if character in _SPACE:
            if at < self.end and self.file[at] == character and character != "\n":
                return at, at + 1
            length = self._escape_at(at)
            return (at, at + length) if length and self._escapes_space(at) else (at, at)
        while at < self.end and (self.file[at] in _SPACE or self._escapes_space(at)):
            at += self._escape_at(at) or 1
        if self.style == "'" and character == "'":
            return at, min(at + 2, self.end)
        return at, min(at + (self._escape_at(at) or 1), self.end)

    def _escape_at(self, at: int) -> int:
        if self.style != '"' or at + 1 >= self.end or self.file[at] != "\\":
            return 0
        return _LONG_ESCAPES.get(self.file[at + 1], 2)

    def _escapes_space(self, at: int) -> bool:
        length = self._escape_at(at)
        if length > 2:
            return int(self.file[at + 2 : at + length], 16) < 0x21
        return bool(length) and self.file[at + 1] in _SPACE_ESCAPES


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    before = lines[: max(line, 1) - 1]
    return min(sum(len(each) + 1 for each in before) + max(column, 1) - 1, len(text))
