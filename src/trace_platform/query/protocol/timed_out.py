"""What is said of a query that took too long, by whoever notices first: its child or the parent."""

from __future__ import annotations

from trace_platform.domain.errors import QueryTooLarge


def timed_out(timeout_s: float) -> QueryTooLarge:
    return QueryTooLarge(
        f"the query ran longer than {timeout_s:g} s and was stopped",
        hint="read fewer rows, such as a range of block_number, aggregate in steps, or let a job"
        " with the query_export operator write the result",
        timeout_s=timeout_s,
    )
