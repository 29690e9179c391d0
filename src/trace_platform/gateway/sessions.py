"""Who a browser is: sessions that login links open. Where they are kept, `app` says."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Session:
    """The browser sends its cookie to every port of this host. The key it keeps for our pages,
    which send it along: whoever serves another port learns one without the other."""

    user: str
    expires_at: datetime
    key_digest: str = field(repr=False)

    def has_key(self, given: str) -> bool:
        return hmac.compare_digest(digest(given), self.key_digest)


@dataclass(frozen=True, slots=True)
class Opened:
    """What a browser is given, once: `token` as a cookie, `key` for its pages."""

    token: str = field(repr=False)
    key: str = field(repr=False)
    session: Session


def digest(secret: str) -> str:
    """What is kept of a token or key instead of itself."""
    return sha256(secret.encode(errors="replace")).hexdigest()


class Sessions(Protocol):
    def open(self, code: str) -> Opened | None:
        """A new session. None: nobody has this code, or not any more. It opens one session, whoever
        asks how often."""

    def find(self, token: str) -> Session | None:
        """None: there is none, or it is over."""

    def close(self, token: str) -> None:
        """It opens nothing from now on."""
