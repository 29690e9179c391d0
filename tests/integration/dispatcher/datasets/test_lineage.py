"""What comes from what, across DAGs and down to columns."""

from __future__ import annotations

import pytest

from tests.support.chain_data import READER
from tests.support.control_plane import DAG, ControlPlane
from trace_platform.cli.draw_lineage import as_mermaid, as_tree
from trace_platform.dispatcher.datasets.trace_lineage import trace_lineage
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import BadInput, NotFound, UnknownDataset
from trace_platform.wire.dataset import Direction, Lineage

pytestmark = pytest.mark.anyio

COLUMNS = DAG.replace(
    "  logs: { from: { job: ingest, output: logs } }\n",
    """\
  logs:
    from: { job: ingest, output: logs }
    schema:
      address: { type: binary(20), from: [split.range] }
      data: binary
""",
)
DECODED = """
name: decoded
jobs:
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { dataset: logs } }]
  - name: sum
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: decode } }]
publish:
  transfers:
    from: { job: decode }
    schema:
      token: { type: binary(20), from: [logs.address] }
      value: { type: string, from: [logs.data, logs.address] }
  totals:
    from: { job: sum }
    schema:
      token: { type: binary(20), from: [transfers.token] }
      total: { type: string, from: [decode.value] }
"""


async def lineage(
    plane: ControlPlane,
    subject: str,
    direction: Direction = "both",
    depth: int = 100,
    column: str | None = None,
) -> Lineage:
    return await trace_lineage(
        plane.dispatcher.state, plane.dispatcher.org_id, subject, column, direction, depth
    )


def ids(found: Lineage) -> set[str]:
    return {node.id for node in found.nodes}


def edges(found: Lineage) -> set[str]:
    return {f"{edge.source} > {edge.target}" for edge in found.edges}


async def test_what_a_dataset_comes_from_reaches_over_dags_to_the_source(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    found = await lineage(plane, "transfers", "up")
    assert edges(found) == {
        "reader.decode > transfers",
        "logs > reader.decode",
        "chain.ingest > logs",
        "chain.split.0 > chain.ingest",
        "chain.split > chain.split.0",
        "chain.request.0 > chain.split",
        "chain.request > chain.request.0",
    }
    assert found.subject == "transfers"
    assert not found.truncated


async def test_what_comes_of_a_dataset_is_everything_below_it(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    assert ids(await lineage(plane, "logs", "down")) == {"logs", "reader.decode", "transfers"}
    assert ids(await lineage(plane, "blocks", "down")) == {"blocks"}


async def test_a_job_has_all_its_inputs_and_outputs(plane: ControlPlane) -> None:
    await plane.deploy()
    found = await lineage(plane, "chain.ingest", depth=1)
    assert ids(found) == {
        "chain.ingest", "chain.split.0", "chain.split", "blocks", "transactions", "logs",
    }  # fmt: skip
    assert found.truncated, "the source is further up"


async def test_depth_counts_datasets(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    found = await lineage(plane, "transfers", "up", 1)
    assert (ids(found), found.truncated) == ({"transfers", "reader.decode", "logs"}, True)
    found = await lineage(plane, "transfers", "up", 2)
    assert "chain.split.0" in ids(found)
    assert not (await lineage(plane, "transfers", "up", 4)).truncated


async def test_lineage_is_that_of_the_active_version(plane: ControlPlane) -> None:
    await plane.deploy()
    skipped = DAG.replace("job: split, output: chunks", "job: request, output: ranges")
    await plane.deploy(skipped)
    assert "chain.split.0" not in ids(await lineage(plane, "blocks", "up"))
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "chain")
    assert "chain.split.0" in ids(await lineage(plane, "blocks", "up"))


async def test_a_diamond_is_walked_once(plane: ControlPlane) -> None:
    job = (
        "  - {{ name: {}, activation: reactive, runtime: ecs_platform, operator: no_op,"
        " inputs: [{}] }}\n"
    )
    yaml = (
        "name: d\njobs:\n  - { name: a, activation: source, source: { kind: manual } }\n"
        + job.format("b", "{ from: { job: a } }")
        + job.format("c", "{ from: { job: a } }")
        + job.format("e", "{ from: { job: b } }, { from: { job: c } }")
    )
    await plane.deploy(yaml)
    found = await lineage(plane, "d.e.0", "up")
    assert len(found.nodes) == len(ids(found)) == 8
    assert len(found.edges) == len(edges(found)) == 8
    drawn = list(as_tree(found))
    assert sum("d.a.0" in line for line in drawn) == 2
    assert sum("(d.a)" in line for line in drawn) == 1, "what was drawn is not drawn again"


async def test_a_name_that_is_none_is_refused(plane: ControlPlane) -> None:
    await plane.deploy()
    with pytest.raises(UnknownDataset):
        await lineage(plane, "nothing")
    with pytest.raises(NotFound):
        await lineage(plane, "chain.nothing")


# --- columns


async def test_a_column_is_followed_through_datasets_and_jobs_of_several_dags(
    plane: ControlPlane,
) -> None:
    await plane.deploy(COLUMNS)
    await plane.deploy(DECODED)
    found = await lineage(plane, "totals", "up", column="total")
    assert edges(found) == {
        "transfers.value > totals.total",
        "logs.data > transfers.value",
        "logs.address > transfers.value",
        "chain.split.0.range > logs.address",
    }
    assert {node.kind for node in found.nodes} == {"column"}
    found = await lineage(plane, "logs", "down", column="address")
    assert ids(found) == {
        "logs.address", "transfers.token", "transfers.value", "totals.token", "totals.total",
    }  # fmt: skip
    nearer = await lineage(plane, "logs", "down", 1, "address")
    assert (ids(nearer), nearer.truncated) == (
        {"logs.address", "transfers.token", "transfers.value"}, True,
    )  # fmt: skip


async def test_what_a_dag_says_of_its_columns_is_that_of_its_active_version(
    plane: ControlPlane,
) -> None:
    await plane.deploy(COLUMNS)
    await plane.deploy(DECODED)
    await plane.deploy(DECODED.replace("from: [logs.data, logs.address]", "from: [logs.data]"))
    assert "logs.address" not in ids(await lineage(plane, "transfers", "up", column="value"))
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "decoded")
    assert "logs.address" in ids(await lineage(plane, "transfers", "up", column="value"))
    await plane.deploy(DAG)
    found = await lineage(plane, "totals", "up", column="token")
    assert ids(found) == {"totals.token", "transfers.token", "logs.address"}


async def test_the_lineage_of_columns_outlives_a_rename(plane: ControlPlane) -> None:
    await plane.deploy(COLUMNS)
    await plane.deploy(COLUMNS.replace("  logs:\n", "  evm_logs:\n"))
    found = await lineage(plane, "evm_logs", "up", column="address")
    assert ids(found) == {"evm_logs.address", "chain.split.0.range"}


async def test_a_column_that_the_schema_lacks_is_refused(plane: ControlPlane) -> None:
    await plane.deploy(COLUMNS)
    with pytest.raises(BadInput) as refusal:
        await lineage(plane, "logs", column="adress")
    assert "did you mean address?" in (refusal.value.hint or "")
    assert ids(await lineage(plane, "blocks", column="number")) == {"blocks.number"}


# --- drawn


async def test_a_tree_shows_both_directions(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    assert list(as_tree(await lineage(plane, "logs"))) == [
        "logs",
        "comes from",
        "└─ (chain.ingest)",
        "   └─ chain.split.0",
        "      └─ (chain.split)",
        "         └─ chain.request.0",
        "            └─ (chain.request)",
        "goes to",
        "└─ (reader.decode)",
        "   └─ transfers",
    ]


async def test_mermaid_has_a_node_for_each_and_an_arrow_for_each_edge(plane: ControlPlane) -> None:
    await plane.deploy()
    drawn = list(as_mermaid(await lineage(plane, "blocks", depth=1)))
    assert drawn[0] == "flowchart LR"
    assert '  n0["blocks"]' in drawn
    assert '  n1(["chain.ingest"])' in drawn
    assert "  n1 --> n0" in drawn


async def test_a_dataset_whose_job_is_gone_says_so(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(DAG.split("  - name: ingest")[0])
    found = await lineage(plane, "chain.ingest.0", "up")
    assert [node.active for node in found.nodes] == [False, False]
    assert "[not deployed]" in next(iter(as_tree(found)))
