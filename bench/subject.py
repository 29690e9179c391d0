"""A subject does the measured work in a process of its own, so that its CPU time can be told
from the harness's and the server's. Its own end of the pipe is bench/subjects/serve.py.
"""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.harness import BenchError
from bench.process_tree import cpu_seconds

_ROOT = Path(__file__).parent.parent
_ANSWER_S = 600.0
_STOP_S = 30.0
# What a run leaves behind (compilation, clean-up on other threads) is part of its cost.
_SETTLE_S = 0.2


class Subject:
    """`python -m MODULE ARGS` of `bench`, started on entry and stopped on exit."""

    def __init__(self, name: str, python: str | Path, module: str, *args: str, log: Path) -> None:
        self._name = name
        self._command: Sequence[str] = [str(python), "-m", module, *args]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Subject:
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C is the harness's to handle.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=_ROOT,
                start_new_session=True,
                bufsize=0,
            )
        try:
            self._answer()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._stop()

    def run(self, **request: Any) -> dict[str, Any]:
        """The subject's answer, and what the run cost as `cpu_s`."""
        assert self._process is not None
        assert self._process.stdin is not None
        before_s = cpu_seconds(self._process.pid)
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._ended() from None
        answer = self._answer()
        time.sleep(_SETTLE_S)
        return answer | {"cpu_s": cpu_seconds(self._process.pid) - before_s}

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], _ANSWER_S)[0]:
            raise BenchError(f"{self._name} did not answer within {_ANSWER_S:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self._name}: {answer['error']}")
        return answer

    def _ended(self) -> BenchError:
        words = self._log.read_text(errors="replace").strip().splitlines()
        return BenchError(f"{self._name} ended: {words[-1] if words else 'it said nothing'}")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()  # the subject ends with its input
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
