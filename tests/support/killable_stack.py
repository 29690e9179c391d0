"""A dispatcher that dies where a test wants it to, and comes back: see `killable_process`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.support.engine_stack import Dsns, Engine, EngineProcess
from tests.support.stack import wait_for

_REPOSITORY = Path(__file__).parents[2]
# Attempts that failed are tried again at once.
SETTINGS = "loop_interval_s = 0.05\nreap_grace_s = 0\nretry_base_s = 0.05"


_STATE = _REPOSITORY / "src" / "trace_platform" / "state"
_WRITES = re.compile(r"\b(INSERT INTO|UPDATE \w+|DELETE FROM)\b")


def writes(step: str) -> bool:
    """Whether something is different after this step: a statement that writes, a commit, a send."""
    name = step.partition("/")[2].partition("#")[0]
    if name in ("commit", "queue.send"):
        return True
    file, _, statement = name.partition(".")
    text = (_STATE / f"{file}.sql").read_text()
    found = re.search(rf"^-- name: {statement}\W*$(.*?)(?=^-- name: |\Z)", text, re.M | re.S)
    assert found is not None, name
    return _WRITES.search(found[1]) is not None


@dataclass
class KillableDispatcher:
    process: EngineProcess

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def pid(self) -> int:
        """Of the dispatcher that was ready last."""
        return int((self.process.home.run / "dispatcher.ready").read_text())

    def await_ready(self, instead_of: int = 0) -> None:
        def ready() -> bool:
            assert self.process.process.poll() is None, f"it ended: see {self.process.home.logs}"
            return self.pid != instead_of

        wait_for("a dispatcher", ready, 60)

    def arm(self, step: str) -> None:
        partial = self._file("kill_at.partial")
        partial.write_text(step)
        partial.rename(self._file("kill_at"))

    @property
    def armed(self) -> bool:
        """Whether the step was not reached yet."""
        return self._file("kill_at").exists()

    def disarm(self) -> None:
        self._file("kill_at").unlink(missing_ok=True)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def forget_steps(self) -> None:
        os.truncate(self._file("steps"), 0)

    def steps(self) -> list[str]:
        """Those that happened, each once, in their order."""
        return list(dict.fromkeys(self._file("steps").read_text().split()))

    def _file(self, name: str) -> Path:
        return self.process.home.root / name


class KillableEngine(Engine):
    def __init__(self, folder: Path, dsns: Dsns) -> None:
        super().__init__(folder, dsns, SETTINGS)
        # Asked some fifty times for each kill.
        self._asking = psycopg.connect(dsns.owner, autocommit=True, row_factory=dict_row)

    def close(self) -> None:
        super().close()
        self._asking.close()

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        cursor = self._asking.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def killable_dispatcher(self) -> KillableDispatcher:
        home, port = self._home("dispatcher", f"[dispatcher]\n{self._settings}\n")
        with (home.logs / "dispatcher.jsonl").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.killable_process", home.root],
                cwd=_REPOSITORY,
                env={k: v for k, v in os.environ.items() if not k.startswith("TRACE_")},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started = EngineProcess("dispatcher", home, process, port)
        self._started.append(started)
        return KillableDispatcher(started)

    def heal(self) -> None:
        """What a dispatcher that died had announced, or hidden for a while, is due at once."""
        self.sql(
            "UPDATE outbox SET available_at = clock_timestamp()"
            " WHERE available_at > clock_timestamp();"
            "UPDATE queue.messages SET visible_at = clock_timestamp()"
            " WHERE visible_at > clock_timestamp()"
        )

    def expire_leases(self) -> None:
        """Of claims whose reply got lost nobody knows."""
        self.sql(
            "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
            " WHERE status = 'Running'"
        )


@contextmanager
def killable_engine(folder: Path, dsns: Dsns) -> Iterator[KillableEngine]:
    made = KillableEngine(folder / "engine", dsns)
    try:
        yield made
    finally:
        made.close()
