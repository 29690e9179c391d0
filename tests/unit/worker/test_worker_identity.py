"""Who a worker is comes from a file of its home, and two workers are never the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from trace_platform.drivers.lite.worker_identity import take_identity

_HOLD = """
import sys, pathlib
from trace_platform.drivers.lite.worker_identity import take_identity
print(take_identity(pathlib.Path(sys.argv[1]), "host"), flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Another process, and the id that it has for as long as it runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_worker_that_comes_back_after_a_kill_is_the_same_one_further_on(tmp_path: Path) -> None:
    process, first = holder(tmp_path)
    end(process)
    again = take_identity(tmp_path, "host")
    name, _, rest = first.partition("#")
    assert (again.name, rest) == (name, f"1/{process.pid}")
    assert (again.incarnation, again.pid) == (2, os.getpid())


def test_two_workers_of_one_home_that_run_at_once_are_never_the_same(tmp_path: Path) -> None:
    one, first = holder(tmp_path)
    other, second = holder(tmp_path)
    assert first.partition("#")[0] != second.partition("#")[0]
    end(one)
    # Whose place is free is taken, and the other's is not.
    third, found = holder(tmp_path)
    assert found.startswith(first.partition("#")[0] + "#2/")
    end(other)
    end(third)


def test_a_copied_home_is_another_worker(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    process, first = holder(tmp_path / "home")
    end(process)
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    assert take_identity(tmp_path / "copy", "host").name != first.partition("#")[0]


def test_what_a_crash_left_half_written_is_no_identity(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"name": "lite:ho')
    assert take_identity(tmp_path, "host").incarnation == 1
