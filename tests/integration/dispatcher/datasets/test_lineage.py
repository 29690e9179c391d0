"""What comes from what, across DAGs and down to columns."""

from __future__ import annotations

import pytest
from rich.console import Console

from tests.integration.dispatcher.versions.test_sql_checks import MAKER, made
from tests.support.chain_data import READER
from tests.support.control_plane import DAG, ControlPlane
from trace_platform.cli.draw_lineage import as_mermaid, as_tree
from trace_platform.cli.plan import show_plan
from trace_platform.dispatcher.datasets.trace_lineage import trace_lineage
from trace_platform.dispatcher.datasets.whole_graph import whole_graph
from trace_platform.dispatcher.versions.plan_dag import plan_dag
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

# Nothing in it says where a column comes from.
TRANSFORMED = """
name: transformed
jobs:
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { dataset: logs } }]
    outputs: [transfer, undecoded]
    config: { abis: [erc20.Transfer] }
  - name: enrich
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: decode, output: transfer } }, { from: { dataset: blocks } }]
    outputs: [rows]
    config:
      mode: map
      steps:
        - { name: moved, sql: "select *, to as holder from transfer" }
        - name: rows
          sql: >
            select m.*, b.miner from moved m join blocks b on m.block_number = b.number
             where m.value_f64 > 0
publish:
  transfers: { from: { job: enrich } }
"""
SUMMED = """
name: summed
jobs:
  - name: totals
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { dataset: transfers } }]
    outputs: [totals]
    config:
      mode: full
      sql: select holder, sum(value_f64) as total from transfers group by holder
publish:
  holders: { from: { job: totals } }
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


# --- columns that nobody declares


async def test_columns_are_followed_through_statements_and_decoding(plane: ControlPlane) -> None:
    for yaml in (DAG, TRANSFORMED, SUMMED):
        await plane.deploy(yaml)
    found = await lineage(plane, "holders.total")
    assert found.subject == "holders.total"
    assert edges(found) == {
        "transfers.value_f64 > holders.total",
        "transformed.decode.0.value_f64 > transfers.value_f64",
        "logs.data > transformed.decode.0.value_f64",
    }
    found = await lineage(plane, "logs.TOPIC2", "down")
    assert edges(found) == {
        "logs.topic2 > transformed.decode.0.to",
        "logs.topic2 > transformed.decode.1.topic2",
        "logs.topic2 > transformed.decode.1.reason",
        "transformed.decode.0.to > transfers.to",
        "transformed.decode.0.to > transfers.holder",
        "transfers.holder > holders.holder",
    }
    assert edges(await lineage(plane, "transfers", "up", 1, "miner")) == {
        "blocks.miner > transfers.miner"
    }


async def test_what_a_file_declares_of_a_column_wins(plane: ControlPlane) -> None:
    await plane.deploy()
    schema = "schema: { miner: { type: binary(20), from: [blocks.hash] } }"
    declared = TRANSFORMED.replace("{ job: enrich } }", "{ job: enrich }, " + schema + " }")
    await plane.deploy(declared)
    assert edges(await lineage(plane, "transfers.miner")) == {"blocks.hash > transfers.miner"}
    assert "transformed.decode.0.to > transfers.to" in edges(await lineage(plane, "transfers.to"))


async def test_lineage_of_columns_is_that_of_the_active_version(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(TRANSFORMED)
    await plane.deploy(TRANSFORMED.replace("to as holder", "address as holder"))
    sender = "transformed.decode.0.address > transfers.holder"
    assert sender in edges(await lineage(plane, "transfers.holder"))
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "transformed")
    assert sender not in edges(await lineage(plane, "transfers.holder"))


async def test_a_column_that_a_statement_does_not_make_is_refused(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(TRANSFORMED)
    with pytest.raises(BadInput) as refusal:
        await lineage(plane, "transfers.hodler")
    assert "did you mean holder?" in (refusal.value.hint or "")


async def test_a_plan_names_the_columns_that_an_edit_of_sql_changes(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(TRANSFORMED)
    state, org_id = plane.dispatcher.state, plane.dispatcher.org_id
    edited = TRANSFORMED.replace("to as holder", "lower(hex(to)) as holder")
    plan = await plan_dag(state, org_id, edited, "dag.yaml")
    (enrich,) = plan.builds
    assert enrich.columns is not None
    (rows,) = enrich.columns
    assert (rows.output, rows.rows) == ("rows", False)
    assert [(each.column, each.change) for each in rows.columns] == [("holder", "changed")]
    drawn = Console(record=True, width=200)
    show_plan(drawn, plan)
    assert "enrich.rows: columns holder (changes)" in drawn.export_text()
    reordered = TRANSFORMED.replace("select *, to as", "SELECT *,\n          to  as")
    plan = await plan_dag(state, org_id, reordered.replace("SELECT", "select"), "dag.yaml")
    assert not plan.builds, "it is only written differently"


async def test_a_deploy_of_the_same_file_learns_what_became_known(plane: ControlPlane) -> None:
    star = """
name: reader
jobs:
  - name: all
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { dataset: pools } }]
    outputs: [rows]
    config: { mode: map, sql: select * from pools }
"""
    await plane.deploy(MAKER)
    await plane.deploy(star)
    assert not (await lineage(plane, "reader.all.fee")).edges
    await made(plane)
    await plane.deploy(star)
    assert edges(await lineage(plane, "reader.all.fee")) == {"pools.fee > reader.all.0.fee"}


# --- all of it


async def test_the_whole_graph_is_what_is_around_each_source(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    everything = await whole_graph(plane.dispatcher.state, plane.dispatcher.org_id)
    around = await lineage(plane, "chain.request", "down")
    assert {each.id for each in everything.nodes} == {each.id for each in around.nodes}
    assert {(e.source, e.target) for e in everything.edges} == {
        (e.source, e.target) for e in around.edges
    }


async def test_a_job_that_is_gone_is_not_in_the_whole_graph(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(DAG.split("  - name: ingest")[0])
    everything = await whole_graph(plane.dispatcher.state, plane.dispatcher.org_id)
    assert "chain.ingest" not in {each.id for each in everything.nodes}
    assert all("ingest" not in each.source + each.target for each in everything.edges)


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
