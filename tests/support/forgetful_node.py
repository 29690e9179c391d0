"""A node that answers null to one call in ten, as a provider does that has many nodes."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.support.tiny_chain import digest

Answer = Callable[[str, list[Any]], Any]
_HEAD = ("latest", "finalized", "safe")


class Forgetful:
    """Which call is forgotten hangs on the call and on how often it was made: not on the order in
    which threads ask, so that each run of a test sees the same nulls."""

    def __init__(self, answer: Answer, methods: tuple[str, ...], name: str = "") -> None:
        self._answer = answer
        self._methods = methods
        self._name = name
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        self.nulls = 0

    def answer(self, method: str, params: list[Any]) -> Any:
        if method not in self._methods or params[0] in _HEAD:
            return self._answer(method, params)
        call = json.dumps([method, params])
        with self._lock:
            self._asked[call] += 1
            drawn = int(digest(self._name, call, self._asked[call]), 16) % 10
            self.nulls += drawn == 0
        return None if drawn == 0 else self._answer(method, params)

    @property
    def most_asked(self) -> int:
        return max(self._asked.values())
