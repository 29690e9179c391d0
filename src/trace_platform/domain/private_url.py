"""Whether what is sent to a URL can be read on the way."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_private(url: str) -> bool:
    """Whether nobody on the way can read what is sent there: it is encrypted, or stays on this
    machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return (
            parts.scheme.lower() == "https" or host == "localhost" or ip_address(host).is_loopback
        )
    except ValueError:
        # A name, which may lead anywhere; or no address at all.
        return False
