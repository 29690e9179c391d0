"""Characters that a DAG file cannot have: they break it, or hide what it says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from trace_platform.dag.read.errors import DagError

BYTE_ORDER_MARK = "\ufeff"
_MAX_FOUND = 100

# Joiners and selectors are part of words and emoji in other scripts, never after a Latin letter.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"  # controls, broken text
    "|\r(?!\n)|[\u2028\u2029]"  # ends of lines that editors do not show as such
    "|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u2069\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
    "|(?<=[\x00-\x7f])[\u200c\u200d\ufe00-\ufe0f]"
    # Spaces that are none to YAML, where one belongs.
    "|(?:(?<=^)|(?<=[ :,\\[{-]))[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]",
    re.MULTILINE,
)
_CURES = {
    "\0": "save the file as text in UTF-8",
    "\r": "end lines with LF or CR LF",
    "\u00a0": "use a plain space",
}


def hidden_characters(text: str) -> Iterator[DagError]:
    """Every one of them with its place, up to a limit."""
    for count, match in enumerate(_HIDDEN.finditer(text)):
        if count == _MAX_FOUND:
            return
        start = match.start()
        line = _lines_before(text, start)
        column = start - (max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1) + 1
        yield DagError(line, column, "", _said(match[0]))


def _lines_before(text: str, end: int) -> int:
    head = text[:end]
    return 1 + head.count("\n") + len(re.findall("\r(?!\n)", head))


def _said(character: str) -> str:
    name = unicodedata.name(character, "")
    said = f"U+{ord(character):04X}{' ' + name if name else ''}"
    if unicodedata.category(character) == "Zs":
        return f"{said} is no space to YAML: use a plain one"
    if "\ud800" <= character <= "\udfff":
        return f"{said} is half a character: save the file in UTF-8"
    if character in _CURES:
        return f"{said} is not allowed: {_CURES[character]}"
    return f"{said} cannot be seen, and hides what the file says: remove it"
