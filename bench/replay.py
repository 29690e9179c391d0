"""The chain that every side reads: `trace devchain`, built beforehand where time counts."""

from __future__ import annotations

import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import BenchError
from bench.process_tree import cpu_seconds

_READY_S = 120.0
_STOP_S = 10.0


@dataclass(slots=True)
class Replay:
    url: str
    pid: int
    _seen_s: float = field(default=0.0, repr=False)

    def cpu_s_since_last(self) -> float:
        """What it cost to answer since the last call."""
        before, self._seen_s = self._seen_s, cpu_seconds(self.pid)
        return self._seen_s - before


@contextmanager
def replaying(blocks: int, txs: int, log: Path, *, prebuild: bool = True) -> Iterator[Replay]:
    """Blocks 1 to `blocks`, each of exactly `txs` transactions."""
    command = [sys.executable, "-m", "trace_platform.cli", "devchain", "--port", "0"]
    command += ["--blocks", str(blocks), "--txs", str(txs), "--exact-txs"]
    command += ["--prebuild"] if prebuild else []
    with log.open("wb") as errors:
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, bufsize=0, start_new_session=True
        )
    try:
        replay = Replay(_url(server, log), server.pid)
        replay.cpu_s_since_last()
        yield replay
    finally:
        _stop(server)


def _url(server: subprocess.Popen[bytes], log: Path) -> str:
    assert server.stdout is not None
    deadline = time.monotonic() + _READY_S
    if not select.select([server.stdout], [], [], deadline - time.monotonic())[0]:
        raise BenchError(f"the replay server was not ready within {_READY_S:g} s")
    found = re.search(r"http://\S+", server.stdout.readline().decode())
    if found is None:
        words = log.read_text(errors="replace").strip().splitlines()
        raise BenchError(f"the replay server did not start: {words[-1] if words else '?'}")
    return found[0]


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if server.stdout is not None:
        server.stdout.close()
