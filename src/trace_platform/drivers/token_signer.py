"""Signs the capability token of an attempt."""

from __future__ import annotations

from typing import Any, Protocol


class TokenSigner(Protocol):
    """ES256 over a JWT's claims. The private key never leaves the driver."""

    def sign(self, claims: dict[str, Any]) -> str:
        """The compact JWT, with the signing key's `kid` in its header."""

    def jwks(self) -> dict[str, Any]:
        """Public keys of every token that may still be alive."""
