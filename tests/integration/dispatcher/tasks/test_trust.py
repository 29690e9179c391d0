"""What code may do that the platform does not vouch for, and what only trusted operators may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.integration.dispatcher.redo.test_invalidations import of_input, of_output, report
from tests.support.control_plane import ControlPlane, fence_fields, stage
from tests.support.range_work import span
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.complete_task import complete_task, complete_tasks
from trace_platform.dispatcher.tasks.trust import is_trusted, trusted_by
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.errors import Forbidden
from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtime, Runtimes, starting_point
from trace_platform.wire.task import Claimed, CompleteRequest, EventsRequest, OutputCommit

pytestmark = pytest.mark.anyio

DAG = """\
name: flow
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: score
    activation: reactive
    runtime: {runtime}
    operator: integrity_check
    inputs: [{ from: { job: request } }]
    outputs: [scores]
"""


def registry(trusted: Sequence[str] = ()) -> Runtimes:
    """With a function, and with workers of somebody's own."""
    named = {runtime.name: runtime for runtime in DEFAULT_RUNTIMES}
    extra = frozenset(trusted)
    function = replace(named["lambda"], url="http://127.0.0.1:9/", trusted_operators=extra)
    own = replace(starting_point("ecs_r"), trusted_operators=extra)
    return Runtimes((named | {"lambda": function, "ecs_r": own}).values())


async def claimed_of(plane: ControlPlane, runtime: str, trusted: Sequence[str] = ()) -> Claimed:
    """A task that somebody else's code runs, whatever name it goes by."""
    runtimes = registry(trusted)
    grants = replace(plane.dispatcher.grants, trusts=trusted_by(runtimes))
    plane.dispatcher = replace(plane.dispatcher, runtimes=runtimes, grants=grants)
    dag = DAG.replace("{runtime}", runtime)
    await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, dag, "dag.yaml", runtimes)
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    ((_, claimed),) = await claim_tasks(plane.dispatcher.state, grants, runtime, ["w"])
    return claimed


@pytest.mark.parametrize("runtime", ["lambda", "ecs_r"])
async def test_code_that_nobody_vouches_for_makes_no_other_job_run_again(
    plane: ControlPlane, runtime: str
) -> None:
    """Neither by the call of a running attempt, nor with its end, nor through its worker."""
    claimed = await claimed_of(plane, runtime)
    assert not plane.dispatcher.grants.tokens.read(claimed.capability_token).trusted
    for invalid in (of_input(claimed, 0, 9), of_output(claimed, 0, 9)):
        with pytest.raises(Forbidden, match="not trusted to say that data is invalid") as refused:
            await report(plane, claimed, invalid)
        assert f"[runtimes.{runtime}] trusted_operators" in (refused.value.hint or "")
        ending = CompleteRequest(
            **fence_fields(claimed), status="Completed", invalidations=[invalid]
        )
        (answer,) = await complete_tasks(plane.dispatcher.completing, [ending])
        assert isinstance(answer, Forbidden)
        outputs = [stage(plane.dispatcher.store, claimed, 0, *span(claimed))]
        with pytest.raises(Forbidden, match="not trusted"):
            await complete_task(
                plane.dispatcher.completing, ending.model_copy(update={"outputs": outputs})
            )
    assert plane.sql("SELECT 1 FROM data_invalidations") == []
    assert plane.sql("SELECT 1 FROM partition_versions") == []
    # Its own work it may end.
    await plane.complete(claimed, outputs=outputs)
    assert [row["status"] for row in plane.sql("SELECT status FROM tasks")] == ["Completed"]


@pytest.mark.parametrize("runtime", ["lambda", "ecs_r"])
async def test_an_operator_that_its_runtime_names_is_trusted(
    plane: ControlPlane, runtime: str
) -> None:
    claimed = await claimed_of(plane, runtime, ["integrity_check"])
    assert plane.dispatcher.grants.tokens.read(claimed.capability_token).trusted
    assert await report(plane, claimed, of_input(claimed, 0, 9)) == 1


async def test_code_that_nobody_vouches_for_commits_no_table_of_postgres_data(
    plane: ControlPlane,
) -> None:
    claimed = await claimed_of(plane, "lambda")
    target = claimed.task.outputs[0]
    table = OutputCommit(
        output_index=0,
        dataset_uuid=target.dataset_uuid,
        dataset_version=target.dataset_version,
        location=f"postgres_table:dataset_{target.dataset_uuid}",
        cursor=9,
        row_count=1,
    )
    said = EventsRequest(**fence_fields(claimed), tables=[table])
    with pytest.raises(Forbidden, match="not trusted to write tables of Postgres data"):
        await record_events(plane.dispatcher.state, said, plane.dispatcher.grants.trusts)
    with pytest.raises(Forbidden, match="not trusted to write tables of Postgres data"):
        await plane.complete(claimed, outputs=[table])


def test_trust_belongs_to_the_operator() -> None:
    runtimes = registry(["mine"])
    assert is_trusted(runtimes, "ecs_platform", "integrity_check")
    assert is_trusted(runtimes, "dispatcher", "aggregator")
    assert is_trusted(runtimes, "lambda", "mine")
    # The name of one of ours is nobody's proof elsewhere.
    assert not is_trusted(runtimes, "lambda", "integrity_check")
    assert not is_trusted(runtimes, "ecs_platform", "mine")
    assert not is_trusted(runtimes, "ecs_udf", "integrity_check"), "switched off"
    assert not is_trusted(Runtimes([Runtime("ecs_r")]), "lambda", "mine"), "not registered any more"
