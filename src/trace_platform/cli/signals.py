"""Ctrl-C, SIGTERM and a closed terminal end a command the same orderly way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """Asked to end by SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """The first signal leaves the block through its clean-up; later ones do not disturb that.

    Ctrl-C goes on as KeyboardInterrupt; being asked to end is a success.
    """
    try:
        with _raised(_SIGNALS):
            yield
    except Terminated:
        pass


@contextmanager
def end_on_signals(*, at_prompt: bool = False) -> Iterator[None]:
    """The same for work that is not done when it is stopped: the exit code says by what, as a shell
    would. At a prompt Ctrl-C ends a statement and not the command."""
    signals = _SIGNALS[1:] if at_prompt else _SIGNALS
    try:
        with _raised(signals):
            yield
    except KeyboardInterrupt:
        raise _ended(signal.SIGINT) from None
    except Terminated as asked:
        raise _ended(asked.number) from None


def _ended(number: int) -> typer.Exit:
    typer.echo("canceled", err=True)
    return typer.Exit(128 + number)


@contextmanager
def _raised(signals: tuple[signal.Signals, ...]) -> Iterator[None]:
    def leave(number: int, frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)

    # Whoever started this with nohup wants it to outlive the terminal.
    stays = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    wanted = [each for each in signals if not (each == signal.SIGHUP and stays)]
    before = {number: signal.signal(number, leave) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
