from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.pipeline import Pipeline
from trace_platform.operators import registry


@pytest.fixture
async def plane(state_dsns: Any, janitor_dsn: str, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    opened = await ControlPlane.open(state_dsns, tmp_path, janitor_dsn)
    yield opened
    await opened.close()


@pytest.fixture
def pipe(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A control plane whose workers know the `lineage` operator."""
    operator = "tests.support.lineage_operator.Lineage"
    monkeypatch.setitem(registry.OPERATORS, "lineage", operator)
    return Pipeline(plane)
