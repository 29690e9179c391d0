"""The capability token of one attempt: its claims, and how a verifier reads it."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from pydantic import ValidationError

from trace_platform.domain.errors import Unauthenticated
from trace_platform.wire.task import Strict

ISSUER = "trace-dispatcher"
AUDIENCE = "trace-task"
# What could make a verifier fetch or trust a key that the token brings along.
_REFUSED_HEADERS = {"crit", "jwk", "jku", "x5u", "x5c"}


class GrantedDataset(Strict):
    dataset_uuid: UUID
    dataset_version: UUID
    alias: str
    files: list[str] = []


class TaskClaims(Strict):
    iss: str
    aud: str
    sub: str
    iat: int
    exp: int
    jti: str
    org_id: UUID
    task_id: UUID
    attempt: int
    datasets: list[GrantedDataset]
    read_prefixes: list[str]
    write_prefixes: list[str]


def read_token(token: str, jwks: dict[str, Any]) -> TaskClaims:
    """The claims of a valid token; Unauthenticated for anything else."""
    try:
        decoded = jwt.decode(token, KeySet.import_key_set(cast(Any, jwks)), algorithms=["ES256"])
        if _REFUSED_HEADERS & decoded.header.keys() or "kid" not in decoded.header:
            raise Unauthenticated("the capability token has a header that is not allowed")
        jwt.JWTClaimsRegistry(
            iss={"essential": True, "value": ISSUER},
            aud={"essential": True, "value": AUDIENCE},
            exp={"essential": True},
        ).validate(decoded.claims)
        return TaskClaims.model_validate(decoded.claims)
    except (JoseError, ValueError, ValidationError, TypeError):
        # One answer for every defect: the reason would help only somebody who forges tokens.
        raise Unauthenticated("the capability token is not valid") from None
