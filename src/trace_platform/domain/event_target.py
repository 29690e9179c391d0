"""Where events for others go, as a setting says it."""

from __future__ import annotations

from urllib.parse import urlsplit

from trace_platform.domain.errors import InvalidConfig


def check_target(target: str) -> str:
    """Raise InvalidConfig for what is neither file:/PATH nor a URL."""
    parts = urlsplit(target)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return target
    if parts.scheme in ("http", "https") and parts.hostname:
        return target
    raise InvalidConfig(
        f"events cannot be sent to {target!r}",
        hint='write "file:/PATH/events.jsonl", or the URL that takes them, such as'
        ' "https://lineage.example/api/v1/lineage"',
    )
