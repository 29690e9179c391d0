"""Who a browser is: sessions that login links open. Where they are kept, `app` says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Session:
    user: str
    expires_at: datetime


class Sessions(Protocol):
    def open(self, code: str) -> tuple[str, Session] | None:
        """The token of a new session. None: nobody has this code, or not any more. It opens one
        session, whoever asks how often."""

    def find(self, token: str) -> Session | None:
        """None: there is none, or it is over."""

    def close(self, token: str) -> None:
        """It opens nothing from now on."""
