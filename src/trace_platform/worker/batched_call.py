"""Calls of many threads go out together: what arrives while one is under way makes up the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from trace_platform.domain.errors import TraceError

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Caller(Generic[Item, Answer]):
    def __init__(self, item: Item) -> None:
        self.item = item
        self.answer: Answer | BaseException | None = None
        self.leads = False
        self.wake = threading.Event()


class BatchedCall(Generic[Item, Answer]):
    """`call(item)` as if alone: its own answer, or its own error. There is no thread of its own:
    one of the callers sends for all, and hands that duty on when its own answer is there."""

    def __init__(
        self, send: Callable[[list[Item]], list[Answer | TraceError]], limit: int = 500
    ) -> None:
        self._send = send
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: list[_Caller[Item, Answer]] = []
        self._busy = False

    def call(self, item: Item) -> Answer:
        me: _Caller[Item, Answer] = _Caller(item)
        with self._lock:
            self._waiting.append(me)
            me.leads, self._busy = not self._busy, True
        if not me.leads:
            me.wake.wait()
        if me.leads:
            self._lead()
        if isinstance(me.answer, BaseException):
            raise me.answer
        assert me.answer is not None
        return me.answer

    def _lead(self) -> None:
        """Send the first batch, in which the leader itself is: it has waited longest."""
        with self._lock:
            batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
        answers: list[Answer | TraceError] | list[BaseException]
        try:
            answers = self._send([caller.item for caller in batch])
        except BaseException as error:
            answers = [error] * len(batch)
        finally:
            self._hand_on()
        for caller, answer in zip(batch, answers, strict=True):
            caller.answer = answer
            caller.wake.set()

    def _hand_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].wake.set()
            else:
                self._busy = False
