"""Standard Webhooks signatures (standardwebhooks.com): whether a delivery is from who it says.

The published package reads this machine's clock; here the caller says what time it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

TOLERANCE_S = 300
MIN_KEY_BYTES = 16
_PREFIX = "whsec_"


class SignatureRefused(Exception):
    """Its text says why: for the log alone, never for the caller."""


def signing_key(secret: str) -> bytes:
    """The key in `whsec_` and base64. Raise SignatureRefused for anything else."""
    text = secret.strip().removeprefix(_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SignatureRefused("the secret is not whsec_ and base64") from None
    if len(key) < MIN_KEY_BYTES:
        raise SignatureRefused(f"the secret has less than {MIN_KEY_BYTES} bytes")
    return key


def sign(key: bytes, webhook_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def verify(
    key: bytes, webhook_id: str, timestamp: str, signatures: str, body: bytes, now_s: float
) -> None:
    """Raise SignatureRefused unless one of the signatures is right and the time is about now."""
    if not (re.fullmatch(r"[\x21-\x7e]+", webhook_id) and re.fullmatch(r"[0-9]{1,12}", timestamp)):
        raise SignatureRefused("webhook-id or webhook-timestamp is missing or malformed")
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        raise SignatureRefused(f"webhook-timestamp is more than {TOLERANCE_S} s from now")
    expected = sign(key, webhook_id, int(timestamp), body).encode()
    # Every one of them is compared: how long it takes tells nothing.
    given = [each.encode("utf-8", "replace") for each in signatures.split(" ")]
    matches = [hmac.compare_digest(each, expected) for each in given]
    if not any(matches):
        raise SignatureRefused("no signature matches")
