"""A Postgres of a test's own that takes durability seriously, and can be made to crash."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import Settings
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres

# Outlives a test run that is killed, and takes the server down with it.
_STOP_WHEN_ORPHANED = """
import pathlib, sys
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres
sys.stdin.read()
EmbeddedPostgres(pathlib.Path(sys.argv[1]), 0, "").stop()
"""


@dataclass(frozen=True)
class CrashingDsns:
    owner: str
    dispatcher: str
    queue: str


class CrashingPostgres:
    def __init__(self, home: Home) -> None:
        settings = Settings()
        instance = open_instance(home, settings)
        password = databases.admin_password(home)
        self._log = home.logs / "postgres.jsonl"
        self._server = EmbeddedPostgres(home.postgres, instance.port("postgres"), password)
        self._server.initialise()
        self._start()
        databases.prepare(home, settings, instance)
        self.dsns = CrashingDsns(
            *(databases.dsn(home, settings, instance, role) for role in databases.STATE.roles)
        )

    def crash(self) -> None:
        """As `pg_ctl stop -m immediate`: no checkpoint, and no farewell to anybody."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(30)

    def restart(self) -> None:
        """Recovers from its log first."""
        self._start()

    def stop(self) -> None:
        self._server.stop()
        self._process.wait(30)

    def _start(self) -> None:
        self._process = self._server.spawn(self._log)
        self._server.wait_ready(self._process)


@contextmanager
def crashing_postgres(folder: Path) -> Iterator[CrashingPostgres]:
    home = Home(folder / "postgres-home")
    guard = subprocess.Popen(
        [sys.executable, "-c", _STOP_WHEN_ORPHANED, str(home.postgres)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        server = CrashingPostgres(home)
        try:
            yield server
        finally:
            server.stop()
    finally:
        guard.communicate()
