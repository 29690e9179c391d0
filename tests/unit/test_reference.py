"""The pages of docs/reference/ are what the code says, and the code says it of every field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from docs.generate.api import meaning
from docs.generate.pages import FOLDER, pages
from docs.generate.services import SERVICES
from trace_platform.cli.operators import own_operators
from trace_platform.dag.model.json_schema import editor_schema
from trace_platform.domain.schema_words import type_words

PAGES = pages()


def test_the_pages_are_what_the_command_writes() -> None:
    written = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert written.keys() == PAGES.keys()
    assert [name for name in PAGES if written[name] != PAGES[name]] == [], "run: make docs"


def test_every_field_has_a_description() -> None:
    silent = [
        *_of_services(),
        *_fields("a DAG file", editor_schema()),
        *(
            name
            for each in own_operators()
            if each.facts
            for name in _fields(each.name, each.facts.config)
        ),
    ]
    assert silent == []


def _of_services() -> Iterator[str]:
    for service in SERVICES:
        schema = service.describe()
        for path, methods in schema["paths"].items():
            for method, operation in methods.items():
                for given in operation.get("parameters", ()):
                    if not (meaning(given) or meaning(given["schema"])):
                        yield f"{service.name}: {method} {path}: {given['name']}"
        yield from _fields(service.name, {"$defs": schema["components"]["schemas"]})


def _fields(where: str, schema: dict[str, Any]) -> Iterator[str]:
    for name, model in {where: schema, **schema.get("$defs", {})}.items():
        for field, value in model.get("properties", {}).items():
            if not meaning(value):
                yield f"{where}: {name}.{field}"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 2**63 - 1}, "integer, 1 or more"),
        ({"type": "integer", "minimum": 1, "maximum": 100}, "integer, 1 to 100"),
        ({"type": "number", "exclusiveMinimum": 0}, "number, more than 0"),
        ({"type": "string", "format": "date-time"}, "time"),
        ({"enum": ["replace", "append"]}, "replace or append"),
        (
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "integer, 1 or more, or null",
        ),
        (
            {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 5},
            "list of string (at most 9 characters), at most 5",
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "integer by name"),
        ({"$ref": "#/$defs/Job"}, "JOB"),
        ({"$ref": "#/$defs/Job/properties/name"}, "string"),
    ],
)
def test_types_in_words(schema: dict[str, Any], said: str) -> None:
    job = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert type_words(schema, {"Job": job}, str.upper) == said
