"""A corpus as one test: `@corpus(("sql", "answer"), CASES)` stands where `parametrize` stood.

Every case runs, and a failure names each that failed. What pytest and its workers do for each test
takes longer than most cases. The fixtures are made once: a case must leave them as it found them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

_SHOWN_CHARS = 200


def corpus(
    names: str | Sequence[str],
    cases: Iterable[Any],
    ids: Iterable[str] | Callable[[Any], str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorators stack: then every case of one meets every case of the other."""
    wanted = [names] if isinstance(names, str) else list(names)
    given = list(cases)
    titles = [] if ids is None or callable(ids) else list(ids)
    rows = []
    for number, case in enumerate(given):
        values = _values(case, len(wanted))
        title = titles[number] if titles else _title(case, values, ids)
        rows.append((title, dict(zip(wanted, values, strict=True))))
    assert rows, "a corpus without cases proves nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run_all(**fixtures: Any) -> None:
            failed = [
                (title, error)
                for title, values in rows
                if (error := _failure(test, {**fixtures, **values})) is not None
            ]
            if failed:
                shown = "\n\n".join(f"{title}\n{_told(error)}" for title, error in failed)
                message = f"{len(failed)} of {len(rows)} cases failed\n\n{shown}"
                raise AssertionError(message) from failed[0][1]

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in wanted]
        run_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run_all

    return decorate


def _failure(test: Callable[..., None], arguments: dict[str, Any]) -> BaseException | None:
    try:
        test(**arguments)
    except (Exception, pytest.fail.Exception) as error:
        return error
    return None


def _values(case: Any, wanted: int) -> Sequence[Any]:
    values = getattr(case, "values", None)
    if isinstance(values, tuple):  # pytest.param
        return values
    return (case,) if wanted == 1 else tuple(case)


def _title(case: Any, values: Sequence[Any], ids: Any) -> str:
    if isinstance(title := getattr(case, "id", None), str):
        return title
    shown = [str(ids(each)) if callable(ids) else repr(each) for each in values]
    return ", ".join(shown)[:_SHOWN_CHARS]


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
