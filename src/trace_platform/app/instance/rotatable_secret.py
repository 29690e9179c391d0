"""A shared secret of which two are valid at once, so that it can be rotated under load."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite.private_file import alone_in, write_private


class RotatableSecret:
    """The file `name`, as Home.secret makes it, and after a rotation `name.previous`.

    Whoever asks sees at once what another process rotated, or what its owner edited or removed.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._current = folder / name
        self._previous = folder / f"{name}.previous"
        self._seen: object = None
        self._values: tuple[str, ...] = ()

    def current(self) -> str:
        """What to show to others. Made on first use."""
        return self.accepted()[0]

    def accepted(self) -> tuple[str, ...]:
        """What to let in: the current one and, until the next rotation, the one before. Never ''.

        The caller compares in constant time.
        """
        # The stamps first: a rotation while the files are read shows in the next call.
        stamps = _stamp(self._current), _stamp(self._previous)
        if stamps != self._seen or not stamps[0]:
            self._values = self._read()
            self._seen = stamps
        return self._values

    def rotate(self) -> None:
        """A new current secret. Its holders have until the next rotation to fetch it."""
        self.current()
        with alone_in(self._current.parent):
            # In this order the current secret is valid at every moment.
            write_private(self._previous, self._current.read_bytes())
            write_private(self._current, _new())

    def _read(self) -> tuple[str, ...]:
        if not self._current.exists():
            self._make()
        current, previous = _text(self._current), _text(self._previous)
        if not current:
            raise SetupError(
                f"the secret in {self._current} is empty",
                hint="remove the file: a new one is made",
            )
        return (current, previous) if previous else (current,)

    def _make(self) -> None:
        first = self._current.with_name(f".{self._current.name}.first")
        with alone_in(self._current.parent):
            write_private(first, _new())
            with suppress(FileExistsError):  # Home.secret, which takes no lock, was faster
                os.link(first, self._current)
            first.unlink()


def _new() -> bytes:
    return secrets.token_urlsafe(32).encode()


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""
