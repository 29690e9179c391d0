"""Where the query service is, and what opens it."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from trace_platform.domain.errors import SetupError, Unavailable

_NOT_RUNNING = "start it with `trace up`"


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    token: str
    # The certificate of who signed the service's; None: those that the machine trusts.
    ca: str | os.PathLike[str] | None = None

    def __repr__(self) -> str:
        return f"Place({self.url})"

    def trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError):
            raise SetupError(
                "the CA certificate cannot be read", hint="give `ca` the path of a PEM file"
            ) from None


def local_place(home: str | os.PathLike[str] | None = None) -> Place:
    """Of the instance in that directory, else in TRACE_HOME, else in `.trace`, as its owner.

    Read only: asking makes no instance.
    """
    root = Path(home or os.environ.get("TRACE_HOME") or ".trace").absolute()
    ca = root / "tls" / "ca.pem"
    try:
        port = int(json.loads((root / "instance.json").read_text())["ports"]["query"])
        token = (root / "secrets" / "user_token").read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        raise _never_started(root) from None
    except PermissionError:
        raise SetupError(
            f"the instance at {root} is another user's",
            hint="ask its owner for a token: `trace users add NAME`",
        ) from None
    except (ValueError, KeyError, TypeError):
        raise SetupError(
            f"{root / 'instance.json'} names no port of the query", hint=_NOT_RUNNING
        ) from None
    if not ca.exists():
        raise _never_started(root)
    return Place(f"https://localhost:{port}", token, ca)


def _never_started(root: Path) -> Unavailable:
    return Unavailable(f"there is no running instance at {root}", hint=_NOT_RUNNING)
