"""`python -m trace_platform.operators.own.inspect_child`: imports operators and says what they are.
Questions on standard input, answers on standard output; what the code prints goes nowhere."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from pathlib import Path

from trace_platform.domain.errors import TraceError
from trace_platform.domain.own_code import CodeRef, digest_of, parse
from trace_platform.operators import registry
from trace_platform.operators.facts import facts_of, judge, refuse_half_made
from trace_platform.operators.own.inspect import TIMEOUT_S, Answer, Answers, Asked, Questions
from trace_platform.operators.own.installed import installed, origin_of
from trace_platform.operators.own.load_code import load_class, load_function, package_of, zipped

# It imports, and computes nothing.
_MEMORY_BYTES = 4 << 30
_FILE_BYTES = 64 << 20


def main() -> None:
    _limit_itself()
    answers_to = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    questions = Questions.model_validate_json(sys.stdin.buffer.read())
    folder = Path(tempfile.mkdtemp())
    told = Answers(answers=[_answer(each, folder) for each in questions.asked])
    with os.fdopen(answers_to, "wb") as answers:
        answers.write(told.model_dump_json().encode())
    # Threads that the code has left running keep nobody waiting.
    os._exit(0)


def _limit_itself() -> None:
    for what, most in (
        (resource.RLIMIT_CPU, int(TIMEOUT_S)),
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def _answer(asked: Asked, folder: Path) -> Answer:
    try:
        return _look(asked, folder)
    except TraceError as error:
        return Answer(problem=error.message + (f"; {error.hint}" if error.hint else ""))
    except Exception as error:
        # Its validators and properties are code of its own too.
        return Answer(problem=f"{asked.operator}: {type(error).__name__}: {error}")


def _look(asked: Asked, folder: Path) -> Answer:
    ref = parse(asked.operator)
    if ref is not None and asked.is_function:
        load_function(_package(asked.files, folder), ref)
        return Answer()
    if ref is not None:
        operator, name, origin = _of_file(ref, asked.files, folder), ref.written, ref.file
    else:
        operator, name = registry.load(asked.operator), asked.operator
        origin = origin_of(installed()[name][0])
    refuse_half_made(operator, name)
    if asked.config is None:
        return Answer(facts=facts_of(operator, name, origin))
    return Answer(judged=judge(operator, asked.config))


def _of_file(ref: CodeRef, files: dict[str, str], folder: Path) -> type:
    return load_class(_package(files, folder), ref)


def _package(files: dict[str, str], folder: Path) -> str:
    digest = digest_of(files)
    path = folder / f"{package_of(digest)}.zip"
    if not path.exists():
        path.write_bytes(zipped(digest, files))
        sys.path.append(str(path))
    return package_of(digest)


if __name__ == "__main__":
    main()
