"""The capability token of one attempt: its claims, and how a verifier reads it.

Reading is on every task's way, hence the primitives instead of a JOSE library; that one still reads
the key sets. Of JWS it knows the one form that our signers write, and refuses every other.
"""

from __future__ import annotations

import json
import math
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from pydantic import StrictInt

from trace_platform.domain.errors import Unauthenticated, Unavailable
from trace_platform.wire.task import Strict

ISSUER = "trace-dispatcher"
AUDIENCE = "trace-task"
REFETCH_S = 30.0
# After a fetch that failed.
_RETRY_S = 5.0
MAX_TOKEN_CHARS = 2**20
# Read before the signature is known to be right.
_MAX_HEADER_CHARS = 1024
# How far the issuer's clock may be ahead of ours.
_LEEWAY_S = 60
_ES256 = ec.ECDSA(hashes.SHA256())
_Keys = dict[str, ec.EllipticCurvePublicKey]


class GrantedDataset(Strict):
    dataset_uuid: UUID
    dataset_version: UUID
    alias: str
    files: list[str] = []
    # Every file of the generation, also what comes: they would not fit a token.
    whole: bool = False
    filter: dict[str, Any] | None = None


class TaskClaims(Strict):
    iss: str
    aud: str
    sub: str
    iat: StrictInt
    exp: StrictInt
    jti: str
    org_id: UUID
    task_id: UUID
    attempt: StrictInt
    datasets: list[GrantedDataset]
    read_prefixes: list[str]
    write_prefixes: list[str]
    scratch_prefixes: list[str] = []
    # Whether the platform vouches for the operator; tokens from before this was said are of none.
    trusted: bool = False


class TokenVerifier:
    """Reads tokens with the keys of a JWKS, which `fetch` brings.

    It fetches when a token names a key that it does not know, at most once in `refetch_s`. Signers
    show a key for longer than that before they use it: names that strangers make up keep nobody
    from it. A fetch that fails changes nothing: the keys at hand go on verifying, and of any other
    nothing can be said until one succeeds. Threads may share a verifier.
    """

    def __init__(
        self,
        fetch: Callable[[], dict[str, Any]],
        *,
        refetch_s: float = REFETCH_S,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._refetch_s = refetch_s
        self._clock = clock
        self._monotonic = monotonic
        self._keys: _Keys = {}
        self._next_fetch = -math.inf
        self._has_failed = False
        self._fetching = threading.Lock()

    def read(self, token: str) -> TaskClaims:
        """The claims of a valid token; Unauthenticated for anything else.

        Unavailable while its key cannot be fetched: that is no defect of the token.
        """
        try:
            header, payload, signature = _split(token)
            key = self._key(_kid(header))
            _verify(key, f"{header}.{payload}", signature)
            return _claims(payload, self._clock())
        except (ValueError, InvalidSignature, RecursionError):
            # One answer for every defect: the reason would help only somebody who forges tokens.
            raise Unauthenticated("the capability token is not valid") from None

    def knows(self, token: str) -> bool:
        """Whether `read` answers at once, without a fetch."""
        try:
            return _kid(_split(token)[0]) in self._keys
        except (ValueError, RecursionError):
            return True

    def _key(self, kid: str) -> ec.EllipticCurvePublicKey:
        key = self._keys.get(kid) or self._fetched_key(kid)
        if key is None:
            raise ValueError("a kid that nobody knows")
        return key

    def _fetched_key(self, kid: str) -> ec.EllipticCurvePublicKey | None:
        with self._fetching:
            # Whoever waited here may find that the fetch before brought its key.
            if kid not in self._keys and self._monotonic() >= self._next_fetch:
                self._look_again()
        key = self._keys.get(kid)
        if key is None and self._has_failed:
            raise Unavailable("the keys of capability tokens cannot be fetched now")
        return key

    def _look_again(self) -> None:
        began, found = self._monotonic(), self._fetched_keys()
        self._has_failed = not found
        self._keys = found or self._keys
        pause_s = self._refetch_s if found else min(self._refetch_s, _RETRY_S)
        self._next_fetch = began + pause_s

    def _fetched_keys(self) -> _Keys:
        """Nothing when they cannot be had."""
        try:
            return _import_keys(self._fetch())
        except Exception:
            # Of any kind: an outage must not end what the keys at hand still can do.
            return {}


def _import_keys(jwks: dict[str, Any]) -> _Keys:
    """The keys that can sign with ES256, by kid. The others are not for these tokens."""
    keys: _Keys = {}
    for jwk in jwks["keys"]:
        key = _import_key(jwk)
        if key is None:
            continue
        if jwk["kid"] in keys:
            raise ValueError("two keys with one kid")
        keys[jwk["kid"]] = key
    return keys


def _import_key(jwk: dict[str, Any]) -> ec.EllipticCurvePublicKey | None:
    if jwk.get("kty") != "EC" or not isinstance(jwk.get("kid"), str):
        return None
    try:
        key = ECKey.import_key(jwk)
        key.check_use("sig")
        key.check_alg("ES256")
        key.check_key_op("verify")
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return key.public_key if key.curve_name == "P-256" else None


def _split(token: str) -> tuple[str, str, str]:
    if len(token) > MAX_TOKEN_CHARS:
        raise ValueError("too long")
    header, payload, signature = token.split(".", 3)
    return header, payload, signature


def _kid(segment: str) -> str:
    """The name of the key, from a header that says nothing unexpected."""
    if len(segment) > _MAX_HEADER_CHARS:
        raise ValueError("too long a header")
    header = _json_object(_decode(segment))
    # Whatever else a header can hold makes verifiers fetch or trust something (jwk, jku, x5u, x5c),
    # or changes how the rest is read (crit, b64, zip).
    if not header.keys() <= {"alg", "typ", "kid"}:
        raise ValueError("a header member that is not allowed")
    if header.get("alg") != "ES256" or header.get("typ", "JWT") != "JWT":
        raise ValueError("another algorithm or type")
    kid = header.get("kid")
    if not isinstance(kid, str):
        raise ValueError("no kid")
    return kid


def _verify(key: ec.EllipticCurvePublicKey, signed: str, segment: str) -> None:
    signature = _decode(segment)
    if len(signature) != 64:
        raise ValueError("not r and s of 32 bytes each")
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if not (r and s):
        raise ValueError("r or s is zero")
    key.verify(encode_dss_signature(r, s), signed.encode(), _ES256)


def _claims(segment: str, now: float) -> TaskClaims:
    # Our issuer sets no nbf: like every unknown claim, it is refused.
    claims = TaskClaims.model_validate(_json_object(_decode(segment)))
    if (claims.iss, claims.aud) != (ISSUER, AUDIENCE):
        raise ValueError("of another issuer or for another audience")
    if not claims.iat - _LEEWAY_S <= now < claims.exp:
        raise ValueError("expired, or from the future")
    return claims


def _decode(segment: str) -> bytes:
    """Base64url as it is written, and no other spelling of the same bytes."""
    raw = urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    if urlsafe_b64encode(raw).rstrip(b"=") != segment.encode():
        raise ValueError("not canonical base64url")
    return raw


def _json_object(raw: bytes) -> dict[str, Any]:
    found = json.loads(raw.decode(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member twice")
    return members


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
