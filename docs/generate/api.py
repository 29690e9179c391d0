"""The reference of the HTTP API, from the OpenAPI of each service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs.generate import markdown
from docs.generate.services import SERVICES, Service
from trace_platform.domain.schema_words import type_words
from trace_platform.drivers.secret_schemes import SCHEMES

Schema = dict[str, Any]

INTRODUCTION = """\
Every endpoint of the services that answer over HTTP, from what each says of itself at
`/openapi.json`. They speak HTTPS with certificates of the instance's own CA, the gateway as its
settings say; `trace status` says at which ports. Requests and answers are JSON unless something
else is said. A field of a request that is not listed here is an error.

An error is `application/problem+json`, a [ProblemDetails](#problemdetails), with one of the
statuses that stand at each endpoint; [Errors](../errors.md) lists the codes."""

_WHO = """Each endpoint wants one secret, or none. [Who can do what](../security.md) tells more."""


def page() -> str:
    """An object that two services know is one of the same name and the same fields."""
    described = [(service, service.describe()) for service in SERVICES]
    models: Schema = {}
    for _, schema in described:
        for name, model in schema["components"]["schemas"].items():
            assert models.setdefault(name, model) == model, name
    asked = _asked(described, models)
    return markdown.page(
        "HTTP API",
        INTRODUCTION,
        _callers(),
        *(_service(service, schema, models) for service, schema in described),
        markdown.section(2, "Objects", iter([_objects(models, asked)])),
    )


def _callers() -> str:
    rows = [
        (f"`{name}`", _sent(scheme), scheme["description"])
        for name, scheme in SCHEMES.items()
        if name != "task_bearer"
    ]
    told = [_WHO, markdown.table(("caller", "sends", "who that is"), rows)]
    return markdown.section(2, "Callers", iter(told))


def _sent(scheme: dict[str, str]) -> str:
    return f"`{scheme['name']}`" if "name" in scheme else "`Authorization: Bearer`"


def _service(service: Service, schema: Schema, models: Schema) -> str:
    def parts() -> Iterator[str]:
        yield service.about
        for tag, endpoints in _by_tag(schema).items():
            yield f"### {service.name}: {tag}"
            for method, path, operation in endpoints:
                yield _endpoint(method, path, operation, models)

    return markdown.section(2, service.name, parts())


def _by_tag(schema: Schema) -> dict[str, list[tuple[str, str, Schema]]]:
    """What is for people comes first."""
    found: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            (tag,) = operation["tags"]
            found.setdefault(tag, []).append((method.upper(), path, operation))
    return dict(sorted(found.items(), key=lambda tag: not _is_for_people(tag[1])))


def _is_for_people(endpoints: list[tuple[str, str, Schema]]) -> bool:
    """Most of them."""
    users = sum(_caller(operation) == "user" for _, _, operation in endpoints)
    return 2 * users > len(endpoints)


def _caller(operation: Schema) -> str | None:
    names = [name for each in operation.get("security", ()) for name in each]
    return names[0] if names else None


def _endpoint(method: str, path: str, operation: Schema, models: Schema) -> str:
    def parts() -> Iterator[str]:
        said = operation["summary"], operation.get("description", "")
        yield " ".join(filter(None, map(markdown.sentence, said)))
        yield markdown.table(
            ("parameter", "in", "type", "default", "meaning"), _parameters(operation, models)
        )
        yield "\n".join(_facts(operation, models))

    return markdown.section(4, f"`{method} {path}`", parts())


def _parameters(operation: Schema, models: Schema) -> Iterator[tuple[str, ...]]:
    for given in operation.get("parameters", ()):
        schema = given["schema"]
        yield (
            f"`{given['name']}`",
            given["in"],
            _optional_type(schema, models),
            markdown.default(schema, required=given.get("required", False)),
            meaning(given) or meaning(schema),
        )


def _optional_type(schema: Schema, models: Schema) -> str:
    """What is left out counts as null, which nobody has to write."""
    rest = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return _type(rest[0] if len(rest) == 1 else schema, models)


def meaning(schema: Schema) -> str:
    """Its own description, or that of what it is when it is not null."""
    found = (each.get("description") for each in (schema, *schema.get("anyOf", ())))
    return next(filter(None, found), "")


def _facts(operation: Schema, models: Schema) -> Iterator[str]:
    caller = _caller(operation)
    yield f"- Caller: {f'`{caller}`' if caller else 'anybody'}"
    body = operation.get("requestBody")
    if body:
        needed = "" if body.get("required") else ", may be left out"
        yield f"- Request: {_content(body, models)}{needed}"
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            yield f"- Answer: {status}, {_content(answer, models) or 'empty'}"
    errors = [status for status in operation["responses"] if not status.startswith("2")]
    yield f"- Errors: {', '.join(errors)}"


def _content(described: Schema, models: Schema) -> str:
    told = []
    for media, content in described.get("content", {}).items():
        words = _optional_type(content["schema"], models) if content.get("schema") else ""
        told.append(" as ".join(filter(None, [words, "" if _is_json(media) else f"`{media}`"])))
    return " or ".join(each or "JSON" for each in told)


def _is_json(media: str) -> bool:
    return media == "application/json"


def _asked(described: list[tuple[Service, Schema]], models: Schema) -> set[str]:
    """The objects that are part of a request: which of their fields may be left out matters."""
    waiting = [
        operation["requestBody"]
        for _, schema in described
        for methods in schema["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    found: set[str] = set()
    while waiting:
        for name in _named(waiting.pop()):
            if name not in found:
                found.add(name)
                waiting.append(models[name])
    return found


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _named(each)
    elif isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for inner in value.values():
            yield from _named(inner)


def _objects(models: Schema, asked: set[str]) -> str:
    return "\n\n".join(
        _object(name, models, asked=name in asked)
        for name in sorted(models)
        if "properties" in models[name]
    )


def _object(name: str, models: Schema, *, asked: bool) -> str:
    model = models[name]
    needed = model.get("required", [])

    def rows() -> Iterator[tuple[str, ...]]:
        for field, schema in model["properties"].items():
            default = (markdown.default(schema, required=field in needed),) if asked else ()
            yield (f"`{field}`", _type(schema, models), *default, meaning(schema))

    def parts() -> Iterator[str]:
        yield markdown.sentence(model.get("description", ""))
        default = ("default",) if asked else ()
        yield markdown.table(("field", "type", *default, "meaning"), rows())

    return markdown.section(3, name, parts())


def _type(schema: Schema, models: Schema) -> str:
    return type_words(schema, models, markdown.link)
