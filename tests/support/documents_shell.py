"""A reader's terminal: one bash for a page, which keeps its variables and its folder."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.stack import wait_for


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    printed: str


def _ctrl_c_counts() -> None:
    """Whoever runs the tests in the background may ignore it, and so would all commands."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def _terminal(answers: str) -> Iterator[str]:
    """Where a command that asks reads these: it asks people alone."""
    if not answers:
        yield os.devnull
        return
    people, command = pty.openpty()
    try:
        os.write(people, answers.encode())
        yield os.ttyname(command)
    finally:
        os.close(command)
        os.close(people)


def _signalled(group: int, number: int) -> bool:
    """Whether there was anybody."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


class Shell:
    def __init__(self, folder: Path, scratch: Path, env: Mapping[str, str]) -> None:
        self._said = scratch / "said"
        self._typed = scratch / "typed.sh"
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=dict(env),
            process_group=0,  # leads no session, or a terminal below would become its own
            preexec_fn=_ctrl_c_counts,
        )

    def run(self, text: str, answers: str = "", timeout_s: float = 240) -> Ran:
        """All of it in this shell, so that variables, functions and `cd` stay."""
        with _terminal(answers) as typed:
            code = self._ask(f"{self._prepared(text, typed)}; echo $?", timeout_s)
        printed = self._said.read_text(errors="replace")
        for answer in answers.splitlines():  # a terminal shows what is typed
            printed = printed.replace("[y/N]: ", f"[y/N]: {answer}\n", 1)
        return Ran(int(code), printed)

    def interrupt(self, text: str, has_come: Callable[[str], bool]) -> Ran:
        """Start it, wait until it printed that, or ended by itself, and press Ctrl-C."""
        # A job of its own, as at a terminal: others of a script ignore Ctrl-C.
        job = int(self._ask(f"set -m; ({self._prepared(text, os.devnull)}) & echo $!; set +m", 10))
        try:
            said = partial(self._said.read_text, errors="replace")
            wait_for(text, lambda: has_come(said()) or not _signalled(job, 0), 60)
        finally:
            _signalled(job, signal.SIGINT)
            code = self._ask(f"wait {job}; echo $?", 60)
        return Ran(int(code), self._said.read_text(errors="replace"))

    def close(self) -> None:
        """With all that it started in the background; an instance is a session of its own."""
        assert self._bash.stdin
        self._bash.stdin.close()
        assert self._bash.stdout
        self._bash.stdout.close()
        os.killpg(self._bash.pid, signal.SIGTERM)
        self._bash.wait(10)

    def _prepared(self, text: str, answers: str) -> str:
        self._typed.write_text(f"{text}\n")
        self._said.write_text("")
        return f". '{self._typed}' <{answers} >'{self._said}' 2>&1"

    def _ask(self, line: str, timeout_s: float) -> str:
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.write(f"{line}\n".encode())
        self._bash.stdin.flush()
        if not select.select([self._bash.stdout], [], [], timeout_s)[0]:
            os.killpg(self._bash.pid, signal.SIGKILL)
            raise AssertionError(f"did not end within {timeout_s:g} s:\n{self._said.read_text()}")
        return self._bash.stdout.readline().decode().strip()
