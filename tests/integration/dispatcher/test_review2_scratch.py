from __future__ import annotations

import pytest

from tests.integration.dispatcher.test_reads import READS, claimed_of, written
from tests.support.control_plane import ControlPlane, stage
from trace_platform.dispatcher.advance_deploys import advance_deploys
from trace_platform.domain.errors import InvalidDag

pytestmark = pytest.mark.anyio


async def test_build(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    await written(plane, 0, 9)
    await plane.trigger(0, 9, "chain", "wake")
    task = await claimed_of(plane, "read")
    await plane.complete(task, outputs=[stage(plane.me.store, task, 0, 0, 9)])
    await plane.settle()
    assert plane.wake_ups() == []
    changed = READS.replace(
        "    inputs: [{ from: { job: request } }]\n",
        "    inputs: [{ from: { job: request }, where: { b: 1 } }]\n",
    )
    await plane.deploy(changed)
    await plane.settle()
    names = []
    for id in plane.wake_ups():
        c = await plane.claimed(id)
        names.append((c.task.job.name, [g.files for g in c.task.inputs]))
    assert [n for n, _ in names] == ["write"], names


A = """\
name: a
jobs:
  - { name: wake, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: one
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: wake } }]
    outputs: [rows]
publish:
  a_rows: { from: { job: one } }
"""
B = """\
name: b
jobs:
  - name: two
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { dataset: a_rows } }]
    outputs: [rows]
publish:
  b_rows: { from: { job: two } }
"""


async def test_cycle(plane: ControlPlane) -> None:
    await plane.deploy(A)
    # b reads a only, no trigger
    b0 = B.replace(
        "inputs: [{ from: { dataset: a_rows } }]",
        "inputs: [{ from: { job: w } }, { from: { dataset: a_rows }, trigger: false }]",
    ).replace(
        "jobs:\n",
        "jobs:\n  - { name: w, activation: source, source: { kind: manual }, outputs: [ranges] }\n",
    )
    await plane.deploy(b0)
    a1 = A.replace(
        "inputs: [{ from: { job: wake } }]",
        "inputs: [{ from: { job: wake } }, { from: { dataset: b_rows } }]",
    )
    with pytest.raises(InvalidDag):
        await plane.deploy(a1)
