"""Random histories of triggers, reorgs, failures, edits and repairs end in the right content.

`python -m tests.support.judge` runs more of them, and shrinks what fails; see its --help.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conftest import PostgresServer
from tests.support.judge.run import Asked, Tally, first_failure
from tests.support.judge.shapes import SHAPES
from tests.support.judge.stage import Stage, open_stage

pytestmark = pytest.mark.anyio

EVERY = tuple(SHAPES)


@pytest.fixture
async def stage(postgres: PostgresServer) -> AsyncIterator[Stage]:
    async with open_stage(postgres) as opened:
        yield opened


@pytest.mark.parametrize("histories", [24, pytest.param(300, marks=pytest.mark.long)])
async def test_histories_end_in_what_should_be_there(stage: Stage, histories: int) -> None:
    failure = await first_failure(stage, Asked(EVERY, seed=1, histories=histories), Tally())
    assert failure is None, f"\n{failure}"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", EVERY)
async def test_thousands_of_histories_end_in_what_should_be_there(stage: Stage, shape: str) -> None:
    failure = await first_failure(stage, Asked((shape,), seed=1_000, histories=1_000), Tally())
    assert failure is None, f"\n{failure}"
