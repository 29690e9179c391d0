"""Whoever types in a DAG that the documents show must not change what the demo has made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DEMO = yaml.safe_load((files("trace_platform") / "examples" / "chain.yaml").read_text())


def shown() -> Iterator[tuple[str, dict[str, Any]]]:
    """Whole DAGs in code blocks, and where each stands."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL):
            try:
                found = yaml.safe_load(block)
            except yaml.YAMLError:
                continue
            if isinstance(found, dict) and {"name", "jobs"} <= found.keys():
                yield f"{path.relative_to(ROOT)}: {found['name']}", found


SHOWN = dict(shown())


def test_the_readme_shows_one() -> None:
    assert any(where.startswith("README.md") for where in SHOWN)


@pytest.mark.parametrize("where", SHOWN)
def test_a_dag_of_the_documents_is_not_the_demos(where: str) -> None:
    dag = SHOWN[where]
    assert dag["name"] != DEMO["name"]
    assert not set(dag.get("publish") or {}) & set(DEMO["publish"])
