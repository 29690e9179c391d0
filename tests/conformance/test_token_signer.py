"""Every TokenSigner signs ES256 tokens that its own JWKS verifies, shows no private part, and
rotates without voiding a token that is out."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError
from joserfc.jwk import ECKey, KeySet

from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite.pem_signer import PemSigner
from trace_platform.drivers.token_signer import KEEP_RETIRED_S, SHOWN_FIRST_S, TokenSigner


class Clock:
    """Both clocks of a signer, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.5

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "secrets" / "task_keys"


@pytest.fixture
def make(folder: Path, clock: Clock) -> Callable[[], PemSigner]:
    """Another signer of the same keys, as in another process."""
    return lambda: PemSigner(folder, clock=clock, monotonic=clock)


def decoded(token: str, signer: TokenSigner) -> jwt.Token:
    """An independent library's reading of what was signed."""
    keys: Any = signer.jwks()
    return jwt.decode(token, KeySet.import_key_set(keys), algorithms=["ES256"])


def kids(signer: TokenSigner) -> list[str]:
    return [key["kid"] for key in signer.jwks()["keys"]]


def kid_of(token: str, signer: TokenSigner) -> str:
    return decoded(token, signer).header["kid"]


def test_its_jwks_verifies_what_it_signs(make: Callable[[], PemSigner]) -> None:
    signer = make()
    claims = {"sub": "x", "n": [1, None, True], "text": 'ü "\\ \u2028', "deep": {"a": {"b": []}}}
    for _ in range(300):  # r and s of every length
        token = decoded(signer.sign(claims), signer)
        assert token.claims == claims
    assert token.header == {"alg": "ES256", "typ": "JWT", "kid": kids(signer)[0]}


def test_the_kid_is_the_thumbprint(make: Callable[[], PemSigner]) -> None:
    (jwk,) = make().jwks()["keys"]
    assert jwk["kid"] == ECKey.import_key(jwk).thumbprint()


def test_a_restart_keeps_the_key(make: Callable[[], PemSigner]) -> None:
    assert make().jwks() == make().jwks()


def test_the_private_keys_stay_private(folder: Path, make: Callable[[], PemSigner]) -> None:
    signer = make()
    signer.rotate()
    assert all(set(key) == {"kty", "crv", "x", "y", "kid"} for key in signer.jwks()["keys"])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600, 0o600]
    assert "PrivateKey" not in repr(signer._keys)


def test_who_changes_the_jwks_it_got_changes_nothing(make: Callable[[], PemSigner]) -> None:
    signer = make()
    before = signer.jwks()
    signer.jwks()["keys"][0]["kid"] = "mine"
    assert signer.jwks() == before


def test_a_rotated_key_is_shown_first_then_signs_and_keeps_old_tokens_valid(
    clock: Clock, make: Callable[[], PemSigner]
) -> None:
    signer = make()
    old = signer.sign({"sub": "old"})
    (former,) = kids(signer)
    clock.now += 10
    kid = signer.rotate()
    assert kids(signer) == [kid, former]
    assert [(age.kid, age.signs) for age in signer.ages()] == [(kid, False), (former, True)]
    clock.now += SHOWN_FIRST_S - 1
    assert kid_of(signer.sign({}), signer) == former
    clock.now += 1
    assert kid_of(signer.sign({}), signer) == kid
    assert [(age.kid, age.signs) for age in signer.ages()] == [(kid, True), (former, False)]
    assert decoded(old, signer).claims == {"sub": "old"}


def test_a_key_that_replaces_a_revoked_one_signs_at_once(
    folder: Path, make: Callable[[], PemSigner]
) -> None:
    signer = make()
    (file,) = folder.iterdir()
    kid = signer.rotate()
    file.unlink()
    signer.refresh()
    assert kid_of(signer.sign({}), signer) == kid


def test_after_a_clock_was_set_back_a_rotated_key_signs_all_the_same(
    clock: Clock, make: Callable[[], PemSigner]
) -> None:
    signer = make()
    clock.now -= 1e6
    kid = signer.rotate()
    assert kid_of(signer.sign({}), signer) == kid


def test_a_retired_key_goes_when_its_last_token_has_expired(
    folder: Path, clock: Clock, make: Callable[[], PemSigner]
) -> None:
    signer = make()
    clock.now += 1e8  # the age of the key does not matter, only when it was retired
    old = signer.sign({})
    (former,) = kids(signer)
    kid = signer.rotate()
    clock.now = int(clock.now) + SHOWN_FIRST_S + KEEP_RETIRED_S - 1
    assert kids(signer) == [kid, former]
    clock.now += 1
    assert kids(signer) == [kid]
    with pytest.raises(InvalidKeyIdError):
        decoded(old, signer)
    assert len(list(folder.iterdir())) == 2, "only a rotation removes files"
    newest = signer.rotate()
    assert kids(signer) == kids(make()) == [newest, kid]
    assert len(list(folder.iterdir())) == 2


def test_two_rotations_in_one_second_or_with_a_clock_set_back_stay_in_order(
    clock: Clock, make: Callable[[], PemSigner]
) -> None:
    signer = make()
    made = [kids(signer)[0], signer.rotate(), signer.rotate()]
    clock.now -= 5_000
    made.append(signer.rotate())
    assert kids(signer) == kids(make()) == made[::-1]


def test_a_signer_notices_what_another_process_rotated(
    clock: Clock, make: Callable[[], PemSigner]
) -> None:
    one, other = make(), make()
    before = one.sign({})
    clock.now += 10
    kid = one.rotate()
    assert kids(other)[0] == kid, "a verifier sees it at once"
    clock.now += SHOWN_FIRST_S
    assert kid_of(other.sign({}), one) == kid_of(one.sign({}), one) == kid
    assert decoded(before, other)


def test_refresh_forces_a_look(make: Callable[[], PemSigner]) -> None:
    one, other = make(), make()
    kid = one.rotate()
    other.refresh()
    assert other.ages()[0].kid == kid


def test_a_removed_key_is_revoked(folder: Path, make: Callable[[], PemSigner]) -> None:
    signer = make()
    old = signer.sign({})
    (file,) = folder.iterdir()
    signer.rotate()
    file.unlink()
    assert len(kids(signer)) == 1
    with pytest.raises(InvalidKeyIdError):
        decoded(old, signer)


def test_an_emptied_folder_gets_a_new_key(folder: Path, make: Callable[[], PemSigner]) -> None:
    signer = make()
    before = kids(signer)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert kids(signer) != before
    assert kids(signer) == kids(make())
    assert decoded(signer.sign({}), signer)


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """All at once; the first error is raised."""
    start, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("former", [False, True])
def test_starters_agree_on_one_key(
    folder: Path, make: Callable[[], PemSigner], former: bool
) -> None:
    if former:
        folder.parent.mkdir()
        pem = ECKey.generate_key("P-256").as_pem(private=True)
        folder.with_name("task_key.pem").write_bytes(pem)
    found: dict[int, list[str]] = {}
    in_threads(8, lambda n: found.update({n: kids(make())}))
    assert len(found) == 8
    assert len({tuple(each) for each in found.values()}) == 1
    assert len(list(folder.iterdir())) == 1


def test_rotations_at_once_all_count(folder: Path, make: Callable[[], PemSigner]) -> None:
    signers = [make() for _ in range(4)]
    rotated: set[str] = set()
    in_threads(4, lambda n: rotated.update(signers[n].rotate() for _ in range(3)))
    assert len(rotated) == 12
    assert len(kids(make())) == 13
    assert all(kids(signer) == kids(make()) for signer in signers)


def test_the_single_key_of_an_older_home_moves_in(
    folder: Path, make: Callable[[], PemSigner]
) -> None:
    former = folder.with_name("task_key.pem")
    former.parent.mkdir()
    key = ECKey.generate_key("P-256")
    former.write_bytes(key.as_pem(private=True))
    former.chmod(0o644)
    os.utime(former, (1_700_000_000, 1_700_000_000))
    old = jwt.encode({"alg": "ES256", "kid": key.thumbprint()}, {"sub": "old"}, key)
    signer = make()
    assert decoded(old, signer).claims == {"sub": "old"}
    (file,) = folder.iterdir()
    assert re.fullmatch(r"1700000000_[\w-]{43}\.pem", file.name)
    assert file.stat().st_mode & 0o777 == 0o600
    assert not former.exists()
    signer.rotate()
    assert decoded(old, make())


def test_other_files_in_the_folder_are_left_alone(
    folder: Path, make: Callable[[], PemSigner]
) -> None:
    signer = make()
    for name in ("README", ".1790000000_x.pem.partial", "1790000001_short.pem"):
        (folder / name).write_text("no key")
    signer.rotate()
    assert len(kids(signer)) == 2
    assert len(list(folder.iterdir())) == 5


def test_a_key_that_lies_there_twice_is_shown_once(
    folder: Path, make: Callable[[], PemSigner]
) -> None:
    signer = make()
    (file,) = folder.iterdir()
    (folder / f"1780000000{file.name[10:]}").write_bytes(file.read_bytes())
    assert len(kids(signer)) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"rubbish",
        ECKey.generate_key("P-384").as_pem(private=True),
        ECKey.generate_key("P-256").as_pem(private=False),
    ],
    ids=["empty", "rubbish", "another curve", "public"],
)
def test_a_damaged_key_is_named(
    folder: Path, make: Callable[[], PemSigner], content: bytes
) -> None:
    make()
    damaged = folder / f"1790000001_{'x' * 43}.pem"
    damaged.write_bytes(content)
    with pytest.raises(SetupError, match=damaged.name):
        make()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_rotates_belongs_to_the_owner_of_the_home(
    folder: Path, make: Callable[[], PemSigner]
) -> None:
    folder.parent.mkdir()
    os.chown(folder.parent, 65_534, 65_534)
    make().rotate()
    owners = {file.stat().st_uid for file in [folder, *folder.iterdir()]}
    assert owners == {65_534}
