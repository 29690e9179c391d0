"""Figures as people say them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """The two largest units: 3d 4h, 5m 12s; below a minute with one decimal."""
    if seconds < 60:
        return f"{max(seconds, 0.0):.1f} s"
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"
