"""Figures as people say them, in commands and answers alike."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """The two largest units: 3d 4h, 5m 12s; below a minute with one decimal: 12.3 s."""
    if seconds < 60:
        return f"{min(max(seconds, 0.0), 59.9):.1f} s"
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def size(n_bytes: float) -> str:
    """512 B, 1.5 MB: a thousand of one unit are one of the next."""
    if n_bytes < 1_000:
        return f"{n_bytes:.0f} B"
    for unit in ("kB", "MB", "GB"):
        n_bytes /= 1_000
        if round(n_bytes, 1) < 1_000:
            return f"{n_bytes:.1f} {unit}"
    return f"{n_bytes / 1_000:,.1f} TB"


def count(number: int, thing: str) -> str:
    """1 task, 1,200 tasks."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
