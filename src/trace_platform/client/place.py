"""Where a service of an instance is, and what opens it."""

from __future__ import annotations

import fcntl
import json
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from trace_platform.domain.errors import SetupError, Unavailable

NOT_RUNNING = "give its --home, or start it with `trace up`"


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    token: str
    # The certificate of who signed the service's; None: those that the machine trusts.
    ca: str | os.PathLike[str] | None = None
    # The directory of the instance, where it is one of this machine's.
    root: Path | None = None

    def __repr__(self) -> str:
        return f"Place({self.url})"

    def trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError):
            raise SetupError(
                "the CA certificate cannot be read", hint="give `ca` the path of a PEM file"
            ) from None

    def silent(self) -> Unavailable:
        """Nothing answers there."""
        if self.root is not None and _is_supervised(self.root):
            return Unavailable(
                f"nothing answers at {self.url}, and `trace up` of {self.root} starts it again",
                hint="try again in some seconds; `trace status` shows how far it is",
            )
        where = "the instance" if self.root is None else f"the instance at {self.root}"
        return Unavailable(
            f"nothing answers at {self.url}: {where} is not running", hint=NOT_RUNNING
        )


def local_place(home: str | os.PathLike[str] | None = None, process: str = "query") -> Place:
    """Of the instance in that directory, else in TRACE_HOME, else in `.trace`, as its owner.

    Read only: asking makes no instance. Raise Unavailable when none runs in this very directory: a
    copy of another has its port and its token.
    """
    root = Path(home or os.environ.get("TRACE_HOME") or ".trace").absolute()
    ca = root / "tls" / "ca.pem"
    try:
        port = int(json.loads((root / "instance.json").read_text())["ports"][process])
        token = (root / "secrets" / "user_token").read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        raise _not_running(root) from None
    except PermissionError:
        raise SetupError(
            f"the instance at {root} is another user's",
            hint="ask its owner for a token: `trace users add NAME`",
        ) from None
    except (ValueError, KeyError, TypeError):
        raise SetupError(
            f"{root / 'instance.json'} names no port of the {process}", hint=NOT_RUNNING
        ) from None
    if not (ca.exists() and _runs(root, process)):
        raise _not_running(root)
    return Place(f"https://localhost:{port}", token, ca, root)


def _runs(root: Path, process: str) -> bool:
    """Also while the supervisor starts that process again: whoever asks has patience."""
    return _is_supervised(root) or _is_held(root / "run" / f"{process}.ready")


def _is_supervised(root: Path) -> bool:
    return _is_held(root / "run" / "supervisor.lock")


def _is_held(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _not_running(root: Path) -> Unavailable:
    return Unavailable(f"there is no running instance at {root}", hint=NOT_RUNNING)
