"""`trace status` and `trace doctor` of processes under a supervisor of one's own, and of what an
instance needs besides."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.acceptance.test_cli_engine import command
from tests.conftest import PostgresServer
from tests.support.own_port import own_port
from tests.support.tcp_forwarder import TcpForwarder
from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home

Eventually = Callable[..., None]
TRACE = [sys.executable, "-m", "trace_platform.cli"]
FOLLOWING = """
name: work
jobs:
  - name: follow
    activation: source
    source: { kind: always_on }
    runtime: ecs_platform
    operator: block_follower
    config: { chain_id: 1, rpc_pool: mainet }
    outputs: [blocks, transactions, logs]
"""


@dataclass
class Own:
    """A home whose processes this test keeps, on an external Postgres behind a forwarder."""

    home: Home
    postgres: TcpForwarder
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def serve(self, name: str, **env: str) -> subprocess.Popen[bytes]:
        serve = [*TRACE, "serve", name, "--home", str(self.home.root)]
        with (self.home.root.parent / f"{name}.out").open("wb") as said:
            process = subprocess.Popen(
                serve, stdout=said, stderr=subprocess.STDOUT, env={**os.environ, **env}
            )
        self.running.append(process)
        return process

    def trace(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        said = command(*arguments, "--home", str(self.home.root))
        return subprocess.CompletedProcess(arguments, said.code, said.out, said.err)

    def status(self) -> dict[str, Any]:
        done = self.trace("status", "--json")
        said: dict[str, Any] = json.loads(done.stdout)
        assert said["ready"] == (done.returncode == 0)
        return said

    def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.status()["processes"]}

    def findings(self) -> dict[str, dict[str, str]]:
        found = json.loads(self.trace("doctor", "--json").stdout)
        return {each["check"]: each for each in found}

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        self.postgres.close()


@pytest.fixture
def own(postgres: PostgresServer, tmp_path: Path) -> Iterator[Own]:
    home = Home(tmp_path / "home")
    home.root.mkdir(mode=0o700)
    # Roles are the whole server's: their passwords are those that other tests know.
    shutil.copytree(postgres.home.secrets, home.root / "secrets")
    forwarder = TcpForwarder(postgres.instance.port("postgres"))
    names = [f"own_{kind}_{os.getpid()}" for kind in ("state", "data")]
    dsns = [external(postgres, name, forwarder.port) for name in names]
    home.config_file.write_text(
        "[postgres]\n"
        + "".join(
            f"{key} = {json.dumps(dsn)}\n"
            for key, dsn in zip(("state_dsn", "data_dsn"), dsns, strict=True)
        )
        + "[worker]\nprewarm = false\n"
    )
    with postgres.admin() as admin:
        for name in names:
            admin.execute(f"CREATE DATABASE {name}".encode())
    made = Own(home, forwarder)
    try:
        done = made.trace("migrate")
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.close()
        with postgres.admin() as admin:
            for name in names:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def external(postgres: PostgresServer, database: str, port: int) -> str:
    dsn = conninfo_to_dict(databases.admin_dsn(postgres.home, postgres.instance, database))
    return make_conninfo(**{name: str(value) for name, value in (dsn | {"port": port}).items()})


def test_processes_of_ones_own_supervisor_are_known(
    own: Own, tmp_path: Path, eventually: Eventually
) -> None:
    assert own.states() == {}
    node = f"http://127.0.0.1:{own_port(tmp_path / 'nobody')}"
    dispatcher = own.serve("dispatcher")
    rpc = own.serve("rpc", TRACE_RPC_MAINNET=node)
    own.serve("worker")
    ready = {"dispatcher": "ready", "rpc": "ready", "worker": "ready"}
    eventually(lambda: own.states() == ready, "all three")
    said = own.status()
    assert (said["ready"], said["supervisor"]) == (True, None)
    assert {each["by"] for each in said["processes"]} == {"its own"}
    pids = {each["name"]: each["pid"] for each in said["processes"]}
    assert (pids["dispatcher"], pids["rpc"]) == (dispatcher.pid, rpc.pid)
    assert "under a supervisor of its own" in own.trace("status").stdout

    found = own.findings()
    assert (found["ports"]["level"], found["ports"]["detail"]) == (
        "ok",
        "in use by this instance: dispatcher, rpc",
    )
    # The variable is the process's alone, and the pool is in use.
    assert "mainnet (1)" in found["rpc"]["detail"]
    assert found["spark"]["level"] == "ok"

    assert f"dispatcher (pid {dispatcher.pid}) runs on" in own.trace("down").stdout
    assert own.states() == ready
    rpc.send_signal(signal.SIGTERM)
    assert rpc.wait(30) == 0
    assert own.states() == {"dispatcher": "ready", "worker": "ready"}, "it was told to end"
    dispatcher.kill()
    dispatcher.wait()
    assert own.states() == {"dispatcher": "dead", "worker": "ready"}
    assert not own.status()["ready"]
    own.serve("dispatcher")
    eventually(lambda: own.states() == {"dispatcher": "ready", "worker": "ready"})


def test_a_pool_that_is_not_there_is_warned_of_with_its_line(
    own: Own, tmp_path: Path, eventually: Eventually
) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(FOLLOWING)
    own.serve("dispatcher")
    own.serve("rpc", TRACE_RPC_MAINNET=f"http://127.0.0.1:{own_port(tmp_path / 'nobody')}")
    eventually(lambda: own.states() == {"dispatcher": "ready", "rpc": "ready"}, "both")
    for verb in ("plan", "deploy"):
        done = own.trace(verb, str(file))
        assert done.returncode == 0, done.stderr
        assert f"{file}:9:28: warning: jobs[0].config.rpc_pool: no pool" in done.stderr
        assert "did you mean mainnet?" in done.stderr
    file.write_text(FOLLOWING.replace("mainet", "mainnet"))
    assert "rpc_pool" not in own.trace("plan", str(file)).stderr


def test_an_external_postgres_that_is_down_is_not_ready(own: Own, eventually: Eventually) -> None:
    own.serve("dispatcher")
    eventually(lambda: own.status()["ready"], "the dispatcher")
    own.postgres.close()
    said = own.status()
    assert [each["state"] for each in said["processes"]] == ["ready"], "it lives, and waits"
    assert not said["ready"]
    troubles = {each["name"]: each["trouble"] for each in said["needs"]}
    assert "cannot be reached" in troubles["postgres (state)"]
    assert "cannot be reached" in troubles["postgres (data)"]
    assert troubles["dispatcher"]
    shown = own.trace("status")
    assert (shown.returncode, "postgres (state): cannot be reached" in shown.stdout) == (3, True)


def test_a_spark_master_that_nobody_answers_at_is_not_ready(
    own: Own, tmp_path: Path, eventually: Eventually
) -> None:
    own.serve("worker")
    eventually(lambda: own.status()["ready"], "the worker")
    config, port = own.home.config_file, own_port(tmp_path / "nobody")
    config.write_text(config.read_text() + f'[spark]\nmaster = "spark://127.0.0.1:{port}"\n')
    said = own.status()
    assert not said["ready"]
    (trouble,) = [each["trouble"] for each in said["needs"] if each["name"] == "spark master"]
    assert f"spark://127.0.0.1:{port} cannot be reached" in trouble
