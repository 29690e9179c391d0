"""What a reader of a page types, one command after the other, and what the page says is printed.

In a `console` block a command follows a `$ `, and the lines below it are what it prints; in an `sh`
or `bash` block every line is typed. How shown lines are compared: `documents_shown.py`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.documents import Block

SHELL = ("console", "sh", "bash")
_ERROR = re.compile(r"error( \[|: )|\S+\.ya?ml:\d+:\d+: ")
_ANSWER = re.compile(r"\[y/N\]: (\S+)$")


@dataclass(frozen=True, slots=True)
class Command:
    text: str
    line: int
    shown: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """The page shows an error, or that the question was answered with no."""
        return any(map(_ERROR.match, self.shown)) or self.answers == "n\n"

    @property
    def interrupted(self) -> bool:
        """It stays until Ctrl-C, which a terminal shows as ^C."""
        return self.shown[-1:] == ("^C",)

    @property
    def answers(self) -> str:
        """What the page types behind questions."""
        found = (_ANSWER.search(line) for line in self.shown)
        return "".join(f"{each[1]}\n" for each in found if each)


def commands(block: Block) -> list[Command]:
    lines = [(line, block.line + n) for n, line in enumerate(block.text.splitlines())]
    return list(_prompted(lines) if block.language == "console" else _plain(lines))


def _plain(lines: list[tuple[str, int]]) -> Iterator[Command]:
    while lines:
        text, at = lines.pop(0)
        while lines and not _is_whole(text):
            text += f"\n{lines.pop(0)[0]}"
        if text.strip():
            yield Command(text, at)


def _prompted(lines: list[tuple[str, int]]) -> Iterator[Command]:
    while lines:
        text, at = lines.pop(0)
        assert text.startswith("$ "), f"line {at}: a console block begins with a `$ `"
        text = text[2:]
        while lines and not _is_whole(text):
            text += f"\n{lines.pop(0)[0]}"
        shown: list[str] = []
        while lines and not lines[0][0].startswith("$ "):
            shown.append(lines.pop(0)[0])
        yield Command(text, at, tuple(shown))


def _is_whole(text: str) -> bool:
    """Bash would not ask for another line."""
    if text.endswith("\\"):
        return False
    read = subprocess.run(["bash", "-n"], input=f"{text}\n", capture_output=True, text=True)
    return not re.search("unexpected end of file|unexpected EOF|here-document", read.stderr)
