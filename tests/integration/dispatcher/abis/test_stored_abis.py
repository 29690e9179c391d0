"""From `trace abi add` to rows: what was decoded by another version is decoded again, and each row
says by which."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.support.control_plane import ControlPlane
from tests.support.encoded_logs import ALICE, POOL, TOKEN, log, logs
from tests.support.transform_chain import TransformChain
from trace_platform.dispatcher.abis.add_abi import add_abi
from trace_platform.dispatcher.abis.change_proxies import add_proxy
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.abi import AbiChanged, AddAbi, AddProxy

pytestmark = [pytest.mark.anyio, pytest.mark.spark]

V1 = "event Deposit(address indexed sender, uint256 assets)"
V2 = "event Deposit(address indexed sender, uint256 assets, uint256 fee)"
VAULT, PROXY = "0x" + TOKEN.hex(), "0x" + POOL.hex()
DAG = """
name: flow
jobs:
  - { name: request, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: chain
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [logs]
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: log_decode
    inputs: [{ from: { job: chain } }]
    outputs: [vault_deposit, undecoded]
    config: { chain_id: 1, abis: [{ stored: vault, events: [Deposit] }] }
"""


def chain(start: int, end: int) -> pa.Table:
    """Two logs to a block: the vault's has a fee from block 15 on, the proxy's from the start."""
    made = [
        each
        for block in range(end + 1)
        for each in (
            log(V1, ALICE, block) if block < 15 else log(V2, ALICE, block, 1),
            log(V2, ALICE, 100 + block, 2, address=POOL),
        )
    ]
    return logs(*made, per_block=2).slice(2 * start)


async def add(plane: ControlPlane, text: str, from_block: int = 0) -> AbiChanged:
    asked = AddAbi(name="vault", chain_id=1, address=VAULT, from_block=from_block, text=text)
    return await add_abi(plane.dispatcher.state, plane.dispatcher.org_id, asked)


def seen(flow: TransformChain) -> dict[tuple[str, int], tuple[str, str | None, str]]:
    """By contract and block: what was deposited, the fee, and the version."""
    return {
        (row["address"].hex()[:2], row["block_number"]): (
            row["assets_string"],
            row.get("fee_string"),
            row["abi"],
        )
        for row in flow.rows("decode")
    }


def said(flow: TransformChain, job: str) -> list[dict[str, Any]]:
    """What a file has no column for is null to its readers."""
    rows = [{k: v for k, v in row.items() if v is not None} for row in flow.rows(job)]
    return sorted(rows, key=lambda row: (row["block_number"], row["log_index"]))


async def test_what_a_version_decoded_is_decoded_again_by_the_next_one_where_that_is_valid(
    plane: ControlPlane, spark_runtime: SparkRuntime
) -> None:
    flow = TransformChain(plane, spark_runtime, {"chain": chain})
    first = await add(plane, V1)
    await plane.deploy(DAG)
    await flow.trigger("request", (0, 9), (10, 19), (20, 29))
    assert seen(flow) == {("aa", n): (str(n), None, first.version) for n in range(15)}
    second = await add(plane, V2, from_block=15)
    await route_invalidations(plane.dispatcher.state)
    assert await flow.run_all() == [("decode", "10-19"), ("decode", "20-29")]
    vault: dict[Any, Any] = {("aa", n): (str(n), None, first.version) for n in range(15)}
    vault |= {("aa", n): (str(n), "1", second.version) for n in range(15, 30)}
    assert seen(flow) == vault
    # A proxy of it from block 15 to 24: its logs before and after are nobody's.
    given = AddProxy(chain_id=1, address=PROXY, implementation=VAULT, from_block=15, to_block=24)
    await add_proxy(plane.dispatcher.state, plane.dispatcher.org_id, given)
    await route_invalidations(plane.dispatcher.state)
    assert await flow.run_all() == [("decode", "10-19"), ("decode", "20-29")]
    proxied = {("bb", n): (str(100 + n), "2", second.version) for n in range(15, 25)}
    assert seen(flow) == vault | proxied
    assert flow.rows("decode", 1) == []
    # Built from nothing, it is the same.
    await plane.deploy(
        DAG.replace("name: flow", "name: fresh").replace("name: decode", "name: anew")
    )
    for start, end in ((0, 14), (15, 29)):
        await plane.trigger(start, end, "fresh", "request")
    await flow.run_all()
    assert said(flow, "anew") == said(flow, "decode")
