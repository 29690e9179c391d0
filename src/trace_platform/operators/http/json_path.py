"""A value inside of a JSON document, by a path such as data.items.0.price."""

from __future__ import annotations

from typing import Any

# What stands for a value that is not there, where null is one.
MISSING = object()


def found_at(document: Any, path: str, otherwise: Any = None) -> Any:
    """A number is a place in a list. `otherwise` when there is nothing."""
    found = document
    for step in path.split(".") if path else ():
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return otherwise
    return found
