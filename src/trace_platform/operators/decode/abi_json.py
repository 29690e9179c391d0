"""Events and functions of a JSON ABI, as compilers write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_platform.operators.decode.abi import NAME, Event, Function, check_event
from trace_platform.operators.decode.abi_type import Param, parse_type

_MOST_DEPTH = 16


def events_of(entries: Sequence[Any]) -> tuple[Event, ...]:
    """Raise ValueError, which says which entry is wrong."""
    return tuple(
        check_event(Event(_name(each), _params(each), anonymous=each.get("anonymous") is True))
        for each in _of_kind(entries, "event")
    )


def functions_of(entries: Sequence[Any]) -> tuple[Function, ...]:
    return tuple(Function(_name(each), _params(each)) for each in _of_kind(entries, "function"))


def _of_kind(entries: Sequence[Any], kind: str) -> list[dict[str, Any]]:
    if any(not isinstance(each, dict) for each in entries):
        raise ValueError("a JSON ABI is a list of objects, each with a type, a name and inputs")
    # What has no type is a function: the format's own rule.
    return [each for each in entries if each.get("type", "function") == kind]


def _name(entry: dict[str, Any]) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"an entry of the JSON ABI has no name: {str(entry)[:120]}")
    return _checked(name)


def _checked(name: str) -> str:
    """Columns are called by it: it has no dots, quotes or spaces."""
    if NAME.fullmatch(name) is None:
        raise ValueError(f"{name[:80]!r} is no name of Solidity")
    return name


def _params(entry: dict[str, Any]) -> tuple[Param, ...]:
    try:
        return _listed(entry.get("inputs", []), 0)
    except ValueError as error:
        raise ValueError(f"{entry['name']} of the JSON ABI: {error}") from None


def _listed(inputs: Any, depth: int) -> tuple[Param, ...]:
    if not isinstance(inputs, list) or depth > _MOST_DEPTH:
        raise ValueError("inputs and components are lists, and no deeper than people write them")
    return tuple(_param(each, depth) for each in inputs)


def _param(given: Any, depth: int) -> Param:
    kind = given.get("type") if isinstance(given, dict) else None
    if not isinstance(kind, str):
        raise ValueError(f"a parameter has a type: {str(given)[:120]}")
    components = given.get("components")
    members = None if components is None else _listed(components, depth + 1)
    name = given.get("name") or ""
    return Param(
        _checked(str(name)) if name else "", parse_type(kind, members), given.get("indexed") is True
    )
