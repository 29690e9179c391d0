"""Tasks over block ranges, as tests tell them apart."""

from __future__ import annotations

from trace_platform.wire.task import Claimed


def span(claimed: Claimed) -> tuple[int, int]:
    given = claimed.task.inputs[0]
    assert given.start is not None
    assert given.end is not None
    return given.start, given.end


def work(claims: list[Claimed]) -> list[tuple[str, int, int]]:
    """Which job is to do which range."""
    return sorted((claimed.task.job.name, *span(claimed)) for claimed in claims)
