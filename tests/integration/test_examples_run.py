"""Examples that read what is not on the chain do what their first lines say, on the development
chain and a server on loopback."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

import trace_platform.examples
from tests.conftest import DataDsns
from tests.integration.test_worker import Rig
from tests.support.cold_chain import served
from tests.support.control_plane import ControlPlane
from tests.support.http_server import HttpServer, http_server
from tests.support.stack import wait_for
from trace_devchain import DevChain
from trace_devchain.methods import METHODS
from trace_platform.data.database import DataDatabase
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.domain.evm_encoding import keccak256
from trace_platform.operators.io import parquet_input
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.query import DatasetRef, ResolveRequest
from trace_platform.wire.task import EventScope

pytestmark = pytest.mark.spark

EXAMPLES = Path(trace_platform.examples.__path__[0])
SERVER = "http://127.0.0.1:8000"
LAST = 249


class Instance:
    """A dispatcher and a worker, for which a pool's name is the address of its node."""

    def __init__(self, rig: Rig, server: HttpServer, node: str, store: Path) -> None:
        self.rig = rig
        self.server = server
        self.node = node
        self.store = store

    def deploy(self, name: str, *changes: tuple[str, str]) -> None:
        text = (EXAMPLES / f"{name}.yaml").read_text().replace(SERVER, self.server.url)
        for said, instead in changes:
            assert said in text, said
            text = text.replace(said, instead)
        for pool in ("demo", "dex", "nfts"):
            text = text.replace(f"rpc_pool: {pool}", f'rpc_pool: "{self.node}"')
        self.rig.dispatcher.run(lambda plane: plane.deploy(text))

    def trigger(self, dag: str, first: int = 0, last: int = LAST, *, job: str = "request") -> None:
        self.rig.dispatcher.run(lambda plane: plane.trigger(first, last, dag, job))

    def tick(self, clock: str, cursor: int) -> None:
        self.rig.dispatcher.run(lambda plane: _emit(plane, clock, cursor))

    def rows(self, dataset: str) -> list[dict[str, Any]]:
        store = self.rig.dispatcher.plane.dispatcher.store
        tables = [pq.read_table(store.filesystem(uri)[1]) for uri in self.files(dataset)]
        return [row for table in tables for row in table.to_pylist()]

    def folded(self, dataset: str, runtime: SparkRuntime) -> list[dict[str, Any]]:
        """Of a fold what readers see: the partial results of all ranges, put together."""
        store = self.rig.dispatcher.plane.dispatcher.store
        found = parquet_input.footers(self.files(dataset), store, dataset)
        with runtime.task_thread(f"look-{uuid4()}") as spark:
            frame = parquet_input.rows(found, (), spark(), store, dataset)
            return [row.asDict() for row in frame.collect()]

    def files(self, dataset: str) -> list[str]:
        request = ResolveRequest(datasets=[DatasetRef(name=dataset)])

        async def resolve(plane: Any) -> Any:
            return await resolve_datasets(plane.dispatcher.state, plane.dispatcher.org_id, request)

        (found,) = self.rig.dispatcher.run(resolve).datasets
        return list(found.files)

    def becomes(self, dataset: str, want: Callable[[list[dict[str, Any]]], bool]) -> None:
        wait_for(f"rows of {dataset}", lambda: want(self.rows(dataset)))


async def _emit(plane: ControlPlane, dataset: str, cursor: int) -> None:
    emitted = EmitRequest(dataset=dataset, events=[EventScope(cursor=cursor)])
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, emitted)
    await plane.settle()


@pytest.fixture
def chain() -> DevChain:
    return DevChain(blocks=LAST, txs=2, pools=True, items=True)


@pytest.fixture
def instance(
    state_dsns: Any,
    data_dsns: DataDsns,
    spark_runtime: SparkRuntime,
    tmp_path: Path,
    chain: DevChain,
) -> Iterator[Instance]:
    with ExitStack() as stack:
        node = stack.enter_context(served(chain))
        server = stack.enter_context(http_server())
        rig = Rig(state_dsns, tmp_path, DataDatabase(data_dsns.writer), spark=spark_runtime)
        stack.callback(rig.close)
        yield Instance(rig, server, node.url, tmp_path)


def test_dex_prices_are_swaps_with_what_the_list_says_of_their_pools(
    instance: Instance, chain: DevChain
) -> None:
    pools = chain.pools
    head = "pool,token,quote,token_decimals,quote_decimals\n"
    instance.server.says(head + f"{pools[0]},T0,T1,18,6\n{pools[1]},T1,T2,6,18\n", etag='"1"')
    instance.deploy("dex_prices")
    instance.tick("dex_prices.clock", 100)
    instance.trigger("dex_prices")
    instance.becomes("dex_prices", lambda rows: {row["pair"] for row in rows} == {"T0/T1", "T1/T2"})
    swaps = [row for row in instance.rows("swaps") if row["address"].hex() == pools[0][2:]]
    (first,) = [row for row in instance.rows("dex_prices") if row["pair"] == "T0/T1"]
    assert (first["bucket"], first["swaps"]) == (0, len(swaps))
    sold = sum(row["amount0In_f64"] for row in swaps) / 10**18
    bought = sum(row["amount1Out_f64"] for row in swaps) / 10**6
    assert first["price"] == pytest.approx(bought / sold)
    # Another list: prices follow, and no swap is read again.
    instance.server.says(head + f"{pools[0]},WETH,T1,18,6\n", etag='"2"')
    instance.tick("dex_prices.clock", 200)
    instance.becomes("dex_prices", lambda rows: [row["pair"] for row in rows] == ["WETH/T1"])


def test_bootstrap_is_one_dataset_from_the_first_block_to_the_tip(
    instance: Instance, chain: DevChain
) -> None:
    instance.deploy(
        "bootstrap",
        ("start_block: 1000", "start_block: 100"),
        ("chunk_blocks: 250", "chunk_blocks: 50"),
    )
    instance.trigger("bootstrap", 0, 99, job="history")
    # All but what a reorg may still reach, and that stays in the tables.
    instance.becomes("whole_blocks", lambda rows: len(rows) >= 150)
    rows = sorted(instance.rows("whole_blocks"), key=lambda row: row["block_number"])
    assert [row["block_number"] for row in rows] == list(range(len(rows)))
    assert all(row["parent_hash"] == parent["block_hash"] for parent, row in pairwise(rows))
    logs = {row["block_number"] for row in instance.rows("whole_logs")}
    assert min(logs) < 100 < max(logs)


def test_labels_that_are_kept_go_before_those_that_are_served(
    instance: Instance, chain: DevChain
) -> None:
    first, second = chain.tokens[:2]
    given = [{"address": each, "name": "Served", "kind": "token"} for each in (first, second)]
    instance.server.says(given)
    folder = instance.store / "inbox" / "labels"
    folder.mkdir(parents=True)
    (folder / "known.csv").write_text(
        f"chain_id,address,label,category,source\n31337,{first},Kept,token,me\n"
    )
    for each in ("chain", "labels"):
        instance.deploy(each)
    instance.tick("labels.clock", 100)
    instance.becomes(
        "address_labels", lambda rows: sorted(row["label"] for row in rows) == ["Kept", "Served"]
    )
    instance.trigger("chain")
    instance.becomes(
        "named_transactions", lambda rows: {row["label"] for row in rows} == {"Kept", "Served"}
    )
    found = {(row["to_address"].hex(), row["label"]) for row in instance.rows("named_transactions")}
    assert found == {(first[2:], "Kept"), (second[2:], "Served")}


def test_nfts_are_where_their_last_transfers_say_in_whatever_order_blocks_come(
    instance: Instance, chain: DevChain, spark_runtime: SparkRuntime
) -> None:
    instance.deploy("nft_holders")
    instance.trigger("nft_holders", 100, LAST)
    instance.becomes("nft_owners", lambda rows: bool(rows))
    instance.trigger("nft_holders", 0, 99)
    owners, amounts = _owners(chain), _amounts(chain)
    wait_for("owners", lambda: _found_owners(instance, spark_runtime) == owners)
    wait_for("balances", lambda: _found_amounts(instance, spark_runtime) == amounts)
    assert len(owners) > 5
    assert any(kind >= 16 for kind, _ in amounts), "there were batches"


def _found_owners(instance: Instance, runtime: SparkRuntime) -> dict[int, bytes]:
    rows = instance.folded("nft_owners", runtime)
    return {int(row["token_id"]): bytes(row["owner"]) for row in rows}


def _found_amounts(instance: Instance, runtime: SparkRuntime) -> Counter[tuple[int, bytes]]:
    rows = instance.folded("nft_balances", runtime)
    return Counter({(int(r["kind"]), bytes(r["holder"])): int(r["amount"]) for r in rows})


def _owners(chain: DevChain) -> dict[int, bytes]:
    found = _logs(chain, b"Transfer(address,address,uint256)")
    sent = [log["topics"] for log in found if len(log["topics"]) == 4]
    return {int(topics[3], 16): bytes.fromhex(topics[2][26:]) for topics in sent}


def _amounts(chain: DevChain) -> Counter[tuple[int, bytes]]:
    found: Counter[tuple[int, bytes]] = Counter()
    single = _logs(chain, b"TransferSingle(address,address,address,uint256,uint256)")
    batch = _logs(chain, b"TransferBatch(address,address,address,uint256[],uint256[])")
    for log in [*single, *batch]:
        words = [int(log["data"][2 + n : 66 + n], 16) for n in range(0, len(log["data"]) - 2, 64)]
        moved = [words] if len(words) == 2 else zip(words[3:5], words[6:8], strict=True)
        giver, taker = (bytes.fromhex(topic[26:]) for topic in log["topics"][2:])
        for kind, amount in moved:
            found[kind, taker] += amount
            found[kind, giver] -= amount
    return found


def _logs(chain: DevChain, signature: bytes) -> list[dict[str, Any]]:
    asked = {"fromBlock": "0x0", "topics": ["0x" + keccak256(signature).hex()]}
    return list(json.loads(METHODS["eth_getLogs"](chain, [asked])))
