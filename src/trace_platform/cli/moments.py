"""Moments as people give them: `2026-11-18T14:00`, or how long ago, such as `90m` or `2d`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from trace_platform.domain.errors import BadInput

_AGO = re.compile(r"(\d{1,6})\s*(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment_of(text: str | None) -> datetime | None:
    """In UTC unless it says otherwise."""
    if text is None:
        return None
    if ago := _AGO.fullmatch(text.strip()):
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"'{text}' is no moment",
            hint="such as 2026-11-18T14:00 (UTC), 2026-11-18 or 90m, for 90 minutes ago",
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
