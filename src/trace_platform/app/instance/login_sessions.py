"""Sessions of browsers, and the links that open them, as files of the instance.

`secrets/logins/` has a file for each, called by the SHA-256 of what opens it: whoever reads the
folder cannot log in with what stands there. A link is used up by removing its file, which only one
can.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.query_users import OWNER
from trace_platform.drivers.lite.private_file import alone_in, give_to_owner_of, write_private
from trace_platform.gateway.sessions import Opened, Session, digest

LINK_S = 15 * 60.0
# Of each kind; the oldest give way.
_MOST = 100
_LINK, _SESSION = "link", "session"
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


class LoginSessions:
    """Whoever asks sees at once what another process made or removed."""

    def __init__(self, home: Home, session_s: float) -> None:
        self._home = home
        self._session_s = session_s

    def make_code(self) -> str:
        """What a login link carries: it opens one session, and is told only now."""
        return self._make(_LINK, LINK_S).token

    def open(self, code: str) -> Opened | None:
        # All of the link may be pasted: the code stands behind the '#'.
        link = self._file(_LINK, code.strip().rpartition("#")[2])
        if link is None or _read(link) is None:
            return None
        try:
            link.unlink()
        except FileNotFoundError:
            return None  # somebody else was faster
        return self._make(_SESSION, self._session_s)

    def find(self, token: str) -> Session | None:
        file = self._file(_SESSION, token)
        return _read(file) if file else None

    def close(self, token: str) -> None:
        file = self._file(_SESSION, token)
        if file:
            file.unlink(missing_ok=True)

    def _make(self, kind: str, lasts_s: float) -> Opened:
        secret, key = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        ends = time.time() + lasts_s
        folder = self._made_folder()
        with alone_in(folder):
            self._make_room(kind)
            said = json.dumps({"user": OWNER, "expires_at": ends, "key": digest(key)})
            write_private(folder / _name(kind, secret), said.encode())
        session = Session(OWNER, datetime.fromtimestamp(ends, UTC), digest(key))
        return Opened(secret, key, session)

    def _make_room(self, kind: str) -> None:
        """What is over goes, and of the others the oldest, so that one more has room."""
        alive: list[tuple[float, Path]] = []
        for path in self._files():
            found = _read(path)
            if found is None:
                path.unlink(missing_ok=True)
            elif path.name.startswith(kind):
                alive.append((found.expires_at.timestamp(), path))
        for _, path in sorted(alive)[: max(0, len(alive) - _MOST + 1)]:
            path.unlink(missing_ok=True)

    def _files(self) -> Iterator[Path]:
        for kind in (_LINK, _SESSION):
            yield from self._folder.glob(f"{kind}-*")

    def _file(self, kind: str, secret: str) -> Path | None:
        return self._folder / _name(kind, secret) if _SECRET.fullmatch(secret) else None

    @property
    def _folder(self) -> Path:
        return self._home.root / "secrets" / "logins"

    def _made_folder(self) -> Path:
        folder = self._home.secrets / "logins"
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            give_to_owner_of(folder.parent, folder)
        return folder


def _name(kind: str, secret: str) -> str:
    return f"{kind}-{digest(secret)}"


def _read(path: Path) -> Session | None:
    """None for one that is over, is not there, or cannot be understood."""
    try:
        said = json.loads(path.read_text())
        user, ends, key = str(said["user"]), float(said["expires_at"]), str(said["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Session(user, datetime.fromtimestamp(ends, UTC), key) if ends > time.time() else None
