"""What a query child does when it is asked: check, plan, run."""

from __future__ import annotations

import os
from typing import Literal

import duckdb

from trace_platform.confinement import confine
from trace_platform.domain.errors import InternalError, InvalidQuery, QueryTooLarge, TraceError
from trace_platform.query.child.engine import Engine, lock, open_database
from trace_platform.query.child.explain import Explained
from trace_platform.query.child.results import Send
from trace_platform.query.child.scan_plan import DISABLED_OPTIMIZERS, plan
from trace_platform.query.protocol.messages import (
    Check,
    Checked,
    Done,
    Plan,
    Planned,
    Refused,
    Reply,
    Request,
    Run,
    Setup,
)
from trace_platform.sql import catalog, gate
from trace_platform.sql.functions import allowed_functions
from trace_platform.sql.meaning import understood

_WARM_UP = "SELECT now(), 1.5::DECIMAL(3, 1)"
# A word that may be a name or not: the list of those is read once.
_PINNED = "FROM year@0000"
# Among the facts of an error: the child is not to be used again.
_RETIRE = "retire"
_FORMATS: tuple[Literal["json", "arrow", "parquet"], ...] = ("json", "arrow", "parquet")


class StatementServer:
    """Checks, plans and runs the statements of one parent, one after the other."""

    def __init__(self, setup: Setup, send: Send) -> None:
        self._limits, self._scratch = setup.limits, setup.scratch
        self._send = send
        self._parser = open_parser(setup)
        self._engine = Engine(setup.limits, setup.scratch, self._parser)
        self._statement: gate.Statement | None = None

    def warm(self) -> None:
        """Pay for imports, the function list and the first database before the first query."""
        allowed_functions()
        gate.check(self._parser, _PINNED)
        warm_up = gate.check(self._parser, _WARM_UP)
        for form in _FORMATS:
            self._engine.run(warm_up, Run(relations=[], format=form), lambda _: None)
            self._engine.prepare()

    def answer(self, request: Request) -> Reply:
        timeout_s = request.timeout_s if isinstance(request, Run) else self._limits.timeout_s
        confine.limit_cpu(timeout_s * self._limits.threads)
        try:
            match request:
                case Check():
                    return self._check(request)
                case Plan():
                    return self._plan(request)
                case Run():
                    return self._run(request)
        except TraceError as error:
            # Memory that ran out is not given back in whole.
            retire = bool(error.facts.pop(_RETIRE, False))
            return Refused(error.code, error.message, error.hint, error.facts, retire)
        except (MemoryError, RecursionError):
            too_big = QueryTooLarge("the query is too large to run")
            return Refused(too_big.code, too_big.message, retire=True)
        except Exception as error:
            # A defect of ours ends with this statement; its text may hold part of it.
            defect = InternalError(f"the statement was not understood: {type(error).__name__}")
            return Refused(defect.code, defect.message, retire=True)

    def prepare(self) -> None:
        self._engine.prepare()

    def _check(self, request: Check) -> Checked:
        self._statement = None
        self._statement = gate.check(self._parser, request.sql)
        return Checked(list(self._statement.references), self._statement.reads_catalog)

    def _plan(self, request: Plan) -> Planned:
        statement = self._checked()
        explained = Explained(
            request.relations, self._limits, self._limits.timeout_s, self._scratch
        )
        with explained.errors_of(statement):
            statement = understood(
                self._parser, statement, {each.view: each.columns for each in request.relations}
            )
            return Planned(plan(self._parser, statement, request.relations, explained))

    def _run(self, request: Run) -> Done:
        statement, self._statement = self._checked(), None
        return self._engine.run(statement, request, self._send)

    def _checked(self) -> gate.Statement:
        if self._statement is None:
            raise InvalidQuery("no statement was checked")
        return self._statement


def open_parser(setup: Setup) -> duckdb.DuckDBPyConnection:
    """A database for statements that are read and planned, but never run: it has no rows."""
    connection = open_database(setup.limits, os.path.join(setup.scratch, "planned"))
    connection.execute(f"SET disabled_optimizers = '{','.join(DISABLED_OPTIMIZERS)}'")
    lock(connection, [])
    catalog.add(connection, [])
    return connection
