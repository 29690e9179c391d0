"""The chain DAG of the control plane with data in it, its workers played by hand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.support.control_plane import DAG, ControlPlane, range_event, stage
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.wire.task import Claimed

# The ingest job makes other data.
CHANGED = DAG.replace("chain_id: 31337", "chain_id: 1")
# Reads what the chain DAG publishes, by its name.
READER = """
name: reader
jobs:
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { dataset: logs } }]
    outputs: [rows]
publish:
  transfers: { from: { job: decode } }
"""


async def take(plane: ControlPlane, n: int = 100, *, sources: bool = False) -> list[Claimed]:
    await plane.settle()
    found = await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * n, sources=sources
    )
    return [claimed for _, claimed in found]


async def work(plane: ControlPlane, *, rounds: int = 10) -> int:
    """Run every task until nothing is left: splitters cut nothing, the rest commits the range that
    it was given. How many ran."""
    ran = 0
    for _ in range(rounds):
        claims = await take(plane)
        if not claims:
            return ran
        for claimed in claims:
            await finish(plane, claimed)
        ran += len(claims)
    raise AssertionError(f"there is work left after {rounds} rounds")


async def finish(plane: ControlPlane, claimed: Claimed) -> None:
    given = claimed.task.inputs[0]
    if given.start is None or given.end is None:
        await plane.complete(claimed)
    elif claimed.task.job.name == "split":
        await plane.complete(claimed, events=[range_event(claimed, given.start, given.end)])
    else:
        await plane.complete(claimed, outputs=outputs(plane, claimed, given.start, given.end))


def outputs(plane: ControlPlane, claimed: Claimed, start: int, end: int) -> list[Any]:
    return [
        stage(plane.dispatcher.store, claimed, n, start, end)  # type: ignore[arg-type]
        for n in range(len(claimed.task.outputs))
    ]


async def fill(plane: ControlPlane, *ranges: tuple[int, int]) -> None:
    """The chain DAG has these blocks, all the way down."""
    for start, end in ranges:
        await plane.trigger(start, end)
    await work(plane)


async def rebuilt(plane: ControlPlane, yaml: str = CHANGED) -> None:
    """Deployed, built and cut over."""
    await plane.deploy(yaml)
    await work(plane)
    assert await advance_deploys(plane.dispatcher.state) == 1


def version_of(plane: ControlPlane, name: str) -> UUID:
    (row,) = plane.sql("SELECT current_version FROM datasets WHERE name = %s", name)
    version: UUID = row["current_version"]
    return version
