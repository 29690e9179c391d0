"""Is what a page shows what was printed?

The notation of pages: a line `...` stands for any lines, `...` or `…` within a line for any text,
and `^C` at the end for Ctrl-C. Ids, hex, moments, durations and sizes differ from run to run, so
any one stands for any other; so do the widths of columns and lines. All else is compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_VARYING = [
    (re.compile(r"0x[0-9a-fA-F]+(…[0-9a-fA-F]*)?"), "<hex>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}(-…|\b)"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "<moment>"),
    (re.compile(r"\b\d+:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\d[\d.,]* ?(ms|s|min|m|h|d)\b( ?\d+ ?(ms|s|min|m|h|d)\b)*"), "<time>"),
    (re.compile(r"\d[\d.,]* ?([kKMGT]i?)?B\b"), "<size>"),
    (re.compile(r"[─━═]+"), "─"),
    (re.compile(r"\s+"), " "),
]


def fits(shown: Sequence[str], printed: str) -> bool:
    lines = [line for line in map(alike, shown) if line and line != "^C"]
    said = "".join(f"{line}\n" for line in map(alike, printed.splitlines()) if line)
    return re.fullmatch("".join(map(_pattern, lines)), said) is not None


def begins(shown: Sequence[str], printed: str) -> bool:
    """For what stays until Ctrl-C: what is shown has come by now."""
    return fits((*shown, "..."), printed)


def alike(line: str) -> str:
    for pattern, name in _VARYING:
        line = pattern.sub(name, line)
    return line.strip()


def _pattern(line: str) -> str:
    if line == "...":
        return r"(?:.*\n)*"
    return ".*".join(map(re.escape, re.split(r"\.\.\.|…", line))) + r"\n"
