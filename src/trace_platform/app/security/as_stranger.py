"""Try, as another user of this host, what only the instance's own user may do."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - a stranger may not be able to read Python's own files
import fcntl
import http.client
import json
import os
import re
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import psycopg

from trace_platform.app.instance.databases import DATA, STATE
from trace_platform.app.instance.home import Home
from trace_platform.app.security.attempt import Attempt
from trace_platform.app.security.instance_processes import Running, instance_processes
from trace_platform.drivers.lite.embedded_postgres import ADMIN

# A user that owns nothing and runs nothing on any machine.
STRANGER = 64_999
_WHO = "stranger"
_TIMEOUT_S = 3.0
# Longer than anybody needs to say a password.
_HELD_S = 15.0
_OF_PROCESSES = ("environ", "mem", "maps", "fd", "cwd", "root", "io", "stack")
# What everybody may ask, and nothing secret is answered.
_FOR_ALL = {"/healthz", "/internal/jwks/task", "/openapi.json"}
_PATHS = ("/", "/v1/dags", "/v1/health", "/v1/tasks", "/v1/queries", "/v1/datasets", "/metrics",
          "/internal/datasets", "/internal/queries", "/pools/default")  # fmt: skip
# A page, or the way to one, for whoever asks.
_PLAIN_HTTP = re.compile(rb"HTTP/1\.\d [23]")
# Spark's own first words: a request for a stream of a block, in the frame that its transport has.
_SPARK_STREAM = b"broadcast_0_piece0"


@dataclass(frozen=True, slots=True)
class _Known:
    """What the instance's own user knows of it, to try it with."""

    paths: Sequence[Path]
    processes: Sequence[Running]
    ports: Sequence[tuple[str, int]]
    secrets: Sequence[bytes]


def as_stranger(home: Home) -> list[Attempt]:
    """It takes root to become somebody else: PermissionError otherwise."""
    if os.geteuid() != 0:
        raise PermissionError("only root can become another user")
    known = _known(home)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _try_and_tell(known, writer)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"the probe itself failed: {told[:500]}")
    return [Attempt(**each) for each in json.loads(told)]


def _try_and_tell(known: _Known, writer: int) -> None:
    """In a process of its own, which never returns."""
    code = 1
    try:
        os.setgroups([])
        os.setresgid(STRANGER, STRANGER, STRANGER)
        os.setresuid(STRANGER, STRANGER, STRANGER)
        found = json.dumps([asdict(each) for each in _all(known)])
        code = 0
    except BaseException as error:
        found = repr(error)
    with os.fdopen(writer, "w") as pipe:
        pipe.write(found)
    os._exit(code)


def _known(home: Home) -> _Known:
    processes = instance_processes(home)
    paths = [home.root, *home.root.rglob("*")]
    sockets = [Path(path) for path in _unix_sockets(processes)]
    secrets = [
        path.read_bytes().strip()
        for path in (home.root / "secrets").rglob("*")
        if path.is_file() and path.stat().st_size < 10_000
    ]
    return _Known(
        [*paths, *sockets],
        processes,
        sorted(set(_listening(processes))),
        [secret for secret in secrets if len(secret) >= 16],
    )


def _listening(processes: Sequence[Running]) -> Iterator[tuple[str, int]]:
    for each in processes:
        with suppress(psutil.Error):
            for one in each.process.net_connections("tcp"):
                if one.status == psutil.CONN_LISTEN:
                    yield each.part, one.laddr[1]


def _unix_sockets(processes: Sequence[Running]) -> Iterator[str]:
    for each in processes:
        with suppress(psutil.Error):
            for one in each.process.net_connections("unix"):
                if str(one.laddr).startswith("/"):
                    yield str(one.laddr)


def _all(known: _Known) -> Iterator[Attempt]:
    for path in known.paths:
        yield from _file(path)
    for running in known.processes:
        yield from _process(running, known.secrets)
    for part, port in known.ports:
        yield from _port(part, port, known.secrets)


def _file(path: Path) -> Iterator[Attempt]:
    if _is_socket(path):
        yield _connected(path)
        return
    for what, flags in (("read", os.O_RDONLY), ("write", os.O_WRONLY)):
        try:
            handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            yield Attempt(_WHO, f"{what} {path}")
            continue
        locked = _locked(handle)
        os.close(handle)
        yield Attempt(_WHO, f"{what} {path}", f"opened{locked}")


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except OSError:
        return False  # what cannot even be looked at


def _locked(handle: int) -> str:
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return ", and locked"
    return ""


def _connected(path: Path) -> Attempt:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT_S)
        try:
            client.connect(str(path))
        except OSError:
            return Attempt(_WHO, f"connect to {path}")
    return Attempt(_WHO, f"connect to {path}", "connected")


def _process(running: Running, secrets: Sequence[bytes]) -> Iterator[Attempt]:
    pid, name = running.process.pid, f"{running.part} ({running.program})"
    for entry in _OF_PROCESSES:
        path = Path("/proc", str(pid), entry)
        try:
            found = os.listdir(path) if entry == "fd" else _opened(path, entry)
        except OSError:
            found = None
        yield Attempt(_WHO, f"/proc/…/{entry} of {name}", "read" if found else "")
    with suppress(OSError):
        said = Path("/proc", str(pid), "cmdline").read_bytes()
        yield Attempt(_WHO, f"secrets in the arguments of {name}", _leak(said, secrets))
    try:
        os.kill(pid, 0)
        yield Attempt(_WHO, f"signal {name}", "allowed")
    except ProcessLookupError:
        return
    except PermissionError:
        yield Attempt(_WHO, f"signal {name}")


def _opened(path: Path, entry: str) -> bytes | str:
    if entry in ("cwd", "root"):
        return os.readlink(path)
    with path.open("rb") as file:
        # Of memory the opening alone is too much.
        return file.read(1) if entry != "mem" else b"x"


def _port(part: str, port: int, secrets: Sequence[bytes]) -> Iterator[Attempt]:
    if part == "postgres":
        yield from _postgres(port)
        return
    yield from _https(part, port, secrets)
    for words in (b"\0" * 64, b"GET / HTTP/1.0\r\n\r\n", _spark_request()):
        said = _answer(port, words)
        got = "an answer in plain HTTP" if _PLAIN_HTTP.match(said) else _leak(said, secrets)
        yield Attempt(_WHO, f"{len(words)} bytes to {part}", got)


def _spark_request() -> bytes:
    body = bytes([6]) + len(_SPARK_STREAM).to_bytes(4, "big") + _SPARK_STREAM
    return (len(body) + 8).to_bytes(8, "big") + body


def _answer(port: int, words: bytes) -> bytes:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as client:
        client.settimeout(1.0)
        client.sendall(words)
        return client.recv(1 << 16)
    return b""


def _https(part: str, port: int, secrets: Sequence[bytes]) -> Iterator[Attempt]:
    for path in (*_PATHS, *sorted(_FOR_ALL)):
        status, body = _get(port, path)
        got = f"answered {status}" if status == 200 and path not in _FOR_ALL else ""
        yield Attempt(_WHO, f"GET {path} of {part} without a token", got or _leak(body, secrets))


def _get(port: int, path: str) -> tuple[int, bytes]:
    # Whoever it is: this caller is after answers, not after certainty.
    anybody = ssl._create_unverified_context()  # noqa: S323
    with suppress(OSError, http.client.HTTPException):
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT_S, context=anybody)
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.read(1 << 20)
    return 0, b""


def _postgres(port: int) -> Iterator[Attempt]:
    with _unproven(port) as client:
        yield from _guesses(port)
        yield Attempt(_WHO, "hold a connection to Postgres without a password", _held(client))


def _unproven(port: int) -> socket.socket:
    """Says who it is, as the first message of the protocol has it, and no more."""
    client = socket.create_connection(("127.0.0.1", port), _TIMEOUT_S)
    who = b"user\0" + STATE.users[0].encode() + b"\0database\0" + STATE.name.encode() + b"\0\0"
    client.sendall(struct.pack("!II", len(who) + 8, 3 << 16) + who)
    return client


def _held(client: socket.socket) -> str:
    client.settimeout(_HELD_S)
    try:
        while client.recv(1 << 12):
            pass
    except TimeoutError:
        return f"for more than {_HELD_S:.0f} s"
    except OSError:
        pass
    return ""


def _guesses(port: int) -> Iterator[Attempt]:
    for role in (*STATE.roles, *DATA.roles, ADMIN, "postgres"):
        for password in ("", role, "postgres"):
            guess = "a guessed" if password else "no"
            what = f"log in to Postgres as {role} with {guess} password"
            try:
                psycopg.connect(
                    host="127.0.0.1",
                    port=port,
                    user=role,
                    password=password or None,
                    dbname="postgres",
                    connect_timeout=5,
                    passfile="/nowhere",
                ).close()
                yield Attempt(_WHO, what, "connected")
            except psycopg.OperationalError:
                yield Attempt(_WHO, what)


def _leak(said: bytes, secrets: Sequence[bytes]) -> str:
    return "a secret" if any(secret in said for secret in secrets) else ""
