"""Tricks with capability tokens. Each has one defect, in a token that is right otherwise."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives import hashes, hmac, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet

from tests.support.corpus import corpus
from trace_platform.domain.errors import Unauthenticated
from trace_platform.drivers.task_token import AUDIENCE, ISSUER, MAX_TOKEN_CHARS, TokenVerifier

# Of the clock that the verifier gets: names of tests are the same in every process.
NOW = 1_800_000_000
KEY = ECKey.generate_key("P-256", {"kid": "key-1"})
JWK = KEY.as_dict(private=False)
OTHER = ECKey.generate_key("P-256", {"kid": "key-1"})
HEADER = {"alg": "ES256", "typ": "JWT", "kid": "key-1"}
TASK = str(UUID(int=7))
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": TASK,
    "iat": NOW,
    "exp": NOW + 600,
    "jti": "1",
    "org_id": str(UUID(int=1)),
    "task_id": TASK,
    "attempt": 1,
    "datasets": [
        {"dataset_uuid": TASK, "dataset_version": TASK, "alias": "input_0", "filter": {"a": 1}}
    ],
    "read_prefixes": ["s3://b/a/"],
    "write_prefixes": [],
    "scratch_prefixes": [],
}
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

Part = dict[str, Any] | bytes


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def encoded(part: Part) -> str:
    return b64(part if isinstance(part, bytes) else json.dumps(part).encode())


def es256(signed: str, key: ECKey = KEY) -> bytes:
    r, s = decode_dss_signature(der(signed, key))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def der(signed: str, key: ECKey = KEY) -> bytes:
    assert key.private_key
    return key.private_key.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))


def forge(
    header: Part = HEADER, claims: Part = CLAIMS, sign: Callable[[str], bytes] = es256
) -> str:
    signed = f"{encoded(header)}.{encoded(claims)}"
    return f"{signed}.{b64(sign(signed))}"


def with_header(**more: Any) -> str:
    return forge(HEADER | more)


def with_claims(**more: Any) -> str:
    return forge(claims=CLAIMS | more)


def without(part: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != name}


def text(part: dict[str, Any], old: str, new: str) -> bytes:
    """JSON that no writer makes: its text, changed."""
    written = json.dumps(part)
    assert old in written
    return written.replace(old, new, 1).encode()


def hmac_with(secret: bytes) -> Callable[[str], bytes]:
    def sign(signed: str) -> bytes:
        mac = hmac.HMAC(secret, hashes.SHA256())
        mac.update(signed.encode())
        return mac.finalize()

    return sign


def public_pem() -> bytes:
    return KEY.as_pem(private=False)


def public_der() -> bytes:
    return KEY.public_key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def public_point() -> bytes:
    return KEY.public_key.public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def rs256(signed: str) -> bytes:
    return rsa_key().sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())


def respelled(token: str, part: int) -> str:
    """The same bytes: the bits that the last character of base64 leaves over are set."""
    parts = token.split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet[alphabet.index(parts[part][-1]) + 1]
    changed = parts[part][:-1] + last
    fill = "=" * (-len(changed) % 4)
    assert base64.urlsafe_b64decode(changed + fill) == base64.urlsafe_b64decode(parts[part] + fill)
    return ".".join([*parts[:part], changed, *parts[part + 1 :]])


def resigned(header: str, payload: str) -> str:
    """Right signature over segments as they are written."""
    return f"{header}.{payload}.{b64(es256(f'{header}.{payload}'))}"


def segments() -> tuple[str, str, str]:
    header, payload, signature = forge().split(".")
    return header, payload, signature


def ragged(part: dict[str, Any]) -> dict[str, Any]:
    """So long that its base64 has bits left over."""
    return part if len(json.dumps(part)) % 3 else part | {"jti": "12"}


def padded(segment: str) -> str:
    return segment + "=" * (-len(segment) % 4 or 4)


def algorithms() -> dict[str, Callable[[], str]]:
    names = ["none", "None", "nOnE", "NONE", "", "es256", "ES256 ", "ES384", "ES512", "ES256K"]
    names += ["EdDSA", "PS256", "HS384", "HS512", "dir", "ECDH-ES"]
    tricks: dict[str, Callable[[], str]] = {
        f"alg {name!r}, signed": lambda name=name: with_header(alg=name) for name in names
    }
    for value in (None, True, 0, ["ES256"], {"ES256": 1}):
        tricks[f"alg {value!r}"] = lambda value=value: with_header(alg=value)
    tricks |= {
        f"alg {name!r}, no signature": lambda name=name: forge(HEADER | {"alg": name}, sign=nothing)
        for name in ("none", "None", "nOnE", "NONE")
    }
    secrets: dict[str, Callable[[], bytes]] = {
        "PEM": public_pem,
        "stripped PEM": lambda: public_pem().strip(),
        "DER": public_der,
        "point": public_point,
        "JWK": lambda: json.dumps(JWK).encode(),
        "kid": lambda: b"key-1",
        "nothing": lambda: b"",
    }
    for name, secret in secrets.items():
        tricks[f"HS256 with {name} as its secret"] = lambda secret=secret: forge(
            HEADER | {"alg": "HS256"}, sign=hmac_with(secret())
        )
    return tricks | {
        "no alg": lambda: forge(without(HEADER, "alg")),
        "RS256": lambda: forge(HEADER | {"alg": "RS256"}, sign=rs256),
    }


def nothing(_: str) -> bytes:
    return b""


def headers() -> dict[str, Callable[[], str]]:
    own = OTHER.as_dict(private=False)
    extra: dict[str, Any] = {
        "crit": ["exp"],
        "jwk": own,
        "jku": "https://evil.example/jwks",
        "x5u": "https://evil.example/cert",
        "x5c": ["MIIB"],
        "x5t": "AAAA",
        "x5t#S256": "AAAA",
        "b64": False,
        "zip": "DEF",
        "cty": "JWT",
        "enc": "A128GCM",
        "epk": own,
        "ALG": "none",
    }
    tricks: dict[str, Callable[[], str]] = {
        f"header {name}": lambda name=name: with_header(**{name: extra[name]}) for name in extra
    }
    for value in ("", "key-2", "../key-1", "key-1\0", "KEY-1", None, 1, True, ["key-1"], {}):
        tricks[f"kid {value!r}"] = lambda value=value: with_header(kid=value)
    return tricks | {
        "own key brought along": lambda: forge(
            {"alg": "ES256", "jwk": own}, sign=lambda signed: es256(signed, OTHER)
        ),
        "own key brought along under our kid": lambda: forge(
            HEADER | {"jwk": own}, sign=lambda signed: es256(signed, OTHER)
        ),
        "crit empty": lambda: with_header(crit=[]),
        "no kid": lambda: forge(without(HEADER, "kid")),
        "typ of an access token": lambda: with_header(typ="at+jwt"),
        "typ null": lambda: with_header(typ=None),
        "kid twice": lambda: forge(text(HEADER, '"kid"', '"kid": "key-2", "kid"')),
        "kid twice, the same": lambda: forge(text(HEADER, '"kid"', '"kid": "key-1", "kid"')),
        "kid twice, once escaped": lambda: forge(
            text(HEADER, '"kid"', '"\\u006bid": "key-2", "kid"')
        ),
        "alg twice": lambda: forge(text(HEADER, '"alg"', '"alg": "none", "alg"')),
        "header a list": lambda: forge(b'["ES256"]'),
        "header a string": lambda: forge(b'"ES256"'),
        "header null": lambda: forge(b"null"),
        "header not JSON": lambda: forge(b"{alg: ES256}"),
        "header empty": lambda: forge(b""),
        "header with a tail": lambda: forge(json.dumps(HEADER).encode() + b"{}"),
        "header with a BOM": lambda: forge(b"\xef\xbb\xbf" + json.dumps(HEADER).encode()),
        "header in UTF-16": lambda: forge(json.dumps(HEADER).encode("utf-16")),
        "header not UTF-8": lambda: forge(json.dumps(HEADER).encode().replace(b"-1", b"-\xff")),
        "header nested deeply": lambda: forge(b'{"alg":' + b"[" * 400 + b"]" * 400 + b"}"),
        "header nested very deeply": lambda: forge(b"[" * 100_000),
        "header with a number of many digits": lambda: forge(b'{"kid":' + b"9" * 700 + b"}"),
        "header long": lambda: forge(json.dumps(HEADER).encode() + b" " * 1000),
    }


def spellings() -> dict[str, Callable[[], str]]:
    def at(part: int, change: Callable[[str], str]) -> str:
        """Header or claims respelled and then signed, or the signature respelled."""
        changed = list(segments())
        changed[part] = change(changed[part])
        return ".".join(changed) if part == 2 else resigned(changed[0], changed[1])

    changes: dict[str, Callable[[str], str]] = {
        "padding": padded,
        "padding of four": lambda s: s + "====",
        "a line end": lambda s: s + "\n",
        "a line end within": lambda s: s[:4] + "\r\n" + s[4:],
        "a blank before": lambda s: " " + s,
        "a foreign character": lambda s: s[:4] + "!" + s[4:],
        "a NUL": lambda s: s[:4] + "\0" + s[4:],
        "a letter outside ASCII": lambda s: s[:4] + "é" + s[4:],
        "one character more": lambda s: s + "A" * (1 if len(s) % 4 == 0 else 5 - len(s) % 4),
    }
    tricks: dict[str, Callable[[], str]] = {
        f"{name} in part {part}": lambda part=part, change=change: at(part, change)
        for name, change in changes.items()
        for part in range(3)
    }
    return tricks | {
        "spare bits in the claims": lambda: resigned(
            *respelled(forge(claims=ragged(CLAIMS)), 1).split(".")[:2]
        ),
        "spare bits in the header": lambda: resigned(*respelled(forge(HEADER), 0).split(".")[:2]),
        "spare bits in the signature": lambda: respelled(forge(), 2),
        "plain base64 alphabet": plus_and_slash,
        "one part": lambda: "e30",
        "two parts": lambda: ".".join(segments()[:2]),
        "four parts": lambda: forge() + ".e30",
        "a dot more": lambda: forge() + ".",
        "a dot before": lambda: "." + forge(),
        "five parts, as encryption has": lambda: forge() + ".e30.e30",
        "empty": lambda: "",
        "only dots": lambda: "..",
        "no header": lambda: "." + forge().partition(".")[2],
        "a million dots": lambda: "." * 1_000_000,
        "JSON serialisation": lambda: json.dumps(
            dict(zip(("protected", "payload", "signature"), segments(), strict=True))
        ),
        "Bearer": lambda: "Bearer " + forge(),
        "lone surrogate": lambda: forge() + "\ud800",
        "too long": lambda: with_claims(read_prefixes=["x" * MAX_TOKEN_CHARS]),
    }


def plus_and_slash() -> str:
    """Signed, and spelled with + and / where base64url has - and _."""
    while True:
        header, payload, signature = segments()
        if set("-_") & set(signature):
            changed = signature.replace("-", "+").replace("_", "/")
            return f"{header}.{payload}.{changed}"


def signatures() -> dict[str, Callable[[], str]]:
    def number(value: int) -> bytes:
        return value.to_bytes(32, "big")

    def beside(change: Callable[[bytes], bytes]) -> str:
        return forge(sign=lambda signed: change(es256(signed)))

    fixed = {
        "r and s zero": number(0) * 2,
        "r and s one": number(1) * 2,
        "r and s of the order": number(ORDER) * 2,
        "r zero, s one": number(0) + number(1),
        "all bits": b"\xff" * 64,
        "empty": b"",
    }
    tricks: dict[str, Callable[[], str]] = {
        f"signature: {name}": lambda name=name: forge(sign=lambda _: fixed[name]) for name in fixed
    }
    return tricks | {
        "signature: DER": lambda: forge(sign=der),
        "signature: r zero": lambda: beside(lambda raw: number(0) + raw[32:]),
        "signature: s zero": lambda: beside(lambda raw: raw[:32] + number(0)),
        "signature: r of the order": lambda: beside(lambda raw: number(ORDER) + raw[32:]),
        "signature: s of the order": lambda: beside(lambda raw: raw[:32] + number(ORDER)),
        "signature: r and s swapped": lambda: beside(lambda raw: raw[32:] + raw[:32]),
        "signature: a byte more": lambda: beside(lambda raw: raw + b"\0"),
        "signature: a byte more before": lambda: beside(lambda raw: b"\0" + raw),
        "signature: a zero before s": lambda: beside(lambda raw: raw[:32] + b"\0" + raw[32:]),
        "signature: a byte less": lambda: beside(lambda raw: raw[:-1]),
        "signature: 33 bytes each": lambda: beside(lambda raw: b"\0" + raw[:32] + b"\0" + raw[32:]),
        "signature: a bit flipped": lambda: beside(lambda raw: bytes([raw[0] ^ 1]) + raw[1:]),
        "signature: another key's": lambda: forge(sign=lambda signed: es256(signed, OTHER)),
        "signature: another token's": lambda: ".".join(
            [*with_claims(attempt=2).split(".")[:2], segments()[2]]
        ),
        "signature: of the claims alone": lambda: forge(
            sign=lambda signed: es256(signed.partition(".")[2])
        ),
    }


def claims() -> dict[str, Callable[[], str]]:
    values: dict[str, list[Any]] = {
        "exp": [NOW - 1, 0, -1, None, True, str(NOW + 600), NOW + 600.0, NOW + 0.5, 1e300, [], {}],
        "iat": [NOW + 3600, None, True, str(NOW), float(NOW), 1e300],
        "nbf": [NOW + 3600, NOW - 3600, None, True, "0"],
        "iss": ["", "somebody", "Trace-dispatcher", ISSUER + " ", [ISSUER], None, 1, {ISSUER: 1}],
        "aud": ["", "trace-user", [AUDIENCE], [AUDIENCE, "x"], AUDIENCE + "\0", None, True],
        "attempt": [True, False, "1", 1.0, 1.5, None, [1]],
        "task_id": ["", "7", 7, None, [TASK]],
        "org_id": ["", "*", None],
        "datasets": [None, "*", {}, [None], [{}], [{"alias": "input_0"}]],
        "read_prefixes": [None, "s3://", [1], {"s3://": 1}],
        "scratch_prefixes": [None, "s3://", [None]],
        "admin": [True],
    }
    tricks: dict[str, Callable[[], str]] = {
        f"{name} {value!r}": lambda name=name, value=value: with_claims(**{name: value})
        for name, those in values.items()
        for value in those
    }
    for name in ("iss", "aud", "exp", "iat", "sub", "jti", "org_id", "task_id", "attempt"):
        tricks[f"no {name}"] = lambda name=name: forge(claims=without(CLAIMS, name))
    for word in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "0x7fffffff", "1_000"):
        tricks[f"exp {word[:20]}"] = lambda word=word: forge(
            claims=text(CLAIMS, f'"exp": {NOW + 600}', f'"exp": {word}')
        )
    dataset = {"dataset_uuid": TASK, "dataset_version": TASK, "alias": "input_0"}
    return tricks | {
        "exp twice": lambda: forge(claims=text(CLAIMS, '"exp"', '"exp": 1, "exp"')),
        "task_id twice": lambda: forge(
            claims=text(CLAIMS, '"task_id"', '"task_id": "", "task_id"')
        ),
        "attempt twice, once escaped": lambda: forge(
            claims=text(CLAIMS, '"attempt"', '"\\u0061ttempt": 2, "attempt"')
        ),
        "a member of a dataset twice": lambda: forge(
            claims=text(CLAIMS, '"alias"', '"alias": "input_1", "alias"')
        ),
        "a member of a filter twice": lambda: forge(
            claims=text(CLAIMS, '"a": 1', '"a": 1, "a": 2')
        ),
        "an unknown member of a dataset": lambda: with_claims(datasets=[dataset | {"all": True}]),
        "a filter that is a list": lambda: with_claims(datasets=[dataset | {"filter": []}]),
        "NaN in a filter": lambda: forge(claims=text(CLAIMS, '"a": 1', '"a": NaN')),
        "claims a list": lambda: forge(claims=b"[]"),
        "claims null": lambda: forge(claims=b"null"),
        "claims empty": lambda: forge(claims=b""),
        "claims not JSON": lambda: forge(claims=b"{'iss': 1}"),
        "claims with a tail": lambda: forge(claims=json.dumps(CLAIMS).encode() + b"{}"),
        "claims in UTF-16": lambda: forge(claims=json.dumps(CLAIMS).encode("utf-16")),
        "claims not UTF-8": lambda: forge(claims=b'{"iss": "\xff"}'),
        "claims nested very deeply": lambda: forge(claims=b'{"iss":' + b"[" * 100_000),
        "claims a token of their own": lambda: forge(claims=forge().encode()),
    }


TRICKS = algorithms() | headers() | spellings() | signatures() | claims()


def verifier() -> TokenVerifier:
    return TokenVerifier(lambda: {"keys": [JWK]}, clock=lambda: float(NOW))


def test_without_a_trick_the_forged_token_is_right() -> None:
    """Also for another library: nothing but the trick makes the others wrong."""
    for token in (forge(), forge(without(HEADER, "typ")), forge(claims=ragged(CLAIMS))):
        assert str(verifier().read(token).task_id) == TASK
        decoded = jwt.decode(token, KeySet([KEY]), algorithms=["ES256"])
        assert decoded.claims["task_id"] == TASK


@corpus("trick", TRICKS)
def test_a_trick_is_refused_like_every_other(trick: str) -> None:
    token = TRICKS[trick]()
    with pytest.raises(Unauthenticated) as refused:
        verifier().read(token)
    assert refused.value.message == "the capability token is not valid"
    assert not refused.value.facts
    assert refused.value.__suppress_context__


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
@corpus("trick", algorithms() | signatures())
def test_another_library_agrees_about_signatures(trick: str) -> None:
    with pytest.raises((JoseError, ValueError, TypeError)):
        jwt.decode(TRICKS[trick](), KeySet([KEY]), algorithms=["ES256"])


@corpus("trick", algorithms())
def test_another_algorithm_fetches_no_keys(trick: str) -> None:
    def fetch() -> dict[str, Any]:
        raise AssertionError("fetched")

    with pytest.raises(Unauthenticated):
        TokenVerifier(fetch).read(TRICKS[trick]())
