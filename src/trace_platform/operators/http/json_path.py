"""A value inside of a JSON document, by a path such as data.items.0.price."""

from __future__ import annotations

from typing import Any

# What stands for a value that is not there, where null is one.
MISSING = object()


def found_at(document: Any, path: str, otherwise: Any = None) -> Any:
    """A number is a place in a list, -1 its last one. `otherwise` when there is nothing."""
    found = document
    for step in path.split(".") if path else ():
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, list) and step == "-1" and found:
            found = found[-1]
        else:
            return otherwise
    return found


def placed_at(document: Any, path: str, value: Any) -> Any:
    """The document with this value at that place, in objects that are made where there are none."""
    step, _, rest = path.partition(".")
    there = document if isinstance(document, dict) else {}
    return {**there, step: placed_at(there.get(step), rest, value) if rest else value}
