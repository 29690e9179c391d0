"""The instance's own CA and server certificate, made on the first start and renewed in time."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trace_platform.drivers.lite.file_lock import locked

_CA_LIFE = timedelta(days=3650)
_SERVER_LIFE = timedelta(days=397)
_RENEW_BEFORE = timedelta(days=30)
# Certificates are compared with other machines' clocks too.
_CLOCK_SKEW = timedelta(hours=1)

_Pair = tuple[ec.EllipticCurvePrivateKey, x509.Certificate]


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files. Clients trust `ca`; servers show `server` and keep `key`."""

    ca: Path
    server: Path
    key: Path


def ensure_certificates(folder: Path, now: datetime | None = None) -> Certificates:
    """Certificates that are valid for another month at least. Safe with two starters."""
    now = now or datetime.now(UTC)
    found = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder / "lock"):
        ca_key = folder / "ca.key"
        if not _fits(found.ca, ca_key, now):
            _write_pair(ca_key, found.ca, *_make_ca(now))
        ca = _certificate(found.ca)
        if not (_fits(found.server, found.key, now) and _signed_by(found.server, ca)):
            _write_pair(found.key, found.server, *_make_server(ca, _private_key(ca_key), now))
    return found


def _make_ca(now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # A serial in the name keeps an old and a new CA apart in one trust store.
    name = _name(f"Trace instance CA {x509.random_serial_number():x}"[:48])
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(name, name, key.public_key(), now, _CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return key, builder.sign(key, hashes.SHA256())


def _make_server(ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    addresses = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        _builder(_name("localhost"), ca.subject, key.public_key(), now, _SERVER_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(addresses, critical=False)
        .add_extension(issuer, critical=False)
    )
    return key, builder.sign(ca_key, hashes.SHA256())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _fits(certificate: Path, key: Path, now: datetime) -> bool:
    """Valid for a month more, and of this key: a crash between the two files left no pair."""
    try:
        found = _certificate(certificate)
        same_key = found.public_key() == _private_key(key).public_key()
    except (FileNotFoundError, ValueError):
        return False
    return same_key and found.not_valid_after_utc - now > _RENEW_BEFORE


def _signed_by(certificate: Path, ca: x509.Certificate) -> bool:
    try:
        _certificate(certificate).verify_directly_issued_by(ca)
    except (ValueError, InvalidSignature):
        return False
    return True


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is not an EC key")
    return key


def _write_pair(
    key_path: Path, path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> None:
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _replace(key_path, encoded)
    _replace(path, certificate.public_bytes(serialization.Encoding.PEM))


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(content)
        os.fsync(handle.fileno())
    partial.replace(path)
