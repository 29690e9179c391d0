"""The error that a server named, for its client to raise. Light: clients import it."""

from __future__ import annotations

from typing import Any

from trace_platform.domain.errors import TraceError, Unavailable, subclasses

# What an error calls its own; facts of the same name would collide.
_RESERVED = frozenset({"message", "hint"})


def error_from(status: int, body: dict[str, Any]) -> TraceError:
    """From a problem+json body; of a server that names none, what its status says."""
    kind = subclasses().get(str(body.get("code")), Unavailable if status > 500 else TraceError)
    detail = str(body.get("detail") or f"the server answered {status}")
    facts = {k: v for k, v in (body.get("facts") or {}).items() if k not in _RESERVED}
    return kind(detail, hint=body.get("hint"), **facts)
