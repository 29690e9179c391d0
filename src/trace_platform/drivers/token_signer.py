"""Signs the capability token of an attempt."""

from __future__ import annotations

from typing import Any, Protocol

from trace_platform.drivers.task_token import REFETCH_S

# No token may live longer: a signer counts on it when it forgets a key.
MAX_TOKEN_AGE_S = 86_400
# How long a key is shown before it signs. A verifier that fetched less than REFETCH_S ago knows it
# by then, and any other may fetch: whatever kids strangers name, none can be kept from it.
SHOWN_FIRST_S = int(2 * REFETCH_S)
# How long a key is shown after its successor took over. The five minutes on top cover clocks that
# differ, and another process that signs with the old key until it notices the new one.
KEEP_RETIRED_S = MAX_TOKEN_AGE_S + 300


class TokenSigner(Protocol):
    """ES256 over a JWT's claims. The private keys never leave the driver."""

    def sign(self, claims: dict[str, Any]) -> str:
        """The compact JWT, with the signing key's `kid` in its header."""

    def jwks(self) -> dict[str, Any]:
        """Public keys of every token that may still be alive or that is signed soon, the newest
        first.

        It shows at once what any process rotated, and costs little: it may be asked for every
        token with an unknown `kid`.
        """

    def rotate(self) -> str:
        """Show a new key from now on, sign with it SHOWN_FIRST_S later, and return its `kid`.

        The older keys stay in the JWKS until every token that they signed has expired.
        """
