"""Code beside a DAG is deployed with it: kept by its content, part of what a job means, trusted."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from tests.support.control_plane import ControlPlane
from tests.unit.operators.test_own_code import DAG, FILES, FIRST
from trace_platform.dispatcher.tasks.fetch_code import fetch_code
from trace_platform.dispatcher.tasks.trust import is_trusted
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.domain.errors import InvalidConfig, InvalidDag, NotFound
from trace_platform.domain.own_code import Code, parse
from trace_platform.domain.runtimes import Runtimes, starting_point

pytestmark = pytest.mark.anyio

EDITED = FILES | {"my_ops.py": FIRST.replace("Result()", "Result(outputs=[])")}


async def test_a_deploy_keeps_the_code_and_a_worker_gets_exactly_that(plane: ControlPlane) -> None:
    await plane.deploy(DAG, FILES)
    (job,) = plane.sql("SELECT operator FROM jobs WHERE name = 'first'")
    ref = parse(job["operator"])
    assert ref is not None
    assert ref.digest is not None
    content = await fetch_code(plane.dispatcher.state, ref.digest)
    assert hashlib.sha256(content).hexdigest() == ref.digest
    assert json.loads(content) == {name: FILES[name] for name in ("my_ops.py", "units.py")}
    with pytest.raises(NotFound):
        await fetch_code(plane.dispatcher.state, "0" * 64)


async def test_an_edit_is_planned_and_built_from_there_onward(plane: ControlPlane) -> None:
    await plane.deploy(DAG, FILES)
    state, org = plane.dispatcher.state, plane.dispatcher.org_id
    same = await deploy_dag(state, org, DAG, "dag.yaml", code=Code(FILES))
    assert same.status == "Unchanged"
    plan = await plan_dag(state, org, DAG, "dag.yaml", code=Code(EDITED))
    changes = {job.job: (job.action, job.why) for job in plan.changes}
    assert changes == {
        "first": ("changed", ["the code of ./my_ops.py:First changed"]),
        "after": ("affected", ["it reads first, which is built anew"]),
    }
    done = await deploy_dag(
        state, org, DAG, "dag.yaml", plan_hash=plan.plan_hash, code=Code(EDITED)
    )
    assert done.builds == ["first", "after"]


async def test_code_that_was_not_sent_or_is_switched_off_is_refused_with_the_line(
    plane: ControlPlane,
) -> None:
    with pytest.raises(InvalidDag) as caught:
        await plane.deploy(DAG)
    assert "my_ops.py is not there, or was not sent" in str(caught.value.message)
    off = Code(FILES, allowed=False)
    with pytest.raises(InvalidDag, match="switched off"):
        await plan_dag(plane.dispatcher.state, plane.dispatcher.org_id, DAG, "dag.yaml", code=off)
    with pytest.raises(InvalidConfig, match="at most 32 files"):
        await plane.deploy(DAG, {f"m{n}.py": "" for n in range(33)})
    assert plane.sql("SELECT 1 FROM operator_code") == []


def test_code_beside_a_dag_is_trusted_on_our_own_workers_alone() -> None:
    known = {runtime.name: runtime for runtime in Runtimes.default()}
    runtimes = Runtimes((known | {"ecs_r": replace(starting_point("ecs_r"))}).values())
    operator = f"./my_ops.py:First@{'0' * 64}"
    assert is_trusted(runtimes, "ecs_platform", operator)
    assert not is_trusted(runtimes, "ecs_r", operator)
    assert not is_trusted(runtimes, "ecs_platform", "nobody_knows_it")
