"""Which operations there are at this door: those of openapi.json and no others.

The file is made from what the services say of themselves (docs/generate/gateway.py): what a user's
token or a webhook's signature opens. A path is compared as it was sent, piece by piece, so that no
spelling of another path passes for one of the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

Service = Literal["dispatcher", "query", "rpc"]
# Where an operation is behind the gateway, in its description.
SERVICE, TARGET = "x-trace-service", "x-trace-path"
_FILE = Path(__file__).with_name("openapi.json")
_PARAMETER = re.compile(r"\{[^/{}]+\}")


@dataclass(frozen=True, slots=True)
class Route:
    """`target`: the path there, with a `{}` for each parameter. `signed`: whoever calls it is known
    by a signature that the service checks."""

    service: Service
    target: str
    signed: bool = False

    def path(self, parameters: tuple[str, ...]) -> bytes:
        return self.target.format(*parameters).encode()


@dataclass(frozen=True, slots=True)
class Found:
    route: Route
    parameters: tuple[str, ...]

    @property
    def path(self) -> bytes:
        return self.route.path(self.parameters)


@cache
def description() -> bytes:
    """The gateway's OpenAPI."""
    return _FILE.read_bytes()


class RouteTable:
    def __init__(self, described: Mapping[str, Any]) -> None:
        self._exact: dict[str, dict[str, Route]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Route]]] = []
        for path, operations in described["paths"].items():
            routes = {
                method.upper(): _route(operation)
                for method, operation in operations.items()
                if SERVICE in operation
            }
            if routes and "{" in path:
                pattern = "([^/]+)".join(map(re.escape, _PARAMETER.split(path)))
                self._patterns.append((re.compile(pattern), routes))
            elif routes:
                self._exact[path] = routes

    def methods(self, path: str) -> tuple[dict[str, Route], tuple[str, ...]] | None:
        """The routes of a path by method, and its parameters as they were sent."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact, ()
        for pattern, routes in self._patterns:
            match = pattern.fullmatch(path)
            if match and all(map(_is_one_piece, match.groups())):
                return routes, match.groups()
        return None


@cache
def route_table() -> RouteTable:
    return RouteTable(json.loads(description()))


def _route(operation: Mapping[str, Any]) -> Route:
    signed = any("webhook" in each for each in operation.get("security", ()))
    return Route(operation[SERVICE], _PARAMETER.sub("{}", operation[TARGET]), signed)


def _is_one_piece(sent: str) -> bool:
    """The service decodes it before it looks for a route: it must be one piece there as well."""
    meant = unquote(sent, errors="replace")
    return (
        "/" not in meant and "\\" not in meant and meant not in (".", "..") and meant.isprintable()
    )
