"""Logging in at the gateway."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from trace_platform.wire.task import Strict


class Login(Strict):
    """`POST /v1/session`."""

    code: str = Field(
        min_length=1,
        max_length=512,
        description="What stands behind the # of a login link, or all of the link.",
    )


class LoggedIn(Strict):
    user: str = Field(description="Name of who is logged in.")
    expires_at: datetime | None = Field(
        description="When the session is over; null for a caller with a token."
    )
    key: str | None = Field(
        description="Told with the cookie alone: what the session's pages send as X-Trace-CSRF; "
        "null later."
    )
