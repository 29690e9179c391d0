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


def test_the_demo_ends_in_a_table_and_leaves_nothing_running(tmp_path: Path) -> None:
    with trace(tmp_path / "home", "demo", "--once", "--blocks", "500") as stack:
        assert stack.process.wait(280) == 0, stack.text()
    said = stack.text()
    for words in ("blocks 0-499", "transfers", "0x", "The data:", "trace query"):
        assert words in said, said
    assert stack.leftovers() == []
    assert list(stack.home.run.iterdir()) == []


@pytest.mark.timeout(600)
def test_a_demo_that_is_run_again_goes_on_where_it_ended(tmp_path: Path) -> None:
    for blocks in ("750", "250"):
        with trace(tmp_path / "home", "demo", "--once", "--blocks", blocks) as stack:
            assert stack.process.wait(280) == 0, stack.text()
    said = stack.text()
    for words in ("blocks 750-999", "Blocks 0-749 are there", "AS new", "1,000  "):
        assert words in said, said
    # A third of the work: what was there is not made again.
    assert ("1/1 tasks" in said, "3/3 tasks" in said) == (True, False), said


def test_two_instances_run_side_by_side(tmp_path: Path) -> None:
    with trace(tmp_path / "one", "up") as one, trace(tmp_path / "two", "up") as two:
        for stack in (one, two):
            wait_for("the instance", lambda s=stack: "is ready in" in s.text())
        ports = [set(_ports(s)) for s in (one, two)]
        assert not ports[0] & ports[1]
        assert [s.stop() for s in (one, two)] == [130, 130]
        assert one.leftovers() + two.leftovers() == []


def test_an_instance_whose_supervisor_was_killed_starts_again(tmp_path: Path) -> None:
    with trace(tmp_path / "home", "demo", "--blocks", "500") as killed:
        wait_for("the end of the ingest", lambda: "Running." in killed.text())
        _damaged_files_are_made_anew(killed)
        os.kill(killed.process.pid, signal.SIGKILL)
        killed.process.wait()
        assert killed.leftovers() != [], "its processes outlive it"
    with trace(tmp_path / "home", "up") as stack:
        wait_for("the instance", lambda: "is ready in" in stack.text())
        assert stack.query("SELECT count(*) FROM blocks") == [[500]]
        assert stack.stop(signal.SIGTERM) == 0
        assert stack.leftovers() == []


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
