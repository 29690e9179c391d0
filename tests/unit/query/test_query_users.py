"""Users of the query service, and `trace users`, which makes and removes them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.query_users import QueryUsers
from trace_platform.cli.users import users
from trace_platform.domain.errors import BadInput, Conflict, NotFound, SetupError
from trace_platform.query.service.callers import User


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.secret("user_token")
    return found


@pytest.fixture
def known(home: Home) -> QueryUsers:
    return QueryUsers(home)


def test_a_token_finds_its_user(known: QueryUsers) -> None:
    ana, ben = known.add("ana", ["labels", "people"]), known.add("ben")
    assert known.find(ana) == User("ana", frozenset({"labels", "people"}))
    assert known.find(ben) == User("ben", frozenset())
    assert len(ana) >= 43


@pytest.mark.parametrize("token", ["", " ", "wrong", "é", "\ud800", "x" * 100_000])
def test_another_token_finds_nobody(known: QueryUsers, token: str) -> None:
    known.add("ana")
    assert known.find(token) is None


def test_the_beginning_of_a_token_is_not_enough(known: QueryUsers) -> None:
    token = known.add("ana")
    assert known.find(token[:-1]) is None
    assert known.find(token + "x") is None


def test_the_owner_sees_what_was_granted(home: Home, known: QueryUsers) -> None:
    token = home.secret("user_token")
    assert known.find(token) == User("owner", frozenset())
    known.grant("owner", ["*"])
    assert known.find(token) == User("owner", frozenset({"*"}))
    known.grant("owner", [])
    assert known.find(token) == User("owner", frozenset())


def test_another_process_sees_every_change_at_once(home: Home, known: QueryUsers) -> None:
    other = QueryUsers(home)
    assert other.find("x") is None
    token = known.add("ana")
    assert other.find(token) == User("ana", frozenset())
    known.grant("ana", ["labels"])
    assert other.find(token) == User("ana", frozenset({"labels"}))
    for _ in range(50):
        token, old = known.rotate("ana"), token
        assert other.find(token) == User("ana", frozenset({"labels"}))
        assert other.find(old) is None
    known.remove("ana")
    assert other.find(token) is None


def test_nothing_is_read_while_nothing_changes(
    known: QueryUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = known.add("ana")
    found = known.find(token)

    def refuse(*_: Any, **__: Any) -> str:
        raise AssertionError("read again")

    monkeypatch.setattr(Path, "read_text", refuse)
    assert known.find(token) == found
    assert known.find("wrong") is None


def test_who_comes_back_has_none_of_the_old_rights(known: QueryUsers) -> None:
    old = known.add("ana", ["*"])
    known.remove("ana")
    token = known.add("ana")
    assert known.find(old) is None
    assert known.find(token) == User("ana", frozenset())


@pytest.mark.parametrize("content", ["", "[]", '{"pii": 7}', '{"pii": [7]}', '{"pii": ["a b"]}'])
def test_grants_that_cannot_be_read_grant_nothing(
    home: Home, known: QueryUsers, content: str
) -> None:
    ana, ben = known.add("ana", ["labels"]), known.add("ben", ["labels"])
    (home.secrets / "users" / "ana.json").write_text(content)
    assert known.find(ana) == User("ana", frozenset())
    assert known.find(ben) == User("ben", frozenset({"labels"}))


def test_an_empty_token_opens_nothing(home: Home, known: QueryUsers) -> None:
    known.add("ana")
    (home.secrets / "users" / "ana").write_text("\n")
    (home.secrets / "user_token").write_text("")
    assert known.find("") is None


def test_other_files_are_nobody(home: Home, known: QueryUsers) -> None:
    known.add("ana")
    for name in ("owner", ".hidden", "UPPER", "x.json", "a b"):
        (home.secrets / "users" / name).write_text("t")
    assert known.find("t") is None
    assert [each.name for each in known.listing()] == ["owner", "ana"]


@pytest.mark.parametrize("name", ["", "Ana", "1a", "../x", "a/b", "a.json", "a" * 64, "owner", "é"])
def test_a_name_that_cannot_be_one_is_refused(home: Home, known: QueryUsers, name: str) -> None:
    for change in (known.add, known.rotate, known.remove):
        with pytest.raises(BadInput):
            change(name)
    assert not list(home.root.rglob("x"))


def test_a_dataset_that_cannot_be_one_is_refused(home: Home, known: QueryUsers) -> None:
    with pytest.raises(BadInput, match="cannot be the name of a dataset"):
        known.add("ana", ["labels", "a b"])
    assert [each.name for each in known.listing()] == ["owner"]


def test_a_user_is_added_once_and_removed_once(known: QueryUsers) -> None:
    token = known.add("ana")
    with pytest.raises(Conflict, match="already"):
        known.add("ana")
    assert known.find(token)
    known.remove("ana")
    for change in (known.remove, known.rotate):
        with pytest.raises(NotFound, match="no user ana"):
            change("ana")
    with pytest.raises(NotFound):
        known.grant("ana", [])


def test_starters_make_a_user_once(home: Home) -> None:
    start, made = threading.Barrier(8), []

    def begin() -> None:
        own = QueryUsers(home)
        start.wait()
        try:
            made.append(own.add("ana"))
        except Conflict:
            made.append("")

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [token] = [each for each in made if each]
    assert QueryUsers(home).find(token)


def test_files_are_for_their_owner_alone(home: Home, known: QueryUsers) -> None:
    known.add("ana", ["labels"])
    folder = home.secrets / "users"
    modes = {path.name: path.stat().st_mode & 0o777 for path in [folder, *folder.iterdir()]}
    assert modes == {"users": 0o700, "ana": 0o600, "ana.json": 0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_makes_belongs_to_the_owner_of_the_home(home: Home, known: QueryUsers) -> None:
    os.chown(home.secrets, 65_534, 65_534)
    known.add("ana")
    assert {path.stat().st_uid for path in (home.secrets / "users").rglob("*")} == {65_534}


def trace_users(home: Home, *arguments: str) -> Any:
    return CliRunner().invoke(users, [*arguments, "--home", str(home.root)])


def test_trace_users_prints_a_token_once(home: Home, known: QueryUsers) -> None:
    made = trace_users(home, "add", "ana", "--pii", "labels", "--pii", "people")
    token = made.stdout.strip()
    assert known.find(token) == User("ana", frozenset({"labels", "people"}))
    assert "ana may query; sees personal columns of labels, people" in made.stderr
    listed = [trace_users(home, "list"), trace_users(home, "list", "--json")]
    assert not any(token in each.output for each in listed)
    assert "ana    token since " in listed[0].stdout
    assert [(each["name"], each["pii"]) for each in json.loads(listed[1].stdout)["users"]] == [
        ("owner", []),
        ("ana", ["labels", "people"]),
    ]


def test_trace_users_rotates_grants_and_removes(home: Home, known: QueryUsers) -> None:
    old = json.loads(trace_users(home, "add", "ana", "--json").stdout)["token"]
    new = json.loads(trace_users(home, "rotate", "ana", "--json").stdout)
    assert (known.find(old), new["name"]) == (None, "ana")
    assert "all datasets" in trace_users(home, "grant", "ana", "--pii", "*").stdout
    assert known.find(new["token"]) == User("ana", frozenset({"*"}))
    assert "removed" in trace_users(home, "remove", "ana").stdout
    assert known.find(new["token"]) is None


@pytest.mark.parametrize("command", [["list"], ["add", "ana"], ["remove", "ana"]])
def test_trace_users_makes_no_instance(tmp_path: Path, command: list[str]) -> None:
    home = Home(tmp_path / "none")
    assert isinstance(trace_users(home, *command).exception, SetupError)
    assert not home.root.exists()
