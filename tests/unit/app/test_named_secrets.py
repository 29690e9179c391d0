"""Secrets that DAG files name: kept for their owner alone, shown to nobody."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.named_secrets import NamedSecrets
from trace_platform.app.instance.open_instance import Instance
from trace_platform.app.instance.settings import Settings
from trace_platform.app.processes import NAMES
from trace_platform.app.supervise.lite_stack import lite_stages
from trace_platform.app.supervise.process import Keeper
from trace_platform.cli.secrets import secrets as commands
from trace_platform.domain.errors import BadInput, NotFound, SetupError

VALUE = "whsec_dGhlIHZhbHVlIG9mIGEgc2VjcmV0"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    assert made.secrets.is_dir()
    return made


def run(home: Home, *arguments: str, given: str = "") -> str:
    result = CliRunner().invoke(commands, [*arguments, "--home", str(home.root)], input=given)
    if result.exception:
        raise result.exception
    return result.output


def test_a_value_is_read_from_standard_input_and_kept_for_its_owner_alone(home: Home) -> None:
    assert VALUE not in run(home, "set", "hook_key", given=f"{VALUE}\n")
    file = home.secrets / "named" / "hook_key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert NamedSecrets(home, {}).get("hook_key") == VALUE


def test_no_command_shows_a_value(home: Home) -> None:
    run(home, "set", "hook_key", given=VALUE)
    listed = run(home, "list")
    assert "hook_key" in listed
    assert VALUE not in listed
    (row,) = json.loads(run(home, "list", "--json"))["secrets"]
    assert (row["name"], row["kept_in"]) == ("hook_key", "file")


def test_what_is_removed_is_gone_at_once(home: Home) -> None:
    known = NamedSecrets(home, {})
    run(home, "set", "hook_key", given=VALUE)
    assert known.get("hook_key") == VALUE
    run(home, "remove", "hook_key")
    assert known.get("hook_key") is None
    with pytest.raises(NotFound):
        run(home, "remove", "hook_key")


def test_a_variable_goes_before_a_file(home: Home) -> None:
    known = NamedSecrets(home, {"TRACE_SECRET_HOOK_KEY": "of the environment"})
    known.set("hook_key", VALUE)
    assert known.get("hook_key") == "of the environment"
    assert [each.kept_in for each in known.listing()] == ["environment"]


@pytest.mark.parametrize("name", ["../user_token", "a/b", "", ".hidden", "Upper", "a" * 200])
def test_a_name_is_never_a_path(home: Home, name: str) -> None:
    home.secret("user_token")
    with pytest.raises(BadInput):
        NamedSecrets(home, {}).set(name, VALUE)
    with pytest.raises(BadInput):
        NamedSecrets(home, {}).get(name)


@pytest.mark.parametrize("given", ["", " \n", "x" * 70_000])
def test_a_value_that_is_none_is_refused(home: Home, given: str) -> None:
    with pytest.raises(BadInput):
        run(home, "set", "hook_key", given=given)
    assert NamedSecrets(home, {}).get("hook_key") is None


def test_a_wrong_home_does_not_become_an_instance(tmp_path: Path) -> None:
    with pytest.raises(SetupError):
        run(Home(tmp_path / "nothing"), "set", "hook_key", given=VALUE)
    assert not (tmp_path / "nothing").exists()


def test_a_secret_of_the_environment_reaches_the_dispatcher_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_SECRET_HOOK_KEY", VALUE)
    ports = {"postgres": 1, "dispatcher": 2, "query": 3, "devchain": 4}
    stages = lite_stages(home, Settings(), Instance(ports))
    specs = [spec for stage in stages for spec in stage.processes if spec.name != "postgres"]
    told = {s.name for s in specs if VALUE in str(Keeper(s, home, lambda _: None)._env())}
    assert told == {"dispatcher"}
    assert {spec.name for spec in specs} == set(NAMES)
    assert os.environ["TRACE_SECRET_HOOK_KEY"] == VALUE
