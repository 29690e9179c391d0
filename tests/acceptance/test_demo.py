"""The first thing a new user runs, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.test_cli_engine import trace as cli
from tests.support.stack import Stack, trace, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.mark.timeout(600)
def test_a_demo_is_shown_damaged_killed_and_run_again(tmp_path: Path) -> None:
    """One instance for all of it: to start one and to ingest is what takes time."""
    with trace(tmp_path / "home", "demo", "--blocks", "500") as killed:
        _another_instance_runs_beside_it(killed, tmp_path / "other")
        wait_for("the end of the ingest", lambda: "Running." in killed.text())
        _the_summary_shows(killed, "blocks 0-499", "transfers", "0x", "The data:", "trace query")
        _damaged_files_are_made_anew(killed)
        os.kill(killed.process.pid, signal.SIGKILL)
        killed.process.wait()
        assert killed.leftovers() != [], "its processes outlive it"
    with trace(tmp_path / "home", "demo", "--once", "--blocks", "250") as stack:
        assert stack.process.wait(280) == 0, stack.text()
    _the_summary_shows(stack, "blocks 500-749", "Blocks 0-499 are there", "AS new", "750  ")
    # A third of the work: what was there is not made again.
    assert ("1/1 tasks" in stack.text(), "2/2 tasks" in stack.text()) == (True, False)
    assert stack.leftovers() == [], "it leaves nothing running"
    assert list(stack.home.run.iterdir()) == []


def _another_instance_runs_beside_it(one: Stack, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[worker]\nprewarm = false\n")
    with trace(home, "up") as other:
        wait_for("the other instance", lambda: "is ready in" in other.text())
        assert not set(_ports(one)) & set(_ports(other))
        assert other.stop() == 130
        assert other.leftovers() == []


def _the_summary_shows(stack: Stack, *words: str) -> None:
    assert [each for each in words if each not in stack.text()] == [], stack.text()


def _damaged_files_are_made_anew(stack: Stack) -> None:
    whole = cli(stack, "datasets", "verify", "blocks")
    assert (whole.code, "all as promised" in whole.out) == (0, True), whole.err
    files = sorted(stack.home.objects.rglob("blocks_*.parquet"))
    with files[0].open("r+b") as file:
        file.seek(6)
        file.write(b"\0\0\0\0")
    files[-1].unlink()
    found = cli(stack, "datasets", "verify", "blocks", "--invalidate", "--json")
    assert found.code == 1
    assert {each["kind"] for each in found.json["broken"]} >= {"content", "missing"}
    assert found.json["invalidated"] != {}
    wait_for("the repair", lambda: cli(stack, "datasets", "verify", "blocks").code == 0)
    # Nothing that readers see, or saw, is garbage.
    assert cli(stack, "datasets", "gc", "--dry-run", "--json").json["items"] == []


def _ports(stack: Stack) -> list[int]:
    return list(json.loads(stack.home.instance_file.read_text())["ports"].values())
