"""Each process is told what it needs: node URLs reach the egress alone, no admin's password any."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import Instance
from trace_platform.app.instance.settings import PostgresSettings, Settings
from trace_platform.app.supervise.lite_stack import lite_stages
from trace_platform.app.supervise.process import Keeper

PORTS = {"postgres": 1, "dispatcher": 2, "query": 3, "devchain": 4, "rpc": 5}
SECRET = "k3y-of-the-node"


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """What the children of an instance with external databases would inherit."""
    dsn = "postgresql://admin:adminpass@db.example:5432/{}"
    settings = Settings(
        postgres=PostgresSettings(state_dsn=dsn.format("state"), data_dsn=dsn.format("data"))
    )
    monkeypatch.setenv("TRACE_STATE_DSN", dsn.format("state"))
    monkeypatch.setenv("TRACE_DATA_DSN", dsn.format("data"))
    monkeypatch.setenv("TRACE_RPC_MAINNET", f"https://node.example/{SECRET}")
    env = {"TRACE_RPC_DEMO": f"https://other.example/{SECRET}"}
    home = Home(tmp_path)
    stages = lite_stages(home, settings, Instance(PORTS), env=env)
    specs = [spec for stage in stages for spec in stage.processes]
    return {spec.name: Keeper(spec, home, lambda _: None)._env() for spec in specs}


def test_node_urls_reach_the_egress_alone(environments: dict[str, dict[str, str]]) -> None:
    told = {name for name, env in environments.items() if SECRET in str(env)}
    assert told == {"rpc"}


def test_no_process_gets_the_administrators_password(
    environments: dict[str, dict[str, str]],
) -> None:
    for env in environments.values():
        assert "adminpass" not in str(env)
        assert "db.example" in env["TRACE_STATE_DSN"]
