"""What is asked about a statement that shall run later, and what is answered: lines of JSON between
whoever checks and its process (checker.py, checking.py)."""

from __future__ import annotations

import msgspec

from trace_platform.sql.derivation import Derivation
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
    # What origins of columns call it, under whatever name it is read; None: as it is named.
    source: str | None = None


class Step(msgspec.Struct, frozen=True):
    """A named statement of Spark SQL; later ones read it by its name."""

    name: str
    sql: str


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of Spark SQL, in their order, and the words that stand for parameters in them."""

    steps: list[Step]
    words: list[str] = []
    # What those stand for that are the same in each task.
    values: dict[str, str] = {}


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """About a statement for queries, or about a program for Spark."""

    sql: str = ""
    # By name. Several may stand for the same.
    relations: dict[str, Readable]
    program: Program | None = None
    # Of a statement: what its columns are made of too.
    wants_lineage: bool = False


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
    # What these are made of, of the relations alone. None: that cannot be told.
    derivation: Derivation | None = None
    # Of a program: of each step, in their order.
    steps: list[Answer] = []

    @property
    def named(self) -> list[Column] | None:
        """The columns; without types where nobody knows the types of what is read."""
        if self.columns is None and self.derivation is not None:
            return [Column(each.name, each.type) for each in self.derivation.columns]
        return self.columns


encode = msgspec.json.Encoder().encode
decode_question = msgspec.json.Decoder(Question).decode
decode_answer = msgspec.json.Decoder(Answer).decode
