"""A change of an ABI has exactly that decoded again which it applies to, once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.control_plane import ControlPlane, stage
from tests.support.range_work import span, work
from trace_platform.dispatcher.abis.add_abi import add_abi
from trace_platform.dispatcher.abis.change_proxies import add_proxy, remove_proxy
from trace_platform.dispatcher.abis.remove_abi import remove_abi
from trace_platform.dispatcher.datasets.trace_lineage import trace_lineage
from trace_platform.dispatcher.redo.list_invalidations import list_invalidations
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import AbiInUse, InvalidDag
from trace_platform.wire.abi import AbiChanged, AbiRedo, AddAbi, AddProxy, RemoveAbi, RemoveProxy
from trace_platform.wire.task import Claimed

pytestmark = pytest.mark.anyio

VAULT, LOGIC = "0x" + "aa" * 20, "0x" + "bb" * 20
V1 = "event Deposit(address indexed sender, uint256 assets)"
V2 = "event Deposit(address indexed sender, uint256 assets, uint256 fee)"
DAG = """
name: flow
defaults: { max_attempts: 3 }
jobs:
  - { name: request, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [logs]
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: ingest } }]
    outputs: [vault_deposit, undecoded]
    config: { chain_id: 1, abis: [{ stored: vault, events: [Deposit] }] }
  - name: other_chain
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: ingest } }]
    outputs: [vault_deposit, undecoded]
    config: { chain_id: 10, abis: [{ stored: vault, events: [Deposit] }] }
  - name: other_abi
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: ingest } }]
    outputs: [bank_deposit, erc20_transfer, undecoded]
    config: { chain_id: 1, abis: [{ stored: bank, events: [Deposit] }, erc20.Transfer] }
"""
EDITED = DAG.replace("abis: [{ stored: vault, events: [Deposit] }] }", "abis: [{ stored: vault, "
    "events: [Deposit] }], addresses: ['0x" + "cc" * 20 + "'] }", 1)  # fmt: skip


async def add(plane: ControlPlane, text: str = V1, **given: Any) -> AbiChanged:
    asked = AddAbi(**({"name": "vault", "chain_id": 1, "address": VAULT, "text": text} | given))
    return await add_abi(plane.dispatcher.state, plane.dispatcher.org_id, asked)


async def take(plane: ControlPlane) -> list[Claimed]:
    found = await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * 100
    )
    return [claimed for _, claimed in found]


async def commit(plane: ControlPlane, claimed: Claimed) -> None:
    outputs = [
        stage(plane.dispatcher.store, claimed, n, *span(claimed))
        for n in range(len(claimed.task.outputs))
    ]
    await plane.complete(claimed, outputs=outputs)


async def run_all(plane: ControlPlane) -> list[tuple[str, int, int]]:
    """Route and commit until nothing is left; what ran."""
    ran: list[tuple[str, int, int]] = []
    while True:
        await route_invalidations(plane.dispatcher.state)
        await plane.settle()
        claims = await take(plane)
        if not claims:
            return sorted(ran)
        for claimed in claims:
            await commit(plane, claimed)
        ran += work(claims)


async def filled(plane: ControlPlane, *ranges: tuple[int, int]) -> None:
    """All of the DAG done for these ranges, by first versions of its ABIs."""
    await add(plane)
    await add(plane, chain_id=10)
    await add(plane, name="bank")
    await plane.deploy(DAG)
    for start, end in ranges:
        await plane.trigger(start, end, "flow", "request")
    await run_all(plane)


def told(redo: list[AbiRedo]) -> list[tuple[str, int, int]]:
    return [(each.job, each.start, each.end) for each in redo]


async def open_invalidations(plane: ControlPlane) -> int:
    found = await list_invalidations(
        plane.dispatcher.state, plane.dispatcher.org_id, None, 100, open_only=True
    )
    return len(found.invalidations)


async def test_a_version_from_a_block_on_has_its_blocks_decoded_again_by_who_uses_it(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9), (10, 19), (20, 29))
    done = await add(plane, V2, from_block=15)
    assert told(done.redo) == [("flow.decode", 15, 29)]
    assert await run_all(plane) == [("decode", 10, 19), ("decode", 20, 29)]
    assert await open_invalidations(plane) == 0
    # A version in between is valid until the next one, and no further.
    between = await add(plane, "event Deposit(address sender, uint256 assets)", from_block=5)
    assert told(between.redo) == [("flow.decode", 5, 14)]
    assert await run_all(plane) == [("decode", 0, 9), ("decode", 10, 19)]
    # What is there already changes nothing, and neither does what comes after all that was read.
    assert (await add(plane, V2, from_block=15)).redo == []
    assert (await add(plane, V1, from_block=1_000)).redo == []
    assert await run_all(plane) == []


async def test_an_attempt_is_given_the_versions_of_its_blocks_as_they_are_when_it_starts(
    plane: ControlPlane,
) -> None:
    await filled(plane)
    second = await add(plane, V2, from_block=15)
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await commit(plane, ingest)
    await plane.settle()
    claims = {claimed.task.job.name: claimed for claimed in await take(plane)}
    (abi,) = claims["decode"].task.abis
    assert [(p.start, p.version == second.version) for p in abi.places] == [(0, False), (15, True)]
    assert [said.events for said in abi.versions] == [[V1], [V2]]
    (other,) = claims["other_chain"].task.abis
    assert [said.events for said in other.versions] == [[V1]]
    assert claims["other_abi"].task.abis[0].name == "bank"
    assert ingest.task.abis == []


async def test_what_runs_during_a_change_is_decoded_again_whenever_it_commits(
    plane: ControlPlane,
) -> None:
    await filled(plane)
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    await commit(plane, (await take(plane))[0])
    await plane.settle()
    claims = {claimed.task.job.name: claimed for claimed in await take(plane)}
    done = await add(plane, V2, replace=True)
    assert told(done.redo) == [("flow.decode", 0, 9)]
    await route_invalidations(plane.dispatcher.state)
    await plane.settle()
    (again,) = await take(plane)
    assert [said.events for said in again.task.abis[0].versions if said.valid] == [[V2]]
    await commit(plane, again)
    # The one that began before comes last: its rows do not take the place of newer ones.
    await plane.complete(claims["decode"], status="Failed", error_code="late", retryable=False)
    current = plane.sql(
        "SELECT p.task_id FROM partition_versions p JOIN datasets d ON d.uuid = p.dataset_uuid"
        " WHERE d.job_name = 'decode' AND p.superseded_at IS NULL"
    )
    assert {row["task_id"] for row in current} == {again.task.task_id}


async def test_a_version_that_is_rolled_back_to_decodes_again_what_changed_meanwhile(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9), (10, 19))
    await plane.deploy(EDITED)
    await run_all(plane)
    await advance_deploys(plane.dispatcher.state)
    await run_all(plane)
    done = await add(plane, V2, from_block=15)
    assert told(done.redo) == [("flow.decode", 15, 19)]
    assert await run_all(plane) == [("decode", 10, 19)]
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "flow")
    assert await run_all(plane) == [("decode", 10, 19)]
    # And there and back again: nothing is left to do.
    await plane.deploy(EDITED)
    assert await run_all(plane) == []


async def test_a_version_that_gave_way_before_it_decoded_again_does_so_when_it_is_rolled_back_to(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9), (10, 19))
    await plane.deploy(EDITED)
    await plane.settle()
    for claimed in await take(plane):
        await commit(plane, claimed)
    # While another version is built, what is to be made anew waits for the end of that.
    assert told((await add(plane, V2, from_block=15)).redo) == [("flow.decode", 15, 19)]
    await plane.settle()
    await advance_deploys(plane.dispatcher.state)
    assert await run_all(plane) == [("decode", 10, 19)]
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "flow")
    assert await run_all(plane) == [("decode", 10, 19)]
    # And there and back again: nothing is left to do.
    await plane.deploy(EDITED)
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "flow")
    assert await run_all(plane) == []


async def test_a_version_that_is_built_meanwhile_serves_nothing_that_the_old_abi_decoded(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9), (10, 19))
    await plane.deploy(EDITED)
    await plane.settle()
    first, *others = await take(plane)
    await commit(plane, first)
    second = await add(plane, V2, replace=True)
    # Named by a version that is being built, it is in use as well.
    assert second.version is not None
    with pytest.raises(AbiInUse):
        await remove_abi(
            plane.dispatcher.state, plane.dispatcher.org_id, "vault",
            RemoveAbi(version=second.version),
        )  # fmt: skip
    for claimed in others:
        await commit(plane, claimed)
    await run_all(plane)
    await advance_deploys(plane.dispatcher.state)
    assert [each for each in await run_all(plane) if each[0] == "decode"] == [
        ("decode", 0, 9),
        ("decode", 10, 19),
    ]
    before = {claimed.task.task_id for claimed in (first, *others)}
    rows = plane.sql(
        "SELECT p.task_id FROM partition_versions p JOIN datasets d"
        " ON d.uuid = p.dataset_uuid AND d.current_version = p.dataset_version"
        " WHERE d.job_name = 'decode' AND p.superseded_at IS NULL"
    )
    assert len(rows) == 4
    assert not {row["task_id"] for row in rows} & before


async def test_an_abi_that_a_job_decodes_by_is_removed_only_when_that_is_meant(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9), (10, 19))
    second = await add(plane, V2, from_block=10)
    await run_all(plane)
    state, org_id = plane.dispatcher.state, plane.dispatcher.org_id
    assert second.version is not None
    with pytest.raises(AbiInUse, match=r"flow\.decode"):
        await remove_abi(state, org_id, "vault", RemoveAbi(version=second.version))
    done = await remove_abi(state, org_id, "vault", RemoveAbi(version=second.version, force=True))
    assert told(done.redo) == [("flow.decode", 10, 19)]
    assert await run_all(plane) == [("decode", 10, 19)]


async def test_a_proxys_blocks_are_decoded_again_by_all_that_know_its_implementation(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9), (10, 19), (20, 29))
    state, org_id = plane.dispatcher.state, plane.dispatcher.org_id
    await add(plane, V2, address=LOGIC)
    await run_all(plane)
    given = AddProxy(chain_id=1, address=VAULT, implementation=LOGIC, from_block=12, to_block=18)
    assert told((await add_proxy(state, org_id, given)).redo) == [("flow.decode", 12, 18)]
    assert await run_all(plane) == [("decode", 10, 19)]
    gone = RemoveProxy(chain_id=1, address=VAULT, from_block=12)
    assert told((await remove_proxy(state, org_id, gone)).redo) == [("flow.decode", 12, 18)]
    assert await run_all(plane) == [("decode", 10, 19)]


async def test_a_dag_that_names_an_abi_that_is_not_stored_is_refused_with_its_line(
    plane: ControlPlane,
) -> None:
    await add(plane)
    await add(plane, name="bank", text="event Deposited(uint256 amount)")
    with pytest.raises(InvalidDag) as raised:
        await plane.deploy(DAG)
    said = raised.value.message
    assert "no ABI 'vault' is stored for chain 10" in said
    assert "no version of ABI bank has 'Deposit' among its events" in said
    line = DAG.split("\n").index(next(x for x in DAG.split("\n") if "chain_id: 10" in x)) + 1
    assert f"dag.yaml:{line}:" in said


async def test_sql_behind_stored_abis_is_checked_against_their_columns(
    plane: ControlPlane,
) -> None:
    await add(plane)
    reads = """
name: flow
jobs:
  - { name: request, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{ from: { job: request } }]
    outputs: [blocks, transactions, logs]
    config: { chain_id: 1, rpc_pool: demo }
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: ingest, output: logs } }]
    outputs: [vault_deposit, undecoded]
    config: { chain_id: 1, abis: [{ stored: vault, events: [Deposit] }] }
  - name: sums
    activation: reactive
    runtime: ecs_platform
    operator: query_export
    inputs: [{ from: { job: decode, output: vault_deposit } }]
    outputs: [sums]
    config: { sql: "select sum_exact(COLUMN) as sent from input_0" }
"""
    with pytest.raises(InvalidDag, match="fee_string"):
        await plane.deploy(reads.replace("COLUMN", "fee_string"))
    await plane.deploy(reads.replace("COLUMN", "assets_string"))
    given = plane.dispatcher
    found = await trace_lineage(given.state, given.org_id, "flow.sums.sent", None, "up", 9)
    assert [f"{each.source} > {each.target}" for each in found.edges] == [
        "flow.decode.0.assets_string > flow.sums.0.sent",
        "flow.ingest.2.data > flow.decode.0.assets_string",
    ]
