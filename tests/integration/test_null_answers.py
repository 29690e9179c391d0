"""Nodes that answer null to one call in ten: what is missing is asked for again within the attempt,
and every row is there in the end. With and without the egress, for files and for hot tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import DataDsns
from tests.integration.conftest import Ingest
from tests.support.follower_run import Job, opened, rebuilt
from tests.support.forgetful_node import Forgetful
from tests.support.operator_task import operator_task
from tests.support.scripted_rpc import scripted_rpc
from tests.support.served_egress import WORKER_TOKEN, pool, served_egress
from tests.support.slow_rows import SlowRows, assert_same
from tests.support.tiny_chain import CHAIN_ID, TinyChain
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import RpcUnreachable
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.operators.evm.schema import TABLES
from trace_platform.operators.ingest.cryo_ingest import Config

BLOCKS = BlockRange(0, 199)
READS = (
    *("eth_getBlockByNumber", "eth_getBlockByHash", "eth_getBlockReceipts"),
    *("eth_getTransactionReceipt", "trace_block"),
)
Reach = Callable[[int], RpcEndpoint]


@pytest.fixture
def chain() -> TinyChain:
    return TinyChain(len(BLOCKS), 2)


@pytest.fixture
def nodes() -> list[Forgetful]:
    return []


@pytest.fixture
def reach(chain: TinyChain, nodes: list[Forgetful], tmp_path: Path) -> Iterator[Reach]:
    """The endpoint of so many forgetful providers behind an egress; of none: one without it."""
    token = tmp_path / "token"
    token.write_text(WORKER_TOKEN)
    token.chmod(0o600)
    with ExitStack() as stack:

        def reached(providers: int) -> RpcEndpoint:
            urls = []
            for n in range(providers or 1):
                nodes.append(Forgetful(chain.answer, READS, str(n)))
                urls.append(stack.enter_context(scripted_rpc(nodes[-1].answer)).url)
            if not providers:
                return RpcEndpoint(urls[0])
            egress = stack.enter_context(served_egress(pool(*urls, chain_id=CHAIN_ID)))
            return RpcEndpoint(f"{egress.url}/pools/main", SecretFile(str(token)))

        yield reached


@pytest.mark.spark
@pytest.mark.parametrize("providers", [0, 1, 2], ids=["node", "egress", "egress of two"])
def test_files_are_whole_in_one_attempt(
    chain: TinyChain, nodes: list[Forgetful], reach: Reach, providers: int, ingest: Ingest
) -> None:
    endpoint = reach(providers)
    given = {"chain_id": CHAIN_ID, "rpc_pool": "test", "tables": tuple(TABLES)}
    config = Config.model_validate(given)
    task = operator_task(config, BLOCKS, ingest.store, outputs=tuple(TABLES))
    result = ingest.run_task(replace(task, rpc=lambda _: endpoint))
    expected = SlowRows(lambda method, *params: chain.answer(method, list(params)), BLOCKS)
    for i, table in enumerate(TABLES):
        assert_same(ingest.read(task, i, result), expected[table], table)
    assert sum(node.nulls for node in nodes) > 50


@pytest.mark.parametrize("providers", [0, 1, 2], ids=["node", "egress", "egress of two"])
def test_the_follower_catches_up_without_waiting_for_a_better_node(
    chain: TinyChain,
    nodes: list[Forgetful],
    reach: Reach,
    providers: int,
    data_dsns: DataDsns,
    eventually: Callable[..., None],
) -> None:
    endpoint = reach(providers)
    with opened(data_dsns.writer) as data:
        job = Job(data, endpoint.url, {"start_block": 0}, token=endpoint.token)
        with job.running() as running:
            head = bytes.fromhex(chain.block(BLOCKS.end)["hash"][2:])
            eventually(lambda: job.has(head), f"block {BLOCKS.end} is written")
        assert running.error is None
        with scripted_rpc(chain.answer) as honest:
            assert job.all_rows() == rebuilt(honest.url, BLOCKS)
    assert not job.log.of("following_waits")
    assert sum(node.nulls for node in nodes) > 20


@pytest.mark.spark
def test_what_is_null_every_time_is_called_null(chain: TinyChain, ingest: Ingest) -> None:
    chain.receipts[7] = None
    with scripted_rpc(chain.answer) as node:
        task = ingest.task(node.url, BlockRange(0, 13))
        with pytest.raises(RpcUnreachable) as caught:
            ingest.run_task(task)
        asked = node.calls.count("eth_getBlockReceipts")
    said = "does not have the receipts of block 7 with 2 transactions (yet): it answers null"
    assert caught.value.message == f"http://127.0.0.1:{node.port} {said}"
    # Those that came were kept, and the one that did not was asked for five times more.
    assert asked == 14 + 5
