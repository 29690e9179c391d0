"""What stands at the top of each example is what one types in a fresh folder, and its questions are
answered with rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trace_platform.examples
from tests.support.cold_chain import served
from tests.support.http_server import Asked, HttpServer, Reply, http_server
from tests.support.stack import trace, wait_for
from trace_devchain import DevChain
from trace_platform.cli import app

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

EXAMPLES = sorted(Path(trace_platform.examples.__path__[0]).glob("*.yaml"))
# What serves until it is stopped runs beside the test, on ports of its own.
SERVES = ("trace devchain", "trace up", "http.server")
LAST = 319
# A shorter chain than the demo's, and a server that is not at its usual port.
SHORTER = {
    "--to 1999": f"--to {LAST}",
    "--to 999": "--to 249",
    "start_block: 1000": "start_block: 250",
}


def commands(example: Path) -> list[str]:
    """The lines of its first comment that one types."""
    head = example.read_text().partition("\nname:")[0]
    typed = [line[4:] for line in head.splitlines() if line.startswith("#   ")]
    return [line for line in typed if not any(each in line for each in SERVES)]


@dataclass
class Shell:
    folder: Path
    home: Path
    server: HttpServer

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = os.environ | {"PATH": path, "TRACE_HOME": str(self.home)}
        return subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=env, capture_output=True, text=True
        )

    def begins(self, example: Path) -> None:
        """A folder with the example in it, and what it asks of."""
        self.folder.mkdir()
        made = CliRunner().invoke(app, ["init", "--example", example.stem, str(self.folder)])
        assert made.exit_code == 0, made.output
        file = self.folder / example.name
        file.write_text(
            _shorter(file.read_text()).replace("http://127.0.0.1:8000", self.server.url)
        )
        self.server.answer = lambda asked: _file(self.folder / "web", asked)

    def is_answered(self, command: str) -> bool:
        said = self.types(command)
        return said.returncode == 0 and re.search(r"\b[1-9][\d,]* rows?\b", said.stdout) is not None

    def does(self, command: str) -> None:
        if command.startswith("trace query"):
            wait_for(command, lambda: self.is_answered(command), 300)
        else:
            said = self.types(command)
            assert said.returncode == 0, f"{command}\n{said.stdout}{said.stderr}"


def _shorter(text: str) -> str:
    for said, instead in SHORTER.items():
        text = text.replace(said, instead)
    return text


def _file(folder: Path, asked: Asked) -> Reply:
    file = folder / asked.path.lstrip("/")
    return Reply(file.read_bytes()) if file.is_file() else Reply(status=404)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("examples")
    with ExitStack() as stack:
        node = stack.enter_context(served(DevChain(blocks=LAST, txs=3, pools=True)))
        server = stack.enter_context(http_server())
        pools = {"TRACE_RPC_DEMO": node.url, "TRACE_RPC_DEX": node.url}
        running = stack.enter_context(trace(folder / "home", "up", env=pools))
        wait_for("the instance", lambda: "is ready in" in running.text())
        yield Shell(folder, folder / "home", server)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.stem)
def test_the_first_lines_of_an_example_run_as_written(example: Path, shell: Shell) -> None:
    typed = commands(example)
    assert any(line.startswith("trace deploy") or "&& trace deploy" in line for line in typed)
    own = Shell(shell.folder / example.stem, shell.home, shell.server)
    own.begins(example)
    for command in map(_shorter, typed):
        own.does(command)
    own.does(f"trace dag remove {example.stem} --yes")
