"""A whole instance as its user runs it: `trace` in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.support.short_lived import settle_for_short
from trace_platform.app.api_client import control_client
from trace_platform.app.api_client.query_client import run_query
from trace_platform.app.instance.home import Home
from trace_platform.domain.errors import TraceError

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], timeout_s: float = 120) -> T:
    """The first true answer of `look`; what it cannot answer yet counts as not yet."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            found = look()
        except (TraceError, OSError):
            found = None
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s:g} s for {what}")


@dataclass
class Stack:
    home: Home
    process: subprocess.Popen[bytes]
    output: Path

    def pid(self, name: str) -> int:
        return int(json.loads((self.home.run / f"{name}.json").read_text())["pid"])

    def kill(self, name: str) -> int:
        """kill -9, and wait until the supervisor has put another in its place."""
        old = self.pid(name)
        os.kill(old, signal.SIGKILL)
        wait_for(f"a new {name}", lambda: self.pid(name) != old)
        return old

    def completed(self, dag: str, job: str) -> int:
        counts = self.counts(dag, job)
        return counts.get("Completed", 0)

    def counts(self, dag: str, job: str) -> dict[str, int]:
        status = control_client.dag_status(self.home, dag)
        return next(j.counts for j in status.jobs if j.name == job)

    def query(self, sql: str) -> list[list[Any]]:
        return run_query(self.home, sql, 100_000).rows

    def text(self) -> str:
        return self.output.read_text()

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def leftovers(self) -> list[str]:
        """Processes that still know this home."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if any(str(self.home.root) in part for part in process.info["cmdline"] or []):
                found.append(f"{process.pid}: {process.info['cmdline']}")
        return found


@contextmanager
def trace(home: Path, *arguments: str, env: dict[str, str] | None = None) -> Iterator[Stack]:
    """`trace ARGUMENTS --home HOME` in the background, settled for the short life of a test;
    killed, should the test leave it running."""
    settle_for_short(Home(home))
    output = home.parent / f"{home.name}.out"
    command = [sys.executable, "-m", "trace_platform.cli", *arguments, "--home", str(home)]
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    stack = Stack(Home(home), process, output)
    try:
        yield stack
    finally:
        if process.poll() is None:
            stack.stop(signal.SIGTERM)
