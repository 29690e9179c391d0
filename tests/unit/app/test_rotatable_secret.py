"""Secrets that rotate while others hold them, and `trace keys`, which rotates them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.rotatable_secret import RotatableSecret
from trace_platform.cli.keys import keys
from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite.pem_signer import PemSigner


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def secret(home: Home) -> RotatableSecret:
    return RotatableSecret(home.secrets, "worker_token")


def test_it_is_the_secret_of_the_home(home: Home, secret: RotatableSecret) -> None:
    made = home.secret("worker_token")
    assert secret.current() == made
    assert secret.accepted() == (made,)


def test_it_makes_what_the_home_then_finds(home: Home, secret: RotatableSecret) -> None:
    assert home.secret("worker_token") == secret.current()
    assert len(secret.current()) >= 43


def test_two_are_valid_until_the_next_rotation(home: Home, secret: RotatableSecret) -> None:
    first = secret.current()
    secret.rotate()
    second = secret.current()
    assert secret.accepted() == (second, first)
    assert home.secret("worker_token") == second
    secret.rotate()
    assert secret.accepted() == (secret.current(), second)
    assert len({first, second, secret.current()}) == 3


def test_a_restart_accepts_the_same(home: Home, secret: RotatableSecret) -> None:
    secret.rotate()
    assert RotatableSecret(home.secrets, "worker_token").accepted() == secret.accepted()


def test_another_process_sees_a_rotation_at_once(home: Home, secret: RotatableSecret) -> None:
    other = RotatableSecret(home.secrets, "worker_token")
    for _ in range(50):
        old = other.current()
        secret.rotate()
        assert other.accepted() == (secret.current(), old)


def test_an_edit_or_a_removal_by_hand_counts(home: Home, secret: RotatableSecret) -> None:
    secret.rotate()
    assert len(secret.accepted()) == 2
    (home.secrets / "worker_token.previous").unlink()
    assert secret.accepted() == (secret.current(),)
    (home.secrets / "worker_token").write_text("written by hand\n")
    assert secret.accepted() == ("written by hand",)


def test_nothing_is_read_while_nothing_changes(
    secret: RotatableSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret.rotate()
    known = secret.accepted()

    def refuse(*_: Any, **__: Any) -> str:
        raise AssertionError("read again")

    monkeypatch.setattr(Path, "read_text", refuse)
    assert secret.accepted() == known


def test_an_empty_secret_opens_nothing(home: Home, secret: RotatableSecret) -> None:
    secret.rotate()
    (home.secrets / "worker_token.previous").write_text("\n")
    assert secret.accepted() == (secret.current(),)
    (home.secrets / "worker_token").write_text(" \n")
    for _ in range(2):
        with pytest.raises(SetupError, match="empty"):
            secret.accepted()


def test_files_are_for_their_owner_alone_and_nothing_else_is_left(
    home: Home, secret: RotatableSecret
) -> None:
    secret.rotate()
    secret.rotate()
    modes = {file.name: file.stat().st_mode & 0o777 for file in home.secrets.iterdir()}
    assert modes == {"worker_token": 0o600, "worker_token.previous": 0o600}


def test_starters_agree_on_one_secret(home: Home) -> None:
    start = threading.Barrier(8)
    made: list[str] = []

    def begin(number: int) -> None:
        own = RotatableSecret(home.secrets, "worker_token")
        start.wait()
        # Home.secret takes no lock: a process has one starter of that kind.
        made.append(own.current() if number else home.secret("worker_token"))

    run_all([threading.Thread(target=begin, args=(n,)) for n in range(8)])
    assert len(made) == 8
    assert set(made) == {home.secret("worker_token")}


def test_rotations_at_once_leave_two_secrets(home: Home, secret: RotatableSecret) -> None:
    first = secret.current()
    accepted: list[tuple[str, ...]] = []

    def rotate() -> None:
        own = RotatableSecret(home.secrets, "worker_token")
        for _ in range(10):
            own.rotate()
            accepted.append(own.accepted())

    run_all([threading.Thread(target=rotate) for _ in range(4)])
    assert len(accepted) == 40
    assert len(set(secret.accepted())) == 2
    assert first not in secret.accepted()


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_rotates_belongs_to_the_owner_of_the_home(
    home: Home, secret: RotatableSecret
) -> None:
    os.chown(home.secrets, 65_534, 65_534)
    secret.rotate()
    assert {file.stat().st_uid for file in home.secrets.iterdir()} == {65_534}


def trace_keys(home: Home, *arguments: str) -> str:
    result = CliRunner().invoke(keys, [*arguments, "--home", str(home.root)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_trace_keys_rotates_the_signing_key(home: Home) -> None:
    signer = PemSigner(home.secrets / "task_keys")
    (old,) = signer.jwks()["keys"]
    done = json.loads(trace_keys(home, "rotate", "--json"))
    assert [key["kid"] for key in signer.jwks()["keys"]] == [done["kid"], old["kid"]]
    listed = json.loads(trace_keys(home, "list", "--json"))["task_keys"]
    assert [(key["kid"], key["accepted_until"]) for key in listed] == [
        (done["kid"], None),
        (old["kid"], done["older_accepted_until"]),
    ]
    said = trace_keys(home, "rotate")
    assert signer.jwks()["keys"][0]["kid"] in said
    assert "stay valid until they expire" in said


def test_trace_keys_rotates_the_worker_token(home: Home, secret: RotatableSecret) -> None:
    old = secret.current()
    assert "restart the workers" in trace_keys(home, "rotate", "--worker")
    assert secret.accepted()[1] == old
    assert not (home.secrets / "task_keys").exists()
    listed = json.loads(trace_keys(home, "list", "--json"))
    assert listed["task_keys"] == []
    assert listed["worker_token"]["previous_accepted"] is True


def test_trace_keys_shows_no_secret(home: Home, secret: RotatableSecret) -> None:
    shown = [trace_keys(home, "rotate"), trace_keys(home, "rotate", "--worker")]
    for option in ([], ["--json"]):
        shown += [trace_keys(home, command, *option) for command in ("list", "rotate")]
    for value in secret.accepted():
        assert not any(value in text for text in shown)
    assert not any("PRIVATE" in text for text in shown)


def test_trace_keys_list_makes_nothing(home: Home) -> None:
    folder = home.secrets
    assert "no keys yet" in trace_keys(home, "list")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["rotate", "list"])
def test_trace_keys_makes_no_instance(home: Home, command: str) -> None:
    result = CliRunner().invoke(keys, [command, "--home", str(home.root)])
    assert isinstance(result.exception, SetupError)
    assert not home.root.exists()
