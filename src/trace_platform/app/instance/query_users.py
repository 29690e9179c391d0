"""Users who may query and do nothing else, each with a token of their own."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from trace_platform.app.instance.home import Home
from trace_platform.domain.errors import BadInput, Conflict, NotFound
from trace_platform.drivers.lite.private_file import alone_in, give_to_owner_of, write_private
from trace_platform.query.service.callers import ALL
from trace_platform.query.service.callers import User as QueryUser

# Whoever runs the instance: the token of `secrets/user_token`, which opens more than queries.
OWNER = "owner"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_DATASET = re.compile(r"\w[\w.-]{0,511}")


@dataclass(frozen=True, slots=True)
class UserEntry:
    """What is known of a user without the token."""

    name: str
    pii: tuple[str, ...]
    since: float


class QueryUsers:
    """`secrets/users/NAME` holds a token; `NAME.json` the datasets whose personal columns the user
    sees. Whoever asks sees at once what another process, or an editor, changed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._seen: object = None
        self._users: list[tuple[bytes, QueryUser]] = []

    def find(self, token: str) -> QueryUser | None:
        """Whose token it is. The time it takes does not tell how much of one was right."""
        # The stamps first: a change while the files are read shows in the next call.
        stamps = self._stamps()
        if stamps != self._seen:
            self._users = self._read()
            self._seen = stamps
        given, found = _digest(token), None
        for digest, user in self._users:
            if hmac.compare_digest(digest, given):
                found = user
        return found

    def add(self, name: str, pii: Iterable[str] = ()) -> str:
        """The new user's token, which is told only now."""
        granted = _granted(pii)
        folder = self._made_folder()
        with alone_in(folder):
            path = folder / _checked(name)
            if path.exists():
                raise Conflict(
                    f"there is a user {name} already",
                    hint=f"trace users rotate {name}: a new token",
                )
            # The grants first: a token must not open with those of an earlier user of its name.
            _write_grants(folder, name, granted)
            return _write_token(path)

    def rotate(self, name: str) -> str:
        """A new token; the one before opens nothing any more."""
        with alone_in(self._existing(name).parent):
            return _write_token(self._existing(name))

    def grant(self, name: str, pii: Iterable[str]) -> None:
        """From now on the user sees the personal columns of these, and of no others."""
        granted = _granted(pii)
        folder = self._made_folder() if name == OWNER else self._existing(name).parent
        with alone_in(folder):
            _write_grants(folder, name, granted)

    def remove(self, name: str) -> None:
        path = self._existing(name)
        with alone_in(path.parent):
            path.unlink(missing_ok=True)
            _grants_file(path.parent, name).unlink(missing_ok=True)

    def listing(self) -> list[UserEntry]:
        """The owner first."""
        paths = [path for path in (self._owner, *self._tokens()) if path.is_file()]
        return [
            UserEntry(name, tuple(sorted(self._pii(name))), path.stat().st_mtime)
            for path in paths
            for name in [OWNER if path == self._owner else path.name]
        ]

    def _read(self) -> list[tuple[bytes, QueryUser]]:
        found = []
        for path in (self._owner, *self._tokens()):
            name = OWNER if path == self._owner else path.name
            try:
                token = path.read_text().strip()
            except FileNotFoundError:
                continue
            if token:  # an empty file opens nothing
                pii = self._pii(name)
                found.append((_digest(token), QueryUser(name, pii, _key(token, pii))))
        return found

    def _pii(self, name: str) -> frozenset[str]:
        """Of a file that cannot be understood: nothing."""
        try:
            said = json.loads(_grants_file(self._folder, name).read_text())
            return frozenset(_granted(said["pii"]))
        except (OSError, ValueError, KeyError, TypeError, BadInput):
            return frozenset()

    def _stamps(self) -> tuple[object, ...]:
        try:
            with os.scandir(self._folder) as entries:
                inside = sorted((e.name, _stamp(Path(e.path))) for e in entries)
        except FileNotFoundError:
            inside = []
        return _stamp(self._owner), *inside

    def _tokens(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        named = (path for path in self._folder.iterdir() if _NAME.fullmatch(path.name))
        return sorted(path for path in named if path.name != OWNER)

    def _existing(self, name: str) -> Path:
        path = self._folder / _checked(name)
        if not path.is_file():
            raise NotFound(f"there is no user {name}", hint="trace users list")
        return path

    @property
    def _owner(self) -> Path:
        return self._home.root / "secrets" / "user_token"

    @property
    def _folder(self) -> Path:
        return self._home.root / "secrets" / "users"

    def _made_folder(self) -> Path:
        folder = self._home.secrets / "users"
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            give_to_owner_of(folder.parent, folder)
        return folder


def _checked(name: str) -> str:
    """The name itself: it becomes the name of a file."""
    if name == OWNER:
        raise BadInput(
            f"{OWNER} is who runs the instance, and has the token in secrets/user_token",
            hint=f"trace users grant {OWNER} --pii DATASET changes what {OWNER} sees",
        )
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"'{name}' cannot be the name of a user",
            hint="lower-case letters, digits, '_' and '-', starting with a letter, at most 63",
        )
    return name


def _granted(pii: Iterable[str]) -> list[str]:
    found = sorted(set(pii))
    for name in found:
        if name != ALL and not _DATASET.fullmatch(name):
            raise BadInput(
                f"'{name}' cannot be the name of a dataset",
                hint="give a published name, or '*' for all",
            )
    return found


def _write_token(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token


def _write_grants(folder: Path, name: str, pii: list[str]) -> None:
    write_private(_grants_file(folder, name), json.dumps({"pii": pii}).encode())


def _grants_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _digest(token: str) -> bytes:
    # Of one length whatever was sent, so that comparing tells not even that.
    return sha256(token.encode(errors="replace")).digest()


def _key(token: str, pii: Iterable[str]) -> str:
    return sha256("\n".join([token, *sorted(pii)]).encode()).hexdigest()[:16]


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size
