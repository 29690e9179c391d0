"""Secrets do not belong into logs: what a name or its shape gives away is replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_SECRET_NAMES = {
    *("token", "password", "passwd", "dsn", "authorization", "secret", "private_key", "capability"),
}
_SECRET_ENDINGS = tuple(f"_{name}" for name in sorted(_SECRET_NAMES))
# Secrets inside of texts, such as the message of an error.
_SECRET_TEXTS = (
    (
        re.compile(r"(?i)\b(password|passwd|pgpassword)(\s*[=:]\s*)('[^']*'|\"[^\"]*\"|[^\s,;&]+)"),
        2,
    ),
    # Headers of ours, as a line of a request or in a mapping.
    (
        re.compile(
            r"(?i)\b(x-trace-(?:task-capability|worker-token|service-token))"
            r"(['\"]?\s*[:=,]\s*['\"]?)[A-Za-z0-9._~+/=-]+"
        ),
        2,
    ),
    # A signed token, wherever it stands.
    (re.compile(r"\b(eyJ)()[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), 2),
    (re.compile(r"(?i)\b(bearer)(\s+)[A-Za-z0-9._~+/=-]+"), 2),
    (re.compile(r"(://[^\s:/@]*)(:)[^\s@/]+(?=@)"), 2),
)


def masked(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same facts, without the secrets among them."""
    return {key: _masked(key, value) for key, value in facts.items()}


def _masked(key: object, value: Any) -> Any:
    if _is_secret(key) and value is not None:
        return MASK
    if isinstance(value, Mapping):
        return {str(name): _masked(name, inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(None, inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return mask_text(str(value))


def mask_text(text: str) -> str:
    for pattern, kept in _SECRET_TEXTS:
        text = pattern.sub("".join(rf"\{n}" for n in range(1, kept + 1)) + MASK, text)
    return text


def _is_secret(key: object) -> bool:
    name = str(key).lower().replace("-", "_")
    return name in _SECRET_NAMES or name.endswith(_SECRET_ENDINGS)
