"""SQL against the columns that an instance knows: told at plan and deploy, nothing is changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.integration.dispatcher.redo.test_invalidations import take
from tests.support.control_plane import ControlPlane
from tests.support.staged_rows import stage_rows
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import InvalidDag

pytestmark = pytest.mark.anyio

MAKER = """
name: maker
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: make
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [pools]
publish:
  pools: { from: { job: make } }
"""
READER = """
name: reader
jobs:
  - name: count
    activation: reactive
    runtime: ecs_platform
    operator: query_export
    inputs: [{ from: { dataset: pools } }]
    outputs: [counts]
    config:
      sql: |
        select pool, SQL
          from pools
"""
SPARK = """
name: reader
jobs:
  - name: count
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { dataset: pools } }]
    outputs: [counts]
    config:
      mode: map
      steps:
        - { name: all_pools, sql: select * from pools }
        - name: counts
          sql: |
            select pool,
                   fee2 * 2 as twice
              from all_pools
"""
FEES = """
  - name: fees
    activation: reactive
    runtime: ecs_platform
    operator: query_export
    inputs: [{ from: { job: make } }]
    config: { sql: "select fe from input_0" }
publish:"""
ROWS = pa.table(
    {
        "block_number": pa.array([5], pa.int64()),
        "pool": pa.array([b"\x01" * 20], pa.binary()),
        "fee": pa.array([30], pa.int32()),
    }
)


async def made(plane: ControlPlane) -> None:
    """The other DAG is there, and has committed rows."""
    await plane.deploy(MAKER)
    await plane.trigger(0, 9, "maker")
    await plane.settle()
    (claimed,) = await take(plane)
    await plane.complete(claimed, outputs=[stage_rows(plane.dispatcher.store, claimed, ROWS)])


async def said(plane: ControlPlane, yaml: str) -> str:
    """What is wrong with it: plan and deploy say the same."""
    with pytest.raises(InvalidDag) as planned:
        await plan_dag(plane.dispatcher.state, plane.dispatcher.org_id, yaml, "dag.yaml")
    with pytest.raises(InvalidDag) as deployed:
        await plane.deploy(yaml)
    assert planned.value.message == deployed.value.message
    assert planned.value.facts["errors"] == planned.value.message.splitlines()[1:]
    return planned.value.message


def reader(sql: str) -> str:
    return READER.replace("SQL", sql)


@pytest.mark.parametrize(
    ("sql", "at", "cure"),
    [
        ("fe", "12:22", "did you mean fee?"),
        ("fee + pool as n", "12:26", "BIGINT"),
        ("pool = 'abc' as same", "12:29", "hex is written '0x…'"),
    ],
)
async def test_what_does_not_fit_the_columns_of_another_dag_is_told_at_its_place(
    sql: str, at: str, cure: str, plane: ControlPlane
) -> None:
    await made(plane)
    told = await said(plane, reader(sql))
    assert f"dag.yaml:{at}: jobs[0].config.sql: " in told
    assert cure in told.replace("INTEGER, BLOB", "BIGINT")
    assert plane.sql("SELECT FROM dag_versions WHERE dag_name = 'reader'") == []


async def test_a_dataset_that_nobody_publishes_is_told_at_its_place(plane: ControlPlane) -> None:
    await plane.deploy(MAKER)
    told = await said(plane, reader("fee").replace("pools", "pols"))
    assert "dag.yaml:8:24: jobs[0].inputs[0].from.dataset: nobody publishes 'pols'" in told
    assert "did you mean pools?" in told


async def test_a_name_that_another_dag_publishes_is_told_at_its_place(plane: ControlPlane) -> None:
    await plane.deploy(MAKER)
    told = await said(plane, MAKER.replace("name: maker", "name: other"))
    assert "dag.yaml:12:3: publish.pools: the dataset is published by the DAG 'maker'" in told


async def test_a_job_that_stays_goes_on_when_a_rollback_took_the_name_of_its_input(
    plane: ControlPlane,
) -> None:
    await plane.deploy(MAKER.partition("publish:")[0])
    await plane.deploy(MAKER)
    await plane.deploy(reader("fee"))
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "maker")
    described = reader("fee").replace("name: reader", "name: reader\ndescription: For fees.")
    plan = await plan_dag(plane.dispatcher.state, plane.dispatcher.org_id, described, "dag.yaml")
    await plane.deploy(described)
    assert [job.action for job in plan.jobs] == ["unchanged"]


async def test_what_fits_is_deployed_and_hex_is_bytes(plane: ControlPlane) -> None:
    await made(plane)
    await plane.deploy(reader(f"fee, pool = '0x{'01' * 20}' as same"))


async def test_columns_that_nobody_knows_yet_are_no_mistake(plane: ControlPlane) -> None:
    await plane.deploy(MAKER)
    await plane.deploy(reader("whatever"))


async def test_an_output_that_stays_is_known_and_one_that_is_built_anew_is_not(
    plane: ControlPlane,
) -> None:
    await made(plane)
    own = MAKER.replace("publish:", FEES.lstrip("\n"))
    told = await said(plane, own)
    assert "did you mean fee?" in told
    # Another config: what it writes from now on is not what it wrote.
    await plane.deploy(
        own.replace("operator: no_op\n", "operator: no_op\n    config: { emit: true }\n")
    )


async def test_spark_sql_is_held_against_the_columns_that_another_dag_wrote(
    plane: ControlPlane,
) -> None:
    await made(plane)
    assert (await said(plane, SPARK)).splitlines()[1:] == [
        "dag.yaml:17:20: jobs[0].config.steps[1].sql: there is no column 'fee2'; did you mean fee?"
    ]
    await plane.deploy(SPARK.replace("fee2", "fee"))
