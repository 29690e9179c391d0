"""What YAML 1.1 takes an unquoted word for, and where that is hardly what was meant."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from trace_platform.dag.read.errors import shown

MAX_NUMBER_BITS = 4_096
_MAX_DIGITS = 1_300

_RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = yaml.SafeLoader.yaml_implicit_resolvers
_TRUE = ("yes", "true", "on")
_OCTAL = re.compile(r"[-+]?0[0-7_]+")

# A value, and what is wrong with it.
Read = tuple[Any, str | None]


def plain_value(text: str) -> Read:
    """The value of an unquoted word."""
    kind = _kind(text)
    if kind is None:
        return text, None
    if kind in ("int", "float"):
        return _number(text, kind)
    if kind == "timestamp":
        return text, f'YAML reads {shown(text)} as a date: quote it, "{shown(text)}"'
    if kind == "bool":
        return text.lower() in _TRUE, None
    return (None, None) if kind == "null" else (text, None)


def _kind(text: str) -> str | None:
    for tag, pattern in _RESOLVERS.get(text[:1], ()):
        if pattern.match(text):
            return tag.rpartition(":")[2]
    return None


def _number(text: str, kind: str) -> Read:
    digits = text.replace("_", "").lower()
    if len(digits) > _MAX_DIGITS:
        return 0, f"a number has at most {MAX_NUMBER_BITS:,} bits"
    if ":" in digits:
        return 0, f'YAML reads {shown(text)} as a number to base 60: quote it, "{shown(text)}"'
    if kind == "float":
        return _float(digits)
    if _OCTAL.fullmatch(digits):
        meant = int(digits, 8)
        said = f"YAML reads {shown(text)} as the octal number {shown(str(meant))}"
        return meant, f'{said}: leave the first zero out, or quote it, "{shown(text)}"'
    value = int(digits, 0)
    if value.bit_length() > MAX_NUMBER_BITS:
        return 0, f"a number has at most {MAX_NUMBER_BITS:,} bits"
    return value, None


def _float(digits: str) -> Read:
    value = float(digits.replace(".inf", "inf").replace(".nan", "nan"))
    return (value, None) if math.isfinite(value) else (0.0, "a number must be finite")
