from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def plane(state_dsns: Any, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    opened = await ControlPlane.open(state_dsns, tmp_path)
    yield opened
    await opened.close()
