from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.stack import Stack, wait_for
from tests.support.stack import trace as start_trace
from trace_platform.app.api_client import control_client


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A whole instance of its own for each file, whose worker starts Spark only when it has to."""
    home = tmp_path_factory.mktemp("instance") / "home"
    home.mkdir()
    (home / "config.toml").write_text("[worker]\nprewarm = false\n")
    with start_trace(home, "up") as running:
        wait_for("the instance", lambda: "is ready in" in running.text())
        wait_for("a worker", lambda: control_client.queues(running.home).workers)
        yield running
        assert running.stop(signal.SIGTERM) == 0, running.text()
