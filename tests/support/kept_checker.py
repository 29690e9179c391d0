"""The process that reads SQL, kept from one DAG to the next: to start it takes longer than most
tests of a DAG, and it has no more between two DAGs than between two statements."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trace_platform.dag.check import statements
from trace_platform.sql.checker import Checker
from trace_platform.sql.checks import Answer, Question


class _Kept:
    def __init__(self) -> None:
        self._checker = Checker()
        # Dispatchers of a test ask from several threads.
        self._asking = threading.Lock()

    def __enter__(self) -> _Kept:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def answer(self, question: Question) -> Answer:
        with self._asking:
            return self._checker.answer(question)

    def end(self) -> None:
        """The next question starts another one."""
        with self._asking:
            self._checker.__exit__(None, None, None)


KEPT = _Kept()


@contextmanager
def one_checker_for_all() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "Checker", lambda: KEPT)
        yield
    KEPT.end()
