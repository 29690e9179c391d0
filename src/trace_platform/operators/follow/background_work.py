"""Work in a thread beside the attempt's own, so that a node that hangs cannot keep the attempt."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Directives are noticed within this.
_LOOK_EVERY_S = 0.1


class Drained(Exception):
    """The source shall end: what it has not written yet the next attempt reads again."""


class BackgroundWork:
    """Waits for work in other threads, and looks at the attempt's directives meanwhile.

    Every method raises what `check` raises, and Drained once the source is to end. Work that is
    still under way then is left to itself; nobody sees what comes of it.
    """

    def __init__(self, check: Callable[[], None], draining: Callable[[], bool]) -> None:
        self._check = check
        self._draining = draining

    def look(self) -> None:
        self._check()
        if self._draining():
            raise Drained

    def nap(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.look()
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_EVERY_S))
            self.look()

    def call(self, work: Callable[[], T]) -> T:
        return next(self.each(lambda: iter((work(),))))

    def each(self, make: Callable[[], Iterable[T]]) -> Generator[T, None, None]:
        """The items of what `make` gives, made one ahead of the caller."""
        hand = _Hand[T]()
        threading.Thread(target=hand.work, args=(make,), name="background", daemon=True).start()
        try:
            while (item := self._wait(hand)) is not _END:
                yield item
        finally:
            hand.let_go()

    def _wait(self, hand: _Hand[T]) -> Any:
        while True:
            try:
                return hand.take(_LOOK_EVERY_S)
            except queue.Empty:
                self.look()


_END = object()


class _Hand(Generic[T]):
    """What is handed from the working thread to the waiting one, an item at a time."""

    def __init__(self) -> None:
        self._items: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._let_go = threading.Event()

    def work(self, make: Callable[[], Iterable[T]]) -> None:
        try:
            # Closed here: a generator can only be closed by the thread that runs it.
            with closing(_iterate(make)) as items:
                for item in items:
                    if not self._give(item):
                        return
            self._give(_END)
        except BaseException as error:
            self._give(_Raised(error))

    def take(self, timeout_s: float) -> Any:
        item = self._items.get(timeout=timeout_s)
        if isinstance(item, _Raised):
            raise item.error
        return item

    def let_go(self) -> None:
        self._let_go.set()

    def _give(self, item: Any) -> bool:
        while not self._let_go.is_set():
            try:
                self._items.put(item, timeout=_LOOK_EVERY_S)
                return True
            except queue.Full:
                continue
        return False


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _iterate(make: Callable[[], Iterable[T]]) -> Generator[T, None, None]:
    yield from make()
