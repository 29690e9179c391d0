"""The statuses of tasks, as they may be typed."""

from __future__ import annotations

from typing import get_args

from trace_platform.domain.errors import BadInput
from trace_platform.wire.control import Status

STATUSES: tuple[Status, ...] = get_args(Status)


def status_of(text: str | None) -> Status | None:
    """In any case: failed is Failed."""
    if text is None:
        return None
    for status in STATUSES:
        if text.lower() == status.lower():
            return status
    raise BadInput(f"'{text}' is no status of tasks", hint=f"one of {', '.join(STATUSES)}")
