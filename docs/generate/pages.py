"""The pages by the name of their file."""

from __future__ import annotations

from pathlib import Path

from docs.generate import api, dag, operators

FOLDER = Path(__file__).parents[1] / "reference"


def pages() -> dict[str, str]:
    return {"api.md": api.page(), "dag.md": dag.page(), "operators.md": operators.page()}
