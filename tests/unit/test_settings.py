from __future__ import annotations

from pathlib import Path

import pytest

from trace_platform.app.home import Home
from trace_platform.app.settings import Settings, load_settings
from trace_platform.domain.errors import InvalidConfig


def settings(folder: Path, text: str, **environ: str) -> Settings:
    home = Home(folder)
    home.config_file.write_text(text)
    return load_settings(home, environ)


@pytest.mark.parametrize(
    ("ports", "words"),
    [
        ("wroker = 9001", "no process with a port is called wroker"),
        ("query = 0", "ports.query: "),
        ("query = 65536", "ports.query: "),
        ("query = true", "ports.query: "),
        ('query = "9001"', "ports.query: "),
        ("query = 9001\ndispatcher = 9001", "query and dispatcher cannot share port 9001"),
    ],
)
def test_a_wrong_port_is_named(tmp_path: Path, ports: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        settings(tmp_path, f"[ports]\n{ports}\n")
    assert words in caught.value.message
    assert "Value error" not in caught.value.message


def test_every_process_that_listens_may_have_a_port(tmp_path: Path) -> None:
    ports = {"postgres": 1, "dispatcher": 2, "query": 3, "devchain": 65535}
    text = "[ports]\n" + "".join(f"{name} = {port}\n" for name, port in ports.items())
    assert settings(tmp_path, text).ports == ports


def test_variables_count_over_the_file(tmp_path: Path) -> None:
    text = '[spark]\nmaster = "local[1]"\n[rpc_pools]\nmainnet = "http://a"\n'
    found = settings(tmp_path, text, TRACE_RPC_MAINNET="http://b", TRACE_SPARK_MASTER="local[2]")
    assert found.rpc_pools == {"mainnet": "http://b"}
    assert found.spark.master == "local[2]"


@pytest.mark.parametrize("content", [b"= 1", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"config\.toml"):
        load_settings(Home(tmp_path), {})
