"""What an event is about, for people: a partition, or a cursor."""

from __future__ import annotations

from datetime import UTC, datetime

# No chain counts so many blocks; in seconds since 1970 it is 2001 to 2128.
_MOMENTS = range(10**9, 5 * 10**9)


def event_scope(partition_key: str | None, cursor: object) -> str:
    """The cursor of a tick is its second: the moment stands beside it."""
    if partition_key is not None:
        return partition_key
    if isinstance(cursor, int) and cursor in _MOMENTS:
        return f"{cursor}, {datetime.fromtimestamp(cursor, UTC):%Y-%m-%d %H:%M:%S}"
    return "" if cursor is None else str(cursor)
