"""Code that is not Trace's own is looked at in a process of its own: whoever checks a DAG or lists
operators never runs it.

The process has no secret in its environment, a limited time and limited memory. It is no sandbox:
who may deploy is trusted, as docs/runtimes.md says.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from trace_platform.domain.own_code import Code, CodeRef, parse
from trace_platform.operators.facts import Judged, OperatorFacts

TIMEOUT_S = 30.0
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


class Asked(BaseModel):
    """An operator, and the config that a job gives it; None: what the operator is."""

    operator: str
    config: dict[str, Any] | None = None
    # Of a file beside a DAG: it, and what it imports.
    files: dict[str, str] = {}
    # It names a function, which needs nothing but to be there.
    is_function: bool = False


class Answer(BaseModel):
    # Why it cannot be used.
    problem: str | None = None
    facts: OperatorFacts | None = None
    judged: Judged | None = None


class Questions(BaseModel):
    asked: list[Asked]


class Answers(BaseModel):
    answers: list[Answer]


def inspect_operators(asked: Sequence[Asked]) -> list[Answer]:
    """In the order of the questions. Code that ends its process, or never ends, is no operator."""
    if not asked:
        return []
    said = _run(Questions(asked=list(asked)).model_dump_json().encode())
    try:
        answers = Answers.model_validate_json(said).answers
    except ValidationError:
        answers = []
    if len(answers) == len(asked):
        return answers
    if len(asked) == 1:
        ended = f"did not answer within {TIMEOUT_S:g} s, or ended its process, when it was imported"
        return [Answer(problem=f"{_named(asked[0])} {ended}")]
    # One of them is to blame: each by itself, then.
    return [answer for each in asked for answer in inspect_operators([each])]


def asked_of(operator: str, config: dict[str, Any] | None, code: Code) -> Asked:
    """Raise InvalidConfig when the operator's file, or one that it imports, is not there."""
    ref = parse(operator)
    return Asked(operator=operator, config=config, files=code.of(ref) if ref else {})


def asked_of_function(ref: CodeRef, code: Code) -> Asked:
    """As `asked_of`; of what `python_transform` calls."""
    return Asked(operator=str(ref), files=code.of(ref), is_function=True)


def _named(asked: Asked) -> str:
    ref = parse(asked.operator)
    return ref.file if ref else f"operator {asked.operator!r}"


def _run(question: bytes) -> bytes:
    with tempfile.TemporaryDirectory(prefix="trace-look-") as folder:
        child = subprocess.Popen(
            [sys.executable, "-I", "-B", "-m", "trace_platform.operators.own.inspect_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={name: os.environ[name] for name in _KEPT if name in os.environ}
            | {"HOME": folder, "TMPDIR": folder},
            start_new_session=True,
        )
        try:
            said, _ = child.communicate(question, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            said = b""
        finally:
            _end(child)
        return said


def _end(child: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()
    child.wait()
