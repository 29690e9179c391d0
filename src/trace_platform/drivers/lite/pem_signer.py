"""TokenSigner with a local P-256 key in a PEM file, made on first use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet


class PemSigner:
    def __init__(self, path: Path) -> None:
        self._key = ECKey.import_key(_ensure_pem(path))
        self._key.ensure_kid()

    def sign(self, claims: dict[str, Any]) -> str:
        header = {"alg": "ES256", "typ": "JWT", "kid": self._key.kid}
        return jwt.encode(header, claims, self._key, algorithms=["ES256"])

    def jwks(self) -> dict[str, Any]:
        return {"keys": KeySet([self._key]).as_dict(private=False)["keys"]}


def _ensure_pem(path: Path) -> bytes:
    """Two starters agree on one key: the first link wins."""
    if not path.exists():
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.touch(mode=0o600)
        partial.write_bytes(ECKey.generate_key("P-256").as_pem(private=True))
        try:
            os.link(partial, path)
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    return path.read_bytes()
