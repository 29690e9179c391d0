"""A process that checks statements: it reads questions, answers each, and ends with its input.

Started by `trace_platform.sql.checker` as `python -I -m trace_platform.sql.checking SCRATCH`. A
statement is parsed and bound over columns without rows, never run: but DuckDB computes constants on
the way, so it happens here, where nothing is in reach and time and memory are little.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from msgspec import structs

from trace_platform.confinement import confine
from trace_platform.sql.checks import (
    CPU_S,
    MEMORY_MB,
    READY,
    Answer,
    Problem,
    Question,
    decode_question,
    encode,
)

if TYPE_CHECKING:
    from trace_platform.sql.bind import Binder

# Deep enough for the deepest tree that DuckDB's parser accepts.
_RECURSION_LIMIT = 6_000
_WARM_UP = Question(sql="SELECT 1", relations={})


def main() -> None:
    scratch = sys.argv[1]
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    confine.confine([], scratch)
    confine.limit_files(0)
    sys.setrecursionlimit(_RECURSION_LIMIT)
    # Not before: its libraries start threads, and what the kernel took away holds for one.
    from trace_platform.sql.bind import Binder

    binder = Binder(MEMORY_MB)
    binder.answer(_WARM_UP)
    confine.limit_memory(2 * MEMORY_MB)
    answers.write(READY)
    answers.flush()
    for line in questions:
        confine.limit_cpu(CPU_S)
        try:
            answer = _answer(binder, decode_question(line))
        except (MemoryError, RecursionError):
            answer = Answer(problems=[Problem(said="the statement is too large to be checked")])
        answers.write(encode(answer) + b"\n")
        answers.flush()


def _answer(binder: Binder, question: Question) -> Answer:
    # What stands behind these is another parser, which most processes never need.
    if question.program is None:
        answer = binder.answer(question)
        if not question.wants_lineage:
            return answer
        from trace_platform.sql.duckdb_lineage import derivation_of

        return structs.replace(answer, derivation=derivation_of(question, answer))
    from trace_platform.sql.spark.bind import bind

    return bind(question.program, question.relations)


if __name__ == "__main__":
    main()
