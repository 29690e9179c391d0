"""What a DAG declares of a dataset is what its readers find, or the commit is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.support.control_plane import ControlPlane, fence_fields, stage
from tests.support.staged_rows import stage_rows
from trace_platform.dispatcher.datasets.show_dataset import show_dataset
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.domain.errors import IncompatibleSchema, InvalidDag
from trace_platform.domain.runtimes import Runtimes, starting_point
from trace_platform.wire.dataset import DatasetDetail
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.task import Claimed, EventsRequest, OutputCommit

pytestmark = pytest.mark.anyio

DAG = """\
name: days
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: sum
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
publish:
  token_days:
    from: { job: sum }
    schema:
      day: date
      token: { type: binary(20), description: The contract. }
      amount: { type: "decimal(38,0)" }
"""
DAY, TOKEN = pa.field("day", pa.date32()), pa.field("token", pa.binary())
AMOUNT, MORE = pa.field("amount", pa.decimal128(38, 0)), pa.field("more", pa.string())


def table(*fields: pa.Field) -> pa.Table:
    return pa.table([pa.array([None], each.type) for each in fields], schema=pa.schema(fields))


async def started(plane: ControlPlane, start: int) -> Claimed:
    await plane.trigger(start, start + 9, "days", "request")
    return await plane.claimed(await plane.announced())


async def commit(plane: ControlPlane, start: int, *fields: pa.Field) -> None:
    claimed = await started(plane, start)
    await plane.complete(
        claimed, outputs=[stage_rows(plane.dispatcher.store, claimed, table(*fields))]
    )


async def shown(plane: ControlPlane) -> DatasetDetail:
    dispatcher = plane.dispatcher
    return await show_dataset(
        dispatcher.state, dispatcher.data, dispatcher.grants.bucket, dispatcher.org_id, "token_days"
    )


def committed(plane: ControlPlane) -> int:
    return len(plane.sql("SELECT 1 FROM partition_versions WHERE superseded_at IS NULL"))


@pytest.mark.parametrize(
    ("fields", "said", "column"),
    [
        (
            (pa.field("day", pa.string()), TOKEN, AMOUNT),
            "column 'day' is string, declared date",
            "day",
        ),
        ((DAY, TOKEN), "column 'amount' (decimal(38,0)) is missing", "amount"),
        (
            (DAY, pa.field("token", pa.binary(32)), pa.field("amount", pa.decimal128(38, 2))),
            "column 'token' is fixed_size_binary[32], declared binary(20); "
            "column 'amount' is decimal128(38, 2), declared decimal(38,0)",
            "token",
        ),
    ],
    ids=["type", "missing", "two"],
)
async def test_a_commit_that_is_not_as_declared_is_refused_with_the_column_and_the_types(
    plane: ControlPlane, fields: tuple[pa.Field, ...], said: str, column: str
) -> None:
    await plane.deploy(DAG)
    with pytest.raises(IncompatibleSchema) as refused:
        await commit(plane, 0, *fields)
    assert refused.value.message == (
        f"the commit is not what the schema of 'token_days' declares: {said}"
    )
    assert "publish.token_days.schema" in str(refused.value.hint)
    assert (refused.value.facts["column"], refused.value.retryable) == (column, False)
    assert committed(plane) == 0


async def test_columns_beyond_the_schema_are_committed_and_shown_as_what_they_are(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    assert {c["committed"] for c in ((await shown(plane)).columns or {}).values()} == {None}
    await commit(plane, 0, DAY, TOKEN, AMOUNT)
    # What the generation has already a commit may leave out.
    await commit(plane, 10, DAY, TOKEN, MORE)
    assert committed(plane) == 2
    found = await shown(plane)
    assert found.columns == {
        "day": {"type": "date", "declared": "date", "committed": "date32[day]", "nullable": True},
        "token": {
            "type": "binary(20)", "description": "The contract.", "declared": "binary(20)",
            "committed": "binary", "nullable": True,
        },
        "amount": {
            "type": "decimal(38,0)", "declared": "decimal(38,0)",
            "committed": "decimal128(38, 0)", "nullable": True,
        },
        "more": {"type": "string", "declared": None, "committed": "string", "nullable": True},
    }  # fmt: skip
    assert found.misfits == []


async def test_a_commit_that_does_not_say_its_columns_cannot_be_held_against_a_schema(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    claimed = await started(plane, 0)
    with pytest.raises(IncompatibleSchema, match="does not say its columns"):
        await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, 0, 9)])


async def test_a_schema_that_is_not_what_is_committed_is_refused_with_its_line(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    await commit(plane, 0, DAY, TOKEN, AMOUNT)
    other = DAG.replace("day: date", "day: timestamp").replace("      token:", "      coin:")
    said = [
        "dag.yaml:13:7: publish.token_days.schema.day: column 'day' is date32[day], declared "
        "timestamp, in what is committed",
        "dag.yaml:14:7: publish.token_days.schema.coin: column 'coin' (binary(20)) is missing, in "
        "what is committed",
    ]
    dispatcher = plane.dispatcher
    for change in (deploy_dag, plan_dag):
        with pytest.raises(InvalidDag) as refused:
            await change(dispatcher.state, dispatcher.org_id, other, "dag.yaml")
        assert refused.value.facts["errors"] == said
    assert (await shown(plane)).columns["day"]["declared"] == "date"  # type: ignore[index]
    # What is made anew may have other columns.
    anew = other.replace("operator: no_op", "operator: no_op\n    config: { emit: true }")
    await deploy_dag(dispatcher.state, dispatcher.org_id, anew, "dag.yaml")


async def test_an_older_commit_that_is_not_as_declared_is_shown_as_it_is(
    plane: ControlPlane,
) -> None:
    """As after an upgrade: commits were not held against schemas before."""
    await plane.deploy(DAG)
    await commit(plane, 0, DAY, TOKEN, AMOUNT)
    plane.sql(
        """UPDATE dataset_versions SET columns = '[{"name": "day", "type": "string",
           "nullable": true}]' WHERE columns IS NOT NULL"""
    )
    found = await shown(plane)
    assert found.misfits == [
        "column 'day' is string, declared date",
        "column 'token' (binary(20)) is missing",
        "column 'amount' (decimal(38,0)) is missing",
    ]


async def test_plan_and_deploy_warn_of_fields_that_nothing_acts_on(plane: ControlPlane) -> None:
    idle = DAG.replace("operator: no_op", "operator: no_op\n    idle_timeout: 5m")
    said = ["dag.yaml:8:5: warning: jobs[1].idle_timeout: no worker is stopped when it is idle yet"]
    dispatcher = plane.dispatcher
    # Somebody has to be there who runs its jobs.
    plane.sql(
        "INSERT INTO workers (worker_id, runtime, slots, source_slots)"
        " VALUES ('w', 'ecs_platform', 2, 2)"
    )
    assert (await plan_dag(dispatcher.state, dispatcher.org_id, idle, "dag.yaml")).warnings == said
    # Also when nothing changes.
    for _ in range(2):
        assert (
            await deploy_dag(dispatcher.state, dispatcher.org_id, idle, "dag.yaml")
        ).warnings == said
    assert (await deploy_dag(dispatcher.state, dispatcher.org_id, DAG, "dag.yaml")).warnings == []


async def test_files_are_not_committed_to_what_is_declared_to_be_a_table(
    plane: ControlPlane,
) -> None:
    runtimes = Runtimes([*plane.dispatcher.runtimes, starting_point("ecs_r")])
    dag = DAG.replace("ecs_platform", "ecs_r").split("    schema:")[0] + "    storage: postgres\n"
    await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, dag, "dag.yaml", runtimes)
    await plane.trigger(0, 9, "days", "request")
    await plane.settle()
    (row,) = plane.sql("SELECT id FROM tasks WHERE runtime = 'ecs_r'")
    claimed = await plane.claimed(row["id"])
    with pytest.raises(IncompatibleSchema, match="storage: postgres, and the commit is files"):
        await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, 0, 9)])


async def test_a_table_is_held_against_its_schema_when_its_writer_says_its_columns(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG.replace("day: date", "day: string"))
    claimed = await started(plane, 0)
    target = claimed.task.outputs[0]

    def rewritten(*columns: str) -> OutputCommit:
        said: list[Any] = [ManifestColumn(name=c, type="int64", nullable=False) for c in columns]
        return OutputCommit(
            output_index=0,
            dataset_uuid=target.dataset_uuid,
            dataset_version=target.dataset_version,
            location=f"postgres_table:dataset_{target.dataset_uuid}",
            cursor=9,
            row_count=1,
            columns=said or None,
        )

    said = EventsRequest(**fence_fields(claimed), tables=[rewritten("day")])
    with pytest.raises(IncompatibleSchema, match="column 'day' is int64, declared string"):
        await record_events(plane.dispatcher.state, said, plane.dispatcher.grants.trusts)
    with pytest.raises(IncompatibleSchema, match="column 'day' is int64, declared string"):
        await plane.complete(claimed, outputs=[rewritten("day")])
    assert (await shown(plane)).storage == "parquet"
    await plane.complete(claimed, outputs=[rewritten()])
    assert (await shown(plane)).storage == "postgres", "where its rows are, whatever was said"
