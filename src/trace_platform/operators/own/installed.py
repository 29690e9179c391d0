"""Operators of packages that are installed beside Trace: entry points by name."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, cast

from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.own.load_code import cannot_import

if TYPE_CHECKING:
    from trace_platform.operators.contract import Operator

GROUP = "trace_platform.operators"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")


@cache
def installed() -> dict[str, tuple[EntryPoint, ...]]:
    """By name. Two packages may give the same one: then neither can be used."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        if _NAME.fullmatch(point.name):
            found[point.name] = (*found.get(point.name, ()), point)
    return found


def origin_of(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else point.value


def load_installed(name: str) -> type[Operator]:
    """Raise InvalidConfig when it cannot be imported, is no class, or is there twice."""
    first, *others = installed()[name]
    if others:
        said = " and ".join(map(origin_of, (first, *others)))
        raise InvalidConfig(
            f"operator {name!r} is in {said}", hint="remove one, or give it another name"
        )
    try:
        found = first.load()
    except Exception as error:
        raise cannot_import(f"operator {name!r} of {origin_of(first)}", error) from error
    if not isinstance(found, type):
        raise InvalidConfig(f"operator {name!r} of {origin_of(first)} is no class")
    return cast("type[Operator]", found)
