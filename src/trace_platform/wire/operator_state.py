"""What an operator has to find again, as an attempt writes and reads it."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from trace_platform.wire.fields import Strict

MAX_KEYS = 10_000
MAX_VALUE_CHARS = 10_000

Key = Annotated[str, StringConstraints(min_length=1, max_length=512)]


def _short(value: Any) -> Any:
    if len(json.dumps(value)) > MAX_VALUE_CHARS:
        raise ValueError(f"a value has at most {MAX_VALUE_CHARS:,} characters as JSON")
    return value


State = Annotated[dict[Key, Annotated[Any, AfterValidator(_short)]], Field(max_length=MAX_KEYS)]


class StateResponse(Strict):
    state: dict[str, Any] = Field(
        description="All that attempts of the job have kept in this generation, by key."
    )
