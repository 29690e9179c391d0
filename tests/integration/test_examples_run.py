"""Examples that read what is not on the chain do what their first lines say, on the development
chain and a server on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

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
from trace_platform.data.database import DataDatabase
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.events.emit_events import emit_events
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

    def deploy(self, name: str) -> None:
        text = (EXAMPLES / f"{name}.yaml").read_text().replace(SERVER, self.server.url)
        for pool in ("demo", "dex"):
            text = text.replace(f"rpc_pool: {pool}", f'rpc_pool: "{self.node}"')
        self.rig.dispatcher.run(lambda plane: plane.deploy(text))

    def trigger(self, dag: str) -> None:
        self.rig.dispatcher.run(lambda plane: plane.trigger(0, LAST, dag, "request"))

    def tick(self, clock: str, cursor: int) -> None:
        self.rig.dispatcher.run(lambda plane: _emit(plane, clock, cursor))

    def rows(self, dataset: str) -> list[dict[str, Any]]:
        request = ResolveRequest(datasets=[DatasetRef(name=dataset)])

        async def resolve(plane: Any) -> Any:
            return await resolve_datasets(plane.dispatcher.state, plane.dispatcher.org_id, request)

        (found,) = self.rig.dispatcher.run(resolve).datasets
        store = self.rig.dispatcher.plane.dispatcher.store
        tables = [pq.read_table(store.filesystem(uri)[1]) for uri in found.files]
        return [row for table in tables for row in table.to_pylist()]

    def becomes(self, dataset: str, want: Callable[[list[dict[str, Any]]], bool]) -> None:
        wait_for(f"rows of {dataset}", lambda: want(self.rows(dataset)))


async def _emit(plane: ControlPlane, dataset: str, cursor: int) -> None:
    emitted = EmitRequest(dataset=dataset, events=[EventScope(cursor=cursor)])
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, emitted)
    await plane.settle()


@pytest.fixture
def chain() -> DevChain:
    return DevChain(blocks=LAST, txs=2, pools=True)


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
