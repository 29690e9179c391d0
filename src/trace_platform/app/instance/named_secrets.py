"""Secrets that DAG files name: `secrets/named/NAME` of the home, or TRACE_SECRET_<NAME>."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trace_platform.app.instance.home import Home
from trace_platform.domain.errors import BadInput
from trace_platform.drivers.lite.private_file import alone_in, give_to_owner_of, write_private

VARIABLE = "TRACE_SECRET_"
MAX_BYTES = 64 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class NamedSecret:
    """What is known of it without its value."""

    name: str
    kept_in: Literal["file", "environment"]
    set_at: float | None


class NamedSecrets:
    """Read anew each time: what another process sets counts at once. A variable goes before a
    file, as with all settings."""

    def __init__(self, home: Home, environ: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._environ = os.environ if environ is None else environ

    def get(self, name: str) -> str | None:
        """The value; None when it is not set, or empty."""
        given = self._environ.get(VARIABLE + name.upper())
        if given is None:
            with suppress(FileNotFoundError, NotADirectoryError):
                given = (self._folder / checked(name)).read_text()
        return (given or "").strip() or None

    def set(self, name: str, value: str) -> None:
        """For its owner alone; it takes the place of the one before."""
        path = self._made_folder() / checked(name)
        with alone_in(path.parent):
            write_private(path, value.encode())

    def remove(self, name: str) -> bool:
        """Whether there was such a file."""
        try:
            (self._folder / checked(name)).unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def listing(self) -> list[NamedSecret]:
        files = self._folder.iterdir() if self._folder.is_dir() else ()
        found = {
            path.name: NamedSecret(path.name, "file", path.stat().st_mtime)
            for path in files
            if _NAME.fullmatch(path.name)
        }
        for variable in self._environ:
            name = variable.removeprefix(VARIABLE).lower()
            if variable.startswith(VARIABLE) and _NAME.fullmatch(name):
                found[name] = NamedSecret(name, "environment", None)
        return [found[name] for name in sorted(found)]

    @property
    def _folder(self) -> Path:
        return self._home.root / "secrets" / "named"

    def _made_folder(self) -> Path:
        folder = self._home.secrets / "named"
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            give_to_owner_of(folder.parent, folder)
        return folder


def checked(name: str) -> str:
    """The name itself: it becomes the name of a file."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"'{name}' cannot be the name of a secret",
            hint="lower-case letters, digits and '_', starting with a letter, as in the DAG's file",
        )
    return name
