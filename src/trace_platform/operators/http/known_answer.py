"""What is kept of the answer that is committed, so that the next attempt knows one that is the
same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_platform.drivers.http_endpoint import Validators
from trace_platform.wire.operator_state import MAX_VALUE_CHARS

# Keys of the operator's state.
_ANSWER, _COLUMNS = "answer", "columns"


@dataclass(frozen=True, slots=True)
class KnownPage:
    url: str
    validators: Validators


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    digest: str | None
    # Of all pages, in their order; none where a page cannot be asked for in this way.
    pages: tuple[KnownPage, ...]
    # Those that no config declares.
    columns: Mapping[str, str]

    @staticmethod
    def in_state(state: Mapping[str, Any]) -> KnownAnswer:
        kept = state.get(_ANSWER) or {}
        return KnownAnswer(
            kept.get("digest"),
            tuple(KnownPage(url, Validators(*told)) for url, *told in kept.get("pages", ())),
            state.get(_COLUMNS) or {},
        )

    def as_state(self) -> dict[str, Any]:
        answer = {"digest": self.digest, "pages": _short(self.pages)}
        return {_ANSWER: answer, _COLUMNS: dict(self.columns) or None}


def _short(pages: Sequence[KnownPage]) -> list[list[str | None]]:
    """Without what is too long to be kept: then all pages are read, and compared."""
    told = [[p.url, p.validators.etag, p.validators.last_modified] for p in pages]
    return told if len(json.dumps(told)) < MAX_VALUE_CHARS - 200 else []
