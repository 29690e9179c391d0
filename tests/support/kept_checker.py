"""The process that reads SQL, kept from one DAG to the next: to start it takes longer than most
tests of a DAG, and it has no more between two DAGs than between two statements."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from trace_platform.dag.check import statements
from trace_platform.sql.checker import Checker
from trace_platform.sql.checks import Answer, Question


class _Kept:
    """Its process ends with the thread that started it: that is no thread of a test, which ends
    before the next one begins."""

    def __init__(self) -> None:
        self._checker = Checker()
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> _Kept:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def answer(self, question: Question) -> Answer:
        return self._thread.submit(self._checker.answer, question).result()

    def end(self) -> None:
        """The next question starts another one."""
        self._thread.submit(self._checker.__exit__, None, None, None).result()


KEPT = _Kept()


@contextmanager
def one_checker_for_all() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "Checker", lambda: KEPT)
        yield
    KEPT.end()
