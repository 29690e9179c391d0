"""An instance that runs shows what docs/security.md says, and nobody gets anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack import Stack, trace, wait_for
from trace_platform.app.supervise.status import instance_status

pytestmark = pytest.mark.stack

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("surface") / "home"
    home.mkdir()
    # As many processes of queries as a user has, and a JVM that starts quickly.
    (home / "config.toml").write_text("[query]\n")
    with trace(home, "up") as started:
        wait_for("the instance", lambda: "is ready in" in started.text())
        # It listens once it has started.
        wait_for("Spark", lambda: instance_status(started.home).spark)
        yield started


@pytest.fixture(scope="module")
def examined(stack: Stack) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "trace_platform.cli", "doctor", "--security", "--json"],
        env={"TRACE_HOME": str(stack.home.root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"exit": done.returncode}


def test_nobody_gets_anywhere(examined: dict[str, Any]) -> None:
    assert examined["succeeded"] == []
    assert examined["exit"] == 0
    assert examined["tried"] > 500


# By heading: what was found, its fields, and the columns of the table that say the same.
TABLES = [
    ("Ports", "ports", ("part", "program", "address", "count"), (0, 1, 2, 3)),
    ("Files", "modes", ("name", "mode"), (0, 1 if os.geteuid() == 0 else 2)),
    ("Rights", "rights", ("role", "database", "rights", "objects"), (0, 1, 2, 3)),
]


@pytest.mark.parametrize(("heading", "kind", "fields", "columns"), TABLES)
def test_the_document_says_what_is_there(
    examined: dict[str, Any],
    heading: str,
    kind: str,
    fields: tuple[str, ...],
    columns: tuple[int, ...],
) -> None:
    there = [tuple(str(each[name]) for name in fields) for each in examined[kind]]
    told = documented(heading, columns)
    wanted = "\n".join(f"| {' | '.join(row)} |" for row in there)
    assert sorted(there) == sorted(told), f"what is there now:\n{wanted}"


def documented(heading: str, columns: tuple[int, ...]) -> list[tuple[str, ...]]:
    """These cells of each row of the table below a heading."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.S | re.M)
    assert section is not None, f"there is no section {heading}"
    rows = [line for line in section[1].splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]
    return [tuple(row[n] for n in columns) for row in cells]
