"""A disk that fills: the task says so, commits nothing, and finishes once there is space."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stack import trace, wait_for
from trace_platform.app.api_client import control_client

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The objects folder of a home to come, on a disk of its own."""
    objects = tmp_path / "home" / "objects"
    objects.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(objects)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield objects
    finally:
        subprocess.run(["umount", "--lazy", str(objects)], check=True)


def test_a_full_disk_delays_the_ingest_and_loses_nothing(small_disk: Path) -> None:
    home = small_disk.parent
    with trace(home, "demo", "--blocks", "1000") as stack:

        def waits_for_space() -> bool:
            tasks = control_client.tasks(stack.home, "chain", "Failed").tasks
            return any(t.error_code == "disk_full" and t.next_retry_at for t in tasks)

        wait_for("a task that found the disk full", waits_for_space)
        remount = ["mount", "-o", "remount,size=200m", str(small_disk)]
        subprocess.run(remount, check=True)
        wait_for("the end of the ingest", lambda: "Running." in stack.text(), 200)
        numbers = stack.query("SELECT block_number FROM blocks ORDER BY 1")
        assert numbers == [[n] for n in range(1000)]
        assert stack.stop() == 130
