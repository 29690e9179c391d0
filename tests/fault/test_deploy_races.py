"""Attempts that end at the very moment at which their version gives way, or comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.control_plane import ControlPlane
from tests.support.pipeline import Job, Pipeline, edited
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.operators import registry
from trace_platform.wire.task import Claimed

pytestmark = pytest.mark.anyio

CHAIN = {"a": Job(), "b": Job(("a",)), "c": Job(("b",))}


@pytest.fixture
async def pipe(
    state_dsns: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Pipeline]:
    operator = "tests.support.lineage_operator.Lineage"
    monkeypatch.setitem(registry.OPERATORS, "lineage", operator)
    plane = await ControlPlane.open(state_dsns, tmp_path)
    yield Pipeline(plane)
    await plane.close()


async def running_while_another_is_built(pipe: Pipeline) -> Claimed:
    """An attempt of the version that is about to give way."""
    await pipe.deploy(CHAIN)
    await pipe.trigger((0, 9))
    await pipe.settle()
    await pipe.trigger((10, 19))
    while (claimed := (await pipe.claim(1))[0]).task.job.name != "b":
        await pipe.run(claimed)
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.work()
    return claimed


async def test_an_attempt_that_completes_while_the_cut_over_waits_for_it_stays_completed(
    pipe: Pipeline,
) -> None:
    claimed = await running_while_another_is_built(pipe)
    task_id = claimed.task.task_id
    async with await psycopg.AsyncConnection.connect(pipe.plane.owner_dsn) as completion:
        ended = (
            "UPDATE tasks SET status = 'Completed', completed_at = clock_timestamp(),"
            " lease_expires_at = NULL WHERE id = %s"
        )
        await completion.execute(ended, (task_id,))
        cut_over = asyncio.create_task(advance_deploys(pipe.plane.dispatcher.state))
        await pipe.plane.blocked(cut_over)
        assert not cut_over.done()
    assert await cut_over == 1
    (task,) = pipe.plane.sql("SELECT status, superseded FROM tasks WHERE id = %s", task_id)
    assert task == {"status": "Completed", "superseded": False}


async def test_an_attempt_that_was_told_to_stop_is_done_again_when_its_version_comes_back(
    pipe: Pipeline,
) -> None:
    claimed = await running_while_another_is_built(pipe)
    await pipe.settle()
    assert (await pipe.plane.beat(claimed)).directive == "cancel"
    await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    said = {"error_code": "task_canceled", "error_message": "canceled on request"}
    await pipe.plane.complete(claimed, status="Canceled", retryable=False, **said)
    await pipe.settle()
    seen = await pipe.read()
    assert {name: set(ranges) for name, ranges in seen.items()} == {
        f"p_{job}": {(0, 9), (10, 19)} for job in CHAIN
    }
