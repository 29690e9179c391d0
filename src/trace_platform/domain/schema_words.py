"""A JSON Schema's types as a person would say them: `integer, 1 or more`, `list of string`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

# Larger bounds are those of a column or a register, and tell a reader nothing.
_MAX_TOLD = 2**31 - 1
_FORMATS = {"uuid": "uuid", "date-time": "time"}
_REF = re.compile(r"#/(?:\$defs|components/schemas)/([^/]+)(?:/properties/([^/]+))?")


def type_words(
    field: Schema, models: Mapping[str, Schema], named: Callable[[str], str] | None = None
) -> str:
    """`models` are the schema's own definitions. `named` says how one that has fields is called;
    without it, it is an object."""

    def inner(schema: Schema) -> str:
        return type_words(schema, models, named)

    if match := _REF.fullmatch(field.get("$ref", "")):
        name, within = match.groups()
        found = models.get(name, {})
        if within:
            return inner(found["properties"][within])
        return named(name) if named and "properties" in found else inner(found)
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if "const" in field:
        return str(field["const"])
    choices = field.get("anyOf") or field.get("oneOf")
    if choices and "type" not in field:
        told = list(dict.fromkeys(map(inner, choices)))
        return (", or " if any("," in each for each in told[:-1]) else " or ").join(told)
    return ", ".join([_kind(field, inner), *_limits(field)])


def _kind(field: Schema, inner: Callable[[Schema], str]) -> str:
    kind = str(field.get("type", "anything"))
    if kind == "array":
        of = inner(field.get("items", {}))
        return f"list of {of}" if "," not in of else f"list of {of.replace(', ', ' (', 1)})"
    if kind == "object":
        values = [*field.get("patternProperties", {}).values(), field.get("additionalProperties")]
        told = next((each for each in values if isinstance(each, Mapping) and each), None)
        return f"{inner(told)} by name" if told else kind
    return _FORMATS.get(field.get("format", ""), kind)


def _limits(field: Schema) -> Iterator[str]:
    yield from _between(field.get("minimum"), field.get("maximum"))
    yield from _between(field.get("minItems"), field.get("maxItems"))
    above, below, longest = (
        field.get(word) for word in ("exclusiveMinimum", "exclusiveMaximum", "maxLength")
    )
    if above is not None:
        yield f"more than {_figure(above)}"
    if below is not None:
        yield f"less than {_figure(below)}"
    if longest is not None:
        yield f"at most {longest:,} characters"


def _between(least: float | None, most: float | None) -> Iterator[str]:
    most = None if most is not None and most >= _MAX_TOLD else most
    if least is not None and most is not None:
        yield f"{_figure(least)} to {_figure(most)}"
    elif least is not None:
        yield f"{_figure(least)} or more"
    elif most is not None:
        yield f"at most {_figure(most)}"


def _figure(bound: float) -> str:
    """OpenAPI has every bound as a float."""
    return f"{int(bound) if bound == int(bound) else bound:,}"
