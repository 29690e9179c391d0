"""Ctrl-C, SIGTERM and a closed terminal end a command the same orderly way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """Asked to end by SIGTERM or SIGHUP."""


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """The first signal leaves the block through its clean-up; later ones do not disturb that.

    Ctrl-C goes on as KeyboardInterrupt; being asked to end is a success.
    """
    before = {number: signal.signal(number, _leave) for number in _SIGNALS}
    try:
        yield
    except Terminated:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated
