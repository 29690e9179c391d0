"""Signs the capability token of an attempt."""

from __future__ import annotations

from typing import Any, Protocol

# No token may live longer: a signer counts on it when it forgets a key.
MAX_TOKEN_AGE_S = 86_400
# How long a key is shown after its successor took over. The five minutes on top cover clocks that
# differ, and another process that signs with the old key until it notices the new one.
KEEP_RETIRED_S = MAX_TOKEN_AGE_S + 300


class TokenSigner(Protocol):
    """ES256 over a JWT's claims. The private keys never leave the driver."""

    def sign(self, claims: dict[str, Any]) -> str:
        """The compact JWT, with the signing key's `kid` in its header."""

    def jwks(self) -> dict[str, Any]:
        """Public keys of every token that may still be alive, the signing one first.

        It shows at once what any process rotated, and costs little: it may be asked for every
        token with an unknown `kid`.
        """

    def rotate(self) -> str:
        """Sign with a new key from now on, and return its `kid`.

        The older keys stay in the JWKS until every token that they signed has expired.
        """
