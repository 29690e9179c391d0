"""TokenSigner with local P-256 keys: a folder with one PEM file per key, of which the newest signs
once all verifiers can know it.

Several processes share the folder. Whoever adds or removes a key holds the folder's lock; readers
need none, because a file appears whole and never changes.
"""

from __future__ import annotations

import os
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite.private_file import alone_in, give_to_owner_of, write_private
from trace_platform.drivers.token_signer import KEEP_RETIRED_S, SHOWN_FIRST_S

# The folder's name in an instance's secrets, and the single file that came before it.
FOLDER = "task_keys"
_FORMER_FILE = "task_key.pem"
# When the key was made and its kid. Ten digits: names sort by age.
_FILE_NAME = re.compile(r"\d{10}_[\w-]{43}\.pem", re.ASCII)
_LOOK_EVERY_S = 1.0
_ES256 = ec.ECDSA(hashes.SHA256())


class KeyAge(NamedTuple):
    """`accepted_until` is None for the newest."""

    kid: str
    created: int
    accepted_until: int | None
    signs: bool


class PemSigner:
    """A key that another process made is seen here a second later at most."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._monotonic = monotonic
        self._keys: tuple[_Key, ...] = ()  # the newest last
        self._prepare()
        self.refresh()

    def sign(self, claims: dict[str, Any]) -> str:
        if self._monotonic() >= self._look_again:
            self.refresh()
        return self._signing().sign(claims)

    def jwks(self) -> dict[str, Any]:
        self.refresh()
        # By kid: a key that was restored from a backup may lie there twice.
        return {"keys": list({key.kid: key.public() for key in self._alive()}.values())}

    def rotate(self) -> str:
        self.refresh()
        with alone_in(self._folder):
            self._load()
            # Newer than the newest, even when a clock was set back.
            self._add(_new_pem(), max(int(self._clock()), self._keys[-1].created + 1))
            self._load()
            self._remove_expired()
        return self._keys[-1].kid

    def refresh(self) -> None:
        """Look now for keys that other processes added or removed."""
        self._look_again = self._monotonic() + _LOOK_EVERY_S
        self._load()
        if not self._keys:
            # Somebody emptied the folder of a running instance: old tokens are void, work goes on.
            self._prepare()
            self._load()

    def ages(self) -> list[KeyAge]:
        """Every key of the folder, the newest first."""
        signing = self._signing()
        return [KeyAge(key.kid, key.created, until, key is signing) for key, until in self._lives()]

    def _signing(self) -> _Key:
        """The newest that was shown for long enough; the first of all had nobody to wait for."""
        now = self._clock()
        shown = (key for key in reversed(self._keys) if not key.is_new(now))
        return next(shown, self._keys[0])

    def _lives(self) -> Iterator[tuple[_Key, int | None]]:
        """Each key, the newest first, and when its last token has expired."""
        until = None
        for key in reversed(self._keys):
            yield key, until
            # What counts for the key before is when this one took over.
            until = key.created + SHOWN_FIRST_S + KEEP_RETIRED_S

    def _alive(self) -> list[_Key]:
        now = self._clock()
        return [key for key, until in self._lives() if until is None or until > now]

    def _load(self) -> None:
        """Read the files that are new, forget the keys whose file is gone."""
        names = _key_files(self._folder)
        known = {key.path.name: key for key in self._keys}
        if names != list(known):
            found = (known.get(name) or _read_key(self._folder / name) for name in names)
            self._keys = tuple(key for key in found if key)

    def _prepare(self) -> None:
        """One key at least, the same one for everybody who starts now."""
        former = self._folder.with_name(_FORMER_FILE)
        if not self._folder.exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            give_to_owner_of(self._folder.parent, self._folder)
        if _key_files(self._folder) and not former.exists():
            return
        with alone_in(self._folder):
            self._adopt(former)
            if not _key_files(self._folder):
                self._add(_new_pem(), int(self._clock()))

    def _adopt(self, former: Path) -> None:
        """Tokens of an instance from before the folder stay valid: its key moves in."""
        with suppress(FileNotFoundError):  # the usual case, or another starter was first
            self._add(former.read_bytes(), int(former.stat().st_mtime), former)
            former.unlink()

    def _add(self, pem: bytes, created: int, origin: Path | None = None) -> None:
        kid = _import(pem, origin or self._folder).kid
        write_private(self._folder / f"{created:010d}_{kid}.pem", pem)

    def _remove_expired(self) -> None:
        alive = self._alive()
        for key in self._keys:
            if key not in alive:
                key.path.unlink(missing_ok=True)
        self._load()


@dataclass(frozen=True, slots=True, eq=False)
class _Key:
    path: Path
    kid: str
    created: int
    jwk: ECKey = field(repr=False)
    private: ec.EllipticCurvePrivateKey = field(repr=False)
    header: bytes

    def sign(self, claims: dict[str, Any]) -> str:
        signed = self.header + b"." + _base64url(msgspec.json.encode(claims))
        r, s = decode_dss_signature(self.private.sign(signed, _ES256))
        raw = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return (signed + b"." + _base64url(raw)).decode()

    def public(self) -> dict[str, Any]:
        return dict(self.jwk.as_dict(private=False))

    def is_new(self, now: float) -> bool:
        """Not yet known to all verifiers. One from far ahead is old: the clock was set back."""
        return self.created - SHOWN_FIRST_S <= now < self.created + SHOWN_FIRST_S


def _read_key(path: Path) -> _Key | None:
    """None when the file is gone meanwhile: it had expired."""
    try:
        jwk = _import(path.read_bytes(), path)
    except FileNotFoundError:
        return None
    assert jwk.kid
    assert jwk.private_key
    header = msgspec.json.encode({"alg": "ES256", "typ": "JWT", "kid": jwk.kid})
    created = int(path.name.partition("_")[0])
    return _Key(path, jwk.kid, created, jwk, jwk.private_key, _base64url(header))


def _import(pem: bytes, where: Path) -> ECKey:
    try:
        key = ECKey.import_key(pem)
        if not (key.is_private and key.curve_name == "P-256"):
            raise ValueError("another kind of key")
    except (JoseError, ValueError, TypeError, KeyError):
        raise SetupError(
            f"{where} is no private P-256 key in PEM",
            hint="restore it, or remove it: the tokens that it signed become void",
        ) from None
    key.ensure_kid()
    return key


def _new_pem() -> bytes:
    return ECKey.generate_key("P-256").as_pem(private=True)


def _key_files(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if _FILE_NAME.fullmatch(name))
    except FileNotFoundError:
        return []


def _base64url(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")
