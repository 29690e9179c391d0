"""What is asked about a statement that shall run later, and what is answered: lines of JSON between
whoever checks and its process (checker.py, checking.py)."""

from __future__ import annotations

import msgspec

from trace_platform.sql.relations import Column

# What a process may use, and its time for one statement.
MEMORY_MB = 256
CPU_S = 5.0
# Its first line: it is confined and warm.
READY = b"ready\n"


class Readable(msgspec.Struct, frozen=True, kw_only=True):
    """What a statement may read under a name."""

    # None: nobody knows them yet.
    columns: list[Column] | None = None
    # Why nobody can read rows of it.
    refused: str | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    sql: str
    # By name. Several may stand for the same.
    relations: dict[str, Readable]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, in a sentence with its cure; where in the statement, from 1, if that is
    known."""

    said: str
    line: int | None = None
    column: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    problems: list[Problem] = []
    # Of the statement's rows, as files of them say it. None: that cannot be told.
    columns: list[Column] | None = None


encode = msgspec.json.Encoder().encode
decode_question = msgspec.json.Decoder(Question).decode
decode_answer = msgspec.json.Decoder(Answer).decode
