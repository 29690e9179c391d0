"""The dispatcher's HTTP for one control plane after the other.

To make its routes takes longer than most tests; so an app is made once, and reads everything from
the dispatcher that has borrowed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fastapi import FastAPI

from trace_platform.dispatcher.api import create_app as making
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.tasks.batches import Batches


class _Now:
    """Has the attributes of what `look` gives at the moment at which one is read."""

    def __init__(self, look: Callable[[], Any]) -> None:
        self._look = look

    def __getattr__(self, name: str) -> Any:
        return getattr(self._look(), name)


class _SecretsNow(_Now):
    def worker_tokens(self) -> Sequence[str]:
        tokens: Sequence[str] = self._look().worker_tokens()
        return tokens


class LentApp:
    """An app, and whose it is now: `lend` gives it to a dispatcher, which `give_back` ends."""

    dispatcher: Dispatcher
    batches: Batches

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        # Both are read while routes are made.
        secrets = _SecretsNow(lambda: self.dispatcher.secrets)
        tokens = _Now(lambda: self.dispatcher.grants.tokens)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(making, "Routes", lambda *_: Routes(secrets, tokens))  # type: ignore[arg-type]
            patch.setattr(making, "Batches", lambda _: _Now(lambda: self.batches))
            self.app: FastAPI = making.create_app(_Now(lambda: self.dispatcher))  # type: ignore[arg-type]


_free: list[LentApp] = []


def lend(dispatcher: Dispatcher) -> LentApp:
    lent = _free.pop() if _free else LentApp(dispatcher)
    lent.dispatcher, lent.batches = dispatcher, Batches(dispatcher)
    return lent


def give_back(lent: LentApp) -> None:
    _free.append(lent)
