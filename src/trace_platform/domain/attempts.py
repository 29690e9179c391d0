"""How many attempts a task has, in words."""

from __future__ import annotations

# A source that ends is started again, however often: this stands in its job's row.
WITHOUT_END = 2**31 - 1


def attempt_limit(stored: int) -> int | None:
    """None where there is no limit."""
    return None if stored >= WITHOUT_END else stored


def of_attempts(counted: int, stored: int) -> str:
    """Such as `2 of 3`, or `2` where there is no limit."""
    limit = attempt_limit(stored)
    return f"{counted:,}" if limit is None else f"{counted:,} of {limit:,}"
