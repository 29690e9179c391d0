"""The reference of the DAG file, from its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs.generate import markdown
from trace_platform.dag.model.fields import DURATION_SCHEMA
from trace_platform.dag.model.json_schema import editor_schema
from trace_platform.domain.schema_words import type_words

INTRODUCTION = """\
Every field of a DAG file, from `trace dag schema`. What they mean together, with examples, and
what is checked beyond the fields is in [The DAG file](../dag.md); the fields of an operator's
`config` are in [Operators](operators.md).

A field that is not listed here is an error. Names are lower-case letters, digits and `_`, and
begin with a letter. A duration is written as `90s`, `10m`, `2h` or `1d`, or as a number of
seconds."""

# Sections that are not called as their part of the schema.
_TITLES = {
    "InputEdge": "Input",
    "JobOutputRef": "Output of a job",
    "DatasetRef": "Published dataset",
    "ManualSource": "Manual source",
    "AlwaysOnSource": "Source without end",
    "CronSource": "Cron source",
    "WebhookSource": "Webhook source",
}


def page() -> str:
    schema = _with_durations(editor_schema())
    sections = [_section(schema, name, places) for name, places in _parts(schema).items()]
    return markdown.page("The DAG file: every field", INTRODUCTION, *sections)


def _with_durations(value: Any) -> Any:
    """A text with a unit, or a number: said in a word."""
    text, number = DURATION_SCHEMA["anyOf"]
    if value in (text, number):
        return {"const": "duration"}
    if isinstance(value, dict):
        return {key: _with_durations(inner) for key, inner in value.items()}
    return [_with_durations(inner) for inner in value] if isinstance(value, list) else value


def _parts(schema: dict[str, Any]) -> dict[str, list[str]]:
    """Each part that has fields, with where it stands in a file; outer ones first."""
    places: dict[str, list[str]] = {}

    def visit(name: str, place: str) -> None:
        known = name in places
        places.setdefault(name, []).append(place)
        if known:
            return
        for field, value in _part(schema, name)["properties"].items():
            for inner, step in _named(value):
                visit(inner, f"{place}.{field}{step}".lstrip("."))

    visit("DAG", "")
    return places


def _part(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return schema if name == "DAG" else schema["$defs"][name]


def _named(value: Any, step: str = "") -> Iterator[tuple[str, str]]:
    """The parts that a field is made of, and how one steps into them."""
    if isinstance(value, list):
        for each in value:
            yield from _named(each, step)
    elif isinstance(value, dict):
        if "$ref" in value and "/properties/" not in value["$ref"]:
            yield value["$ref"].rpartition("/")[2], step
        for word, inner in value.items():
            if word == "patternProperties":
                yield from _named(list(inner.values()), f"{step}.NAME")
            else:
                yield from _named(inner, f"{step}[]" if word == "items" else step)


def _section(schema: dict[str, Any], name: str, places: list[str]) -> str:
    part = _part(schema, name)

    def parts() -> Iterator[str]:
        yield markdown.sentence(part.get("description", ""))
        told = ", ".join(f"`{place}`" for place in places if place)
        yield f"Stands at {told}." if told else ""
        yield markdown.table(("field", "type", "default", "meaning"), _rows(schema, part))

    return markdown.section(2, _title(name), parts())


def _rows(schema: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    needed = part.get("required", [])
    for name, field in part["properties"].items():
        yield (
            f"`{name}`",
            type_words(field, schema["$defs"], lambda each: markdown.link(_title(each))),
            markdown.default(field, required=name in needed),
            field["description"],
        )


def _title(name: str) -> str:
    return _TITLES.get(name, name)
