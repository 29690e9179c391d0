"""A caller is who it says: it holds the secret of its kind."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Depends, Request

from trace_platform.domain.errors import SetupError, Unauthenticated


def require(accepted: Callable[[], Sequence[str]], header: str) -> Any:
    """A dependency that lets a caller in who holds one of the secrets."""
    if not all(accepted()):
        raise SetupError(f"the secret behind {header} is empty")

    def check(request: Request) -> None:
        given = request.headers.get(header, "").removeprefix("Bearer ").encode()
        # Every one of them is compared: how long it takes tells nothing.
        matches = [hmac.compare_digest(given, secret.encode()) for secret in accepted()]
        if not any(matches):
            raise Unauthenticated(f"{header} is missing or wrong")

    return Depends(check)
