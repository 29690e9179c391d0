"""The ports of an instance: chosen free on the first start, kept ever after."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.settings import WITH_PORT, Settings
from trace_platform.domain.errors import PortInUse, SetupError
from trace_platform.drivers.lite.file_lock import locked

HOST = "127.0.0.1"
FIRST_PORT = 7700


@dataclass(frozen=True, slots=True)
class Instance:
    ports: Mapping[str, int]

    def port(self, process: str) -> int:
        return self.ports[process]

    def url(self, process: str) -> str:
        return f"https://localhost:{self.ports[process]}"


def open_instance(
    home: Home, settings: Settings, registry: Path | None = None, *, starts: bool = False
) -> Instance:
    """The instance of that home. Two starters agree, and two homes never get the same port.

    `registry` remembers which home has which port, so that a new home leaves alone the ports of
    one that is not running at the moment. `starts`: nothing of it runs, and chosen ports that
    another home has are chosen anew: this one is a copy of it.
    """
    with _registry(registry or _default_registry()) as claims:
        ports = known_ports(home, settings)
        taken = {port for port, owner in claims.items() if owner != str(home.root)}
        if starts:
            own = settings.ports
            ports = {name: port for name, port in ports.items() if name in own or port not in taken}
        for process in WITH_PORT:
            if process not in ports:
                ports[process] = _free_port(taken | set(ports.values()))
        _write(home.instance_file, _content(ports, fixed=sorted(settings.ports)))
        claims |= dict.fromkeys(ports.values(), str(home.root))
    return Instance(ports)


def known_ports(home: Home, settings: Settings) -> dict[str, int]:
    """What the settings fix, over what was chosen before and does not collide with it."""
    own = settings.ports
    chosen = {
        name: port
        for name, port in _chosen_ports(home).items()
        if name not in own and port not in own.values()
    }
    return chosen | own


def _content(ports: dict[str, int], fixed: list[str]) -> dict[str, Any]:
    # A fixed port is here for the clients to find, not to be kept: the settings hold it.
    return {"ports": ports, "fixed": fixed} if fixed else {"ports": ports}


def check_port(process: str, port: int) -> None:
    """Raise PortInUse when something else listens where this process is to."""
    if not is_free(port):
        raise _in_use(process, port)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Sockets of a stopped server that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return False
    return True


def _free_port(taken: set[int]) -> int:
    for port in range(FIRST_PORT, 32768):
        if port not in taken and is_free(port):
            return port
    raise SetupError("no free port between 7700 and 32767", hint="set ports in config.toml")


def _in_use(process: str, port: int) -> PortInUse:
    owner = listener_of(port)
    by = f" by pid {owner.pid} ({_command(owner)})" if owner else ""
    return PortInUse(
        f"port {port} of {process} is in use{by}",
        hint=f"stop that program, or set another port: [ports] {process} = ... in config.toml",
        process=process,
        port=port,
        pid=owner.pid if owner else None,
    )


def listener_of(port: int) -> psutil.Process | None:
    try:
        for found in psutil.net_connections("tcp"):
            listens = found.status == psutil.CONN_LISTEN and found.laddr[1:] == (port,)
            if listens and found.pid:
                return psutil.Process(found.pid)
    except psutil.Error:
        pass  # another user's process cannot always be seen
    return None


def _command(process: psutil.Process) -> str:
    try:
        # Arguments may hold another program's secrets; the program's name is enough.
        return process.name()
    except psutil.Error:
        return "unknown"


def read_ports(home: Home) -> dict[str, int]:
    """The ports of the last start, fixed ones included."""
    return _read_file(home)[0]


def _chosen_ports(home: Home) -> dict[str, int]:
    ports, fixed = _read_file(home)
    return {name: port for name, port in ports.items() if name not in fixed}


def _read_file(home: Home) -> tuple[dict[str, int], set[str]]:
    try:
        content = json.loads(home.instance_file.read_text())
        ports = {str(name): int(port) for name, port in content["ports"].items()}
        if not all(0 < port < 65536 for port in ports.values()):
            raise ValueError("not a port")
        return ports, set(content.get("fixed", ()))
    except FileNotFoundError:
        return {}, set()
    except (ValueError, KeyError, AttributeError, TypeError):
        raise SetupError(
            f"{home.instance_file} cannot be read", hint="delete it: ports are chosen anew"
        ) from None


def _default_registry() -> Path:
    return Path(tempfile.gettempdir()) / f"trace-ports-{os.getuid()}"


@contextmanager
def _registry(folder: Path) -> Iterator[dict[int, str]]:
    """Which home has which port, locked while it is open, written back at the end."""
    _make_own(folder)
    file = folder / "claims.json"
    with locked(folder / "lock"):
        claims = _live_claims(file)
        yield claims
        _write(file, {str(port): home for port, home in sorted(claims.items())})


def _make_own(folder: Path) -> None:
    """Where it is, anybody may make a folder, a file or a link of that name."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SetupError(
            f"{folder}, where ports are noted, was made by someone else",
            hint="remove it, or set TMPDIR to a folder of your own",
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def _live_claims(file: Path) -> dict[int, str]:
    try:
        recorded = {int(port): str(home) for port, home in json.loads(file.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}  # a convenience, not a truth: starting without it is safe
    return {port: home for port, home in recorded.items() if _still_has(home, port)}


def _still_has(home: str, port: int) -> bool:
    try:
        return port in read_ports(Home(Path(home))).values()
    except (SetupError, OSError):
        return False


def _write(path: Path, content: dict[str, Any]) -> None:
    """All or nothing: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(content, indent=2) + "\n")
    partial.replace(path)
