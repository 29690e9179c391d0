"""A caller is who it says: it holds the secret of its kind."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Depends, Request

from trace_platform.domain.errors import SetupError, Unauthenticated
from trace_platform.wire.headers import AUTHORIZATION


def require(accepted: Callable[[], Sequence[str]], header: str) -> Any:
    """A dependency that lets a caller in who holds one of the secrets."""
    if not all(accepted()):
        raise SetupError(f"the secret behind {header} is empty")

    def check(request: Request) -> None:
        given = bearer(request) if header == AUTHORIZATION else request.headers.get(header, "")
        refuse_unknown(given.encode(), accepted(), header)

    return Depends(check)


def bearer(request: Request) -> str:
    """The token of `Authorization: Bearer TOKEN`; empty when there is none."""
    scheme, _, token = request.headers.get(AUTHORIZATION, "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def refuse_unknown(given: bytes, accepted: Sequence[str], header: str) -> None:
    # Every one of them is compared: how long it takes tells nothing.
    matches = [hmac.compare_digest(given, secret.encode()) for secret in accepted]
    if not (given and any(matches)):
        hint = "send it as Authorization: Bearer TOKEN" if header == AUTHORIZATION else None
        raise Unauthenticated(f"{header} is missing or wrong", hint=hint)
