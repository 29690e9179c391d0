"""The URL of a node: what of it may be shown, and what has to be hidden.

A key may stand in the userinfo, the path or the query. Errors name `scheme://host:port` only, and
what a node says is scrubbed of the other parts before it is repeated.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, unquote, urlsplit

from trace_platform.domain.errors import InvalidConfig

_SHOWN_CHARACTERS = 200


def parse_url(url: str) -> SplitResult:
    """Raise InvalidConfig, without repeating the URL, when it is not one of a node."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    plain = re.fullmatch(r"[!-~]+", url) is not None  # what is outside ASCII has to be encoded
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise InvalidConfig(
            "the rpc_pool's URL is not an http or https URL", hint="write http://HOST:PORT/…"
        )
    return parts


def shown(url: SplitResult) -> str:
    """What may be shown of it."""
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    return f"{url.scheme}://{host}:{port_of(url)}"


def port_of(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def target(url: SplitResult) -> str:
    """Path and query, as the request line has them."""
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def login(url: SplitResult) -> str | None:
    """The Authorization header that the userinfo stands for."""
    if url.username is None:
        return None
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def secrets_in(url: SplitResult) -> list[str]:
    """The parts that may be a key, longest first; short words such as `v1` are not."""
    parts = {url.username or "", url.password or "", url.query, *url.path.split("/")}
    parts |= set(re.split(r"[&=]", url.query))
    return sorted((part for part in parts if len(part) >= 6), key=len, reverse=True)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """One short line without the secrets."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return re.sub(r"\s+", " ", text)[:_SHOWN_CHARACTERS]


def reason(error: BaseException) -> str:
    """Why a connection failed; never the address that the error's text may hold."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def retry_after_s(value: str | None) -> float:
    """Seconds from either form of the header; 0 when there is none or it says nothing."""
    if not value:
        return 0.0
    if re.fullmatch(r"\s*[0-9]+\s*", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
