"""What a server answered, read by its client: the object, or the error that was named. Light:
clients import it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trace_platform.domain.errors import (
    DispatcherUnreachable,
    TraceError,
    Unavailable,
    subclasses,
)

# What an error calls its own; facts of the same name would collide.
_RESERVED = frozenset({"self", "message", "hint"})

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Server:
    """Whose answers are read. What stands between may say anything, with any status: whatever is
    no answer of the server's is `away`, which trying again may mend."""

    name: str
    away: type[Unavailable] = Unavailable

    def read(self, kind: type[M], body: bytes) -> M:
        try:
            return kind.model_validate_json(body)
        except ValidationError:
            raise self.away(
                f"the answer of {self.name} cannot be read as {kind.__name__}",
                hint="are both parts of the same version?",
            ) from None

    def error(self, status: int, body: bytes) -> TraceError:
        """What the problem+json of a refusal names."""
        try:
            problem = json.loads(body)
        except (ValueError, RecursionError):
            problem = None
        if not isinstance(problem, dict) or "code" not in problem:
            return self.away(f"{self.name} answered {status}")
        return error_from(status, problem)


DISPATCHER = Server("the dispatcher", DispatcherUnreachable)
QUERY_SERVICE = Server("the query service")


def error_from(status: int, problem: dict[str, Any]) -> TraceError:
    """Of a code that is not known here, what the status says."""
    kind = subclasses().get(str(problem.get("code")), Unavailable if status > 500 else TraceError)
    detail = str(problem.get("detail") or f"the server answered {status}")
    hint, said = problem.get("hint"), problem.get("facts")
    facts = said if isinstance(said, dict) else {}
    return kind(
        detail,
        hint=None if hint is None else str(hint),
        **{name: fact for name, fact in facts.items() if name not in _RESERVED},
    )
