"""A JSON Schema's types as a person would say them: `integer, 1 or more`, `list of string`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

# Larger bounds are those of a column or a register, and tell a reader nothing.
_MAX_TOLD = 2**31 - 1
_FORMATS = {"uuid": "uuid", "date-time": "time"}
_OF_VALUE = {
    "minimum": "{:,} or more",
    "exclusiveMinimum": "more than {:,}",
    "maximum": "at most {:,}",
    "exclusiveMaximum": "less than {:,}",
}
_OF_LENGTH = {
    "maxLength": "at most {:,} characters",
    "minItems": "{:,} or more",
    "maxItems": "at most {:,}",
}


def type_words(
    field: Schema, models: Mapping[str, Schema], named: Callable[[str], str] | None = None
) -> str:
    """`models` are the schema's own definitions. `named` says how one that has fields is called;
    without it, it is an object."""

    def inner(schema: Schema) -> str:
        return type_words(schema, models, named)

    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        model = models.get(name, {})
        return named(name) if named and "properties" in model else inner(model)
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if "const" in field:
        return str(field["const"])
    choices = field.get("anyOf") or field.get("oneOf")
    if choices and "type" not in field:
        return " or ".join(dict.fromkeys(map(inner, choices)))
    return ", ".join([_kind(field, inner), *_limits(field)])


def _kind(field: Schema, inner: Callable[[Schema], str]) -> str:
    kind = str(field.get("type", "anything"))
    if kind == "array":
        return f"list of {inner(field.get('items', {}))}"
    if kind == "object":
        values = [*field.get("patternProperties", {}).values(), field.get("additionalProperties")]
        told = next((each for each in values if isinstance(each, Mapping) and each), None)
        return f"{inner(told)} by name" if told else kind
    return _FORMATS.get(field.get("format", ""), kind)


def _limits(field: Schema) -> Iterator[str]:
    for word, said in (_OF_VALUE | _OF_LENGTH).items():
        bound = field.get(word)
        if bound is not None and bound < _MAX_TOLD:
            yield said.format(bound)
