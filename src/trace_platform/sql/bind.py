"""Whether a statement can run over these columns, and which columns its rows would have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb

from trace_platform.domain.alike import alike, did_you_mean, listed
from trace_platform.domain.errors import InvalidQuery, QueryTooLarge
from trace_platform.sql import gate, mistakes, result_columns
from trace_platform.sql.checks import Answer, Problem, Question
from trace_platform.sql.database import open_database
from trace_platform.sql.meaning import understood
from trace_platform.sql.relations import Column, Reference
from trace_platform.sql.sql_text import quoted, without_semicolon

_ALIKE = 3
_SHOWN = 12
# Parquet counts no seconds.
_STORED = {"TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP"}
_NO_PLAIN_NAME = "TIMESTAMP_NS"


class Binder:
    def __init__(self, memory_mb: int) -> None:
        self._connection = open_database(memory_mb, 1, "")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def answer(self, question: Question) -> Answer:
        try:
            statement = gate.check(self._connection, question.sql)
        except (InvalidQuery, QueryTooLarge) as error:
            return Answer(problems=[_problem(error)])
        problems = list(_unreadable(statement.references, question))
        if problems:
            return Answer(problems=problems)
        if statement.reads_catalog or statement.explaining is not None:
            # What it answers depends on who asks, and when.
            return Answer()
        columns = _known(statement.references, question)
        return Answer() if columns is None else self._bind(statement, columns)

    def _bind(self, statement: gate.Statement, columns: dict[str, Sequence[Column]]) -> Answer:
        try:
            statement = understood(self._connection, statement, columns)
            found = self._described(statement.sql, columns)
        except InvalidQuery as error:
            return Answer(problems=[_problem(error)])
        except duckdb.OutOfMemoryException:
            raise MemoryError from None
        except duckdb.Error as error:
            kind, facts = mistakes.read(str(error))
            return Answer(problems=[_problem(mistakes.refusal(kind, facts, statement))])
        return Answer(columns=self._stored(found))

    def _described(self, sql: str, relations: dict[str, Sequence[Column]]) -> list[Column]:
        self._connection.begin()
        try:
            for view, columns in relations.items():
                nulls = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in columns)
                self._connection.execute(f"CREATE VIEW {quoted(view)} AS SELECT {nulls}")
            text = f"{mistakes.DESCRIBE_FROM}{without_semicolon(sql)}\n)"
            rows = self._connection.execute(text).fetchall()
        finally:
            self._connection.rollback()
        return [Column(str(name), str(kind)) for name, kind, *_ in rows]

    def _stored(self, columns: Sequence[Column]) -> list[Column] | None:
        """As a query sees the file that is made of such rows."""
        kinds = [result_columns.in_arrow(self._connection.dtype(each.type)) for each in columns]
        if any(_NO_PLAIN_NAME in kind for kind in kinds):
            return None
        return [
            Column(each.name, _STORED.get(kind, kind))
            for each, kind in zip(columns, kinds, strict=True)
        ]


def _unreadable(references: Sequence[Reference], question: Question) -> Iterator[Problem]:
    """Every name that the statement cannot read, at its place."""
    for each in references:
        readable = question.relations.get(each.name)
        said = None
        if readable is None:
            said = _unknown(each.name, list(question.relations))
        elif each.version or each.at:
            said = f"{each.name!r} has a version, and a job reads what is current: leave it out"
        elif readable.refused is not None:
            said = f"{each.name!r} has no rows: {readable.refused}"
        if said is not None:
            yield Problem(said=said, line=each.line, column=each.column)


def _unknown(name: str, known: Sequence[str]) -> str:
    meant = did_you_mean(alike(name, known, _ALIKE))
    reads = f"it reads {listed(known, _SHOWN)}" if known else "the job has no inputs"
    return f"{name!r} is no input of the job; {meant or reads}"


def _known(
    references: Sequence[Reference], question: Question
) -> dict[str, Sequence[Column]] | None:
    """By view; None where those of one are not known."""
    found: dict[str, Sequence[Column]] = {}
    for each in references:
        columns = question.relations[each.name].columns
        if not columns or not all(column.type for column in columns):
            return None
        found[each.view] = columns
    return found


def _problem(error: InvalidQuery | QueryTooLarge) -> Problem:
    line, column = error.facts.get("line"), error.facts.get("column")
    return Problem(
        said=_without_place(error.message, line, column)
        + (f"; {error.hint}" if error.hint else ""),
        line=line if isinstance(line, int) else None,
        column=column if isinstance(column, int) else None,
    )


def _without_place(message: str, line: object, column: object) -> str:
    """The place is told as one of the file. A list of all the functions that there are is no
    help."""
    first = message.removesuffix(f" (line {line}, column {column})").partition("\n")[0]
    return first.rstrip("!. ")
