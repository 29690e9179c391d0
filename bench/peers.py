"""Peers, each in a venv of its own under `.tools/bench`, at pinned versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_TOOLS = Path(__file__).parent.parent / ".tools" / "bench"
_INSTALL_S = 600.0


class PeerUnavailable(Exception):
    """Why there is nothing to compare with, in one line."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    requirements: tuple[str, ...]  # pinned: a figure is of one version
    module: str  # imported once to see that the installation works


def python_of(peer: Peer) -> Path:
    """The interpreter of the peer's venv, made when it is not there or has other pins."""
    home = _TOOLS / peer.name
    python, pins = home / "bin" / "python", home / "pins.txt"
    wanted = "\n".join(peer.requirements) + "\n"
    if pins.exists() and pins.read_text() == wanted and python.exists():
        return python
    print(f"    installing {', '.join(peer.requirements)}", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    try:
        _call(peer, sys.executable, "-m", "venv", str(home))
        _call(peer, python, "-m", "pip", "install", "-q", *_QUIET, *peer.requirements)
        _call(peer, python, "-c", f"import {peer.module}")
    except PeerUnavailable:
        shutil.rmtree(home, ignore_errors=True)
        raise
    pins.write_text(wanted)
    return python


_QUIET = ("--disable-pip-version-check", "--no-input")


def _call(peer: Peer, *command: str | Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(f"{peer.name} could not be installed: {error}") from None
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        why = next((line for line in lines if line.startswith("ERROR")), (lines or ["?"])[-1])
        raise PeerUnavailable(f"{peer.name} could not be installed: {why.strip()}")
