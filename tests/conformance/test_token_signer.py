"""Every TokenSigner signs ES256 tokens that its own JWKS verifies, and shows no private part."""

from __future__ import annotations

from pathlib import Path

from joserfc import jwt
from joserfc.jwk import KeySet

from trace_platform.drivers.lite.pem_signer import PemSigner


def test_its_jwks_verifies_what_it_signs(tmp_path: Path) -> None:
    signer = PemSigner(tmp_path / "key.pem")
    token = jwt.decode(
        signer.sign({"sub": "x"}), KeySet.import_key_set(signer.jwks()), algorithms=["ES256"]
    )
    assert token.claims == {"sub": "x"}
    assert token.header["kid"] == signer.jwks()["keys"][0]["kid"]


def test_a_restart_keeps_the_key(tmp_path: Path) -> None:
    assert PemSigner(tmp_path / "k.pem").jwks() == PemSigner(tmp_path / "k.pem").jwks()


def test_the_private_key_stays_private(tmp_path: Path) -> None:
    signer = PemSigner(tmp_path / "key.pem")
    assert "d" not in signer.jwks()["keys"][0]
    assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0
