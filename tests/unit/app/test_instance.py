from __future__ import annotations

import json
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trace_platform.app.instance import open_instance as instance
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import (
    FIRST_PORT,
    check_port,
    open_instance,
    read_ports,
)
from trace_platform.app.instance.settings import WITH_PORT, Settings
from trace_platform.domain.errors import PortInUse, SetupError


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    return tmp_path / "registry"


def test_ports_are_chosen_once_and_kept(tmp_path: Path, registry: Path) -> None:
    home = Home(tmp_path / "home")
    first = open_instance(home, Settings(), registry)
    assert set(first.ports) == set(WITH_PORT)
    assert len(set(first.ports.values())) == len(WITH_PORT)
    assert min(first.ports.values()) >= FIRST_PORT
    assert open_instance(home, Settings(), registry) == first
    assert json.loads(home.instance_file.read_text()) == {"ports": dict(first.ports)}


def test_a_port_in_use_is_not_chosen(
    tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What else runs on this machine does not matter.
    monkeypatch.setattr(instance, "is_free", lambda port: port > FIRST_PORT)
    found = open_instance(Home(tmp_path / "home"), Settings(), registry)
    assert min(found.ports.values()) == FIRST_PORT + 1


def test_the_owner_of_the_instance_decides_over_ports(tmp_path: Path, registry: Path) -> None:
    home = Home(tmp_path / "home")
    open_instance(home, Settings(), registry)
    found = open_instance(home, Settings(ports={"query": 9191}), registry)
    assert found.port("query") == 9191
    assert found.url("query") == "https://localhost:9191"


def test_a_port_that_the_settings_no_longer_fix_is_free_again(
    tmp_path: Path, registry: Path
) -> None:
    home = Home(tmp_path / "home")
    chosen = open_instance(home, Settings(), registry)
    open_instance(home, Settings(ports={"query": 9191}), registry)
    assert read_ports(home)["query"] == 9191  # clients find it
    after = open_instance(home, Settings(), registry)
    assert 9191 not in after.ports.values()
    assert after.port("postgres") == chosen.port("postgres")


def test_a_fixed_port_drives_out_a_chosen_one(tmp_path: Path, registry: Path) -> None:
    home = Home(tmp_path / "home")
    chosen = open_instance(home, Settings(), registry)
    fixed = Settings(ports={"query": chosen.port("postgres")})
    found = open_instance(home, fixed, registry)
    assert found.port("query") == chosen.port("postgres")
    assert len(set(found.ports.values())) == len(WITH_PORT)


def test_homes_that_do_not_run_keep_their_ports_from_others(tmp_path: Path, registry: Path) -> None:
    homes = [Home(tmp_path / str(number)) for number in range(4)]
    with ThreadPoolExecutor(4) as starters:
        found = list(starters.map(lambda home: open_instance(home, Settings(), registry), homes))
    ports = [port for instance in found for port in instance.ports.values()]
    assert len(set(ports)) == len(ports)


def test_a_deleted_home_gives_its_ports_back(
    tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "is_free", lambda port: True)
    home = Home(tmp_path / "gone")
    before = open_instance(home, Settings(), registry)
    home.instance_file.unlink()
    after = open_instance(Home(tmp_path / "new"), Settings(), registry)
    assert after == before


def test_a_copy_that_starts_gets_ports_of_its_own(tmp_path: Path, registry: Path) -> None:
    home, fixed = Home(tmp_path / "home"), Settings(ports={"query": 9191})
    before = open_instance(home, fixed, registry)
    copy = Home(shutil.copytree(home.root, tmp_path / "copy"))
    anew = open_instance(copy, fixed, registry, starts=True)
    assert set(anew.ports.values()) & set(before.ports.values()) == {9191}
    assert open_instance(copy, fixed, registry, starts=True) == anew
    assert open_instance(home, fixed, registry, starts=True) == before


def test_a_home_that_was_moved_keeps_its_ports(tmp_path: Path, registry: Path) -> None:
    home = Home(tmp_path / "home")
    before = open_instance(home, Settings(), registry)
    moved = Home(home.root.rename(tmp_path / "moved"))
    assert open_instance(moved, Settings(), registry, starts=True) == before


def test_starters_of_one_home_agree(tmp_path: Path, registry: Path) -> None:
    home = Home(tmp_path / "home")
    with ThreadPoolExecutor(4) as starters:
        found = list(starters.map(lambda _: open_instance(home, Settings(), registry), range(8)))
    assert all(instance == found[0] for instance in found)


def test_a_port_in_use_is_an_error_that_names_who_and_what(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortInUse) as caught:
            check_port("dispatcher", port)
    error = caught.value
    assert error.code == "port_in_use"
    assert f"port {port} of dispatcher is in use by pid" in error.message
    assert "config.toml" in (error.hint or "")
    check_port("dispatcher", port)


@pytest.mark.parametrize("content", ["{", '{"ports": {"query": 99999}}', "[]"])
def test_a_damaged_file_is_named(tmp_path: Path, registry: Path, content: str) -> None:
    home = Home(tmp_path)
    home.instance_file.write_text(content)
    with pytest.raises(SetupError, match=r"instance\.json"):
        open_instance(home, Settings(), registry)
