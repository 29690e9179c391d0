"""What becomes of a command whose output is closed, full or read no further."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trace_platform.cli.standard_streams import _Output

UNWRITABLE = "error [output_unwritable]: the standard output cannot be written: "


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "query.jsonl").write_text('{"event": "started"}\n' * 20_000)
    return tmp_path


def shell(home: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Of `trace`, as people redirect it. The exit code is that of its first command."""
    trace = shlex.join([sys.executable, "-m", "trace_platform.cli"])
    script = f'set -o pipefail; trace() {{ {trace} "$@"; }}; {line}'
    env = {**os.environ, "TRACE_HOME": str(home)}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=env)


@pytest.mark.parametrize("arguments", ["logs -n 20000", "logs -n 20000 --json"])
def test_whoever_reads_no_further_ends_it_quietly(home: Path, arguments: str) -> None:
    said = shell(home, f"trace {arguments} | head -1")
    assert (said.returncode, said.stderr) == (141, "")
    assert "started" in said.stdout


@pytest.mark.parametrize("arguments", ["status", "status --json", "--help", "logs"])
def test_a_full_output_is_named(home: Path, arguments: str) -> None:
    said = shell(home, f"trace {arguments} > /dev/full")
    assert said.returncode == 1
    assert said.stderr.startswith(f"{UNWRITABLE}No space left on device\nhint: see where")
    assert said.stderr.count("\n") == 2


def test_a_closed_output_is_named(home: Path) -> None:
    said = shell(home, "trace status >&-")
    assert (said.returncode, said.stderr.splitlines()[0]) == (1, f"{UNWRITABLE}Bad file descriptor")


def test_an_output_that_does_not_block_is_waited_for() -> None:
    """As when a terminal is shared with a program that made it so."""
    source, target = os.pipe()
    os.set_blocking(target, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(target, b"x" * 4096)
    with ThreadPoolExecutor(1) as pool, _Output(target, "w") as output:
        written = pool.submit(output.write, b"more")
        os.read(source, 1 << 16)
        assert written.result(60) == 4
    os.close(source)


def test_an_error_that_cannot_be_told_is_one_all_the_same(home: Path) -> None:
    for stream in ("2>&-", "2>/dev/full"):
        said = shell(home, f"trace query 'select 1' {stream}")
        assert (said.returncode, said.stdout, said.stderr) == (1, "", ""), stream


def test_a_closed_input_has_nothing_to_read(home: Path) -> None:
    said = shell(home, "trace query - <&-")
    assert (said.returncode, said.stderr.splitlines()[0]) == (
        1,
        "error [bad_input]: there is no SQL to run",
    )
