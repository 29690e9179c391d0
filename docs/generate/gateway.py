"""The gateway's OpenAPI: what the services behind it let users do, and what it answers itself.

The gateway serves the file, and lets nothing through that is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.generate.services import DISPATCHER, GATEWAY, QUERY, RPC, Service
from trace_platform.drivers.secret_schemes import Secret
from trace_platform.gateway.routes import SERVICE, TARGET

Schema = dict[str, Any]

FILE = Path(__file__).parents[2] / "src/trace_platform/gateway/openapi.json"
BEHIND: dict[str, Service] = {"dispatcher": DISPATCHER, "query": QUERY, "rpc": RPC}
# Whose secret opens an operation that the gateway passes on.
_LET_IN: tuple[Secret, ...] = ("user", "webhook")
# Where two services have the same path.
_ELSEWHERE = {
    ("query", "/v1/datasets"): "/v1/published",
    ("query", "/v1/datasets/{name}"): "/v1/published/{name}",
    ("query", "/v1/queries"): "/v1/own-queries",
    **{(name, "/metrics"): f"/v1/metrics/{name}" for name in BEHIND},
}


def text() -> str:
    return json.dumps(describe(), indent=1) + "\n"


def describe() -> Schema:
    described = GATEWAY.describe()
    found: Schema = {
        "openapi": described["openapi"],
        "info": {"title": "Trace", "version": described["info"]["version"]},
        "paths": {path: _renamed(path, ops) for path, ops in described["paths"].items()},
        "components": {"schemas": {}, "securitySchemes": {}},
    }
    for shared in found["components"]:
        found["components"][shared] |= described["components"].get(shared, {})
    for name, service in BEHIND.items():
        schema = service.describe()
        for path, methods in _passed_on(name, schema):
            known = found["paths"].setdefault(path, {})
            assert not known.keys() & methods.keys(), f"two services have {path}"
            known |= methods
        found["components"]["schemas"] |= schema["components"]["schemas"]
        found["components"]["securitySchemes"] |= {
            each: scheme
            for each, scheme in schema["components"]["securitySchemes"].items()
            if each in _LET_IN
        }
    _forget_unused(found)
    return found


def _passed_on(name: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    for path, methods in schema["paths"].items():
        let_in = {
            method: {**operation, SERVICE: name, TARGET: path}
            for method, operation in methods.items()
            if any(each in _LET_IN for wanted in operation.get("security", ()) for each in wanted)
        }
        if let_in:
            here = _ELSEWHERE.get((name, path), path)
            yield here, _renamed(here, let_in)


def _renamed(path: str, methods: Schema) -> Schema:
    """An id of its own for each, also where two services call theirs the same."""
    words = [word.strip("{}").replace("-", "_") for word in path.split("/") if word]
    return {
        method: {**operation, "operationId": "_".join([method, *words])}
        for method, operation in methods.items()
    }


def _forget_unused(schema: Schema) -> None:
    """Objects that only operations have which are not passed on."""
    used: set[str] = set()
    waiting: list[Any] = [schema["paths"]]
    schemas = schema["components"]["schemas"]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            if name and name not in used:
                used.add(name)
                waiting.append(schemas[name])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    schema["components"]["schemas"] = {name: schemas[name] for name in sorted(used)}
