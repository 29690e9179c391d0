"""A pool of four nodes over one honest chain: an honest one, one that pruned, one that lies in one
field, one that drops a tenth of its answers. Whichever is preferred, what is written is the honest
chain's, or there is a named refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import DataDsns
from tests.support import busy_chain
from tests.support.anvil import anvil
from tests.support.cold_chain import NAMES, ColdChain
from tests.support.follower_run import Job, opened, rebuilt
from tests.support.operator_task import operator_task
from tests.support.recorded_chain import CHAIN_ID, Lie, RecordedChain, lies
from tests.support.scripted_rpc import ScriptedRpc, scripted_rpc
from tests.support.served_egress import (
    QUICK,
    WORKER_TOKEN,
    ServedEgress,
    pool,
    served_egress,
)
from trace_platform.data.database import DataDatabase
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import RpcUnreachable
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.operators.checks import integrity_check
from trace_platform.operators.checks.integrity_check import IntegrityCheck
from trace_platform.operators.ingest import cryo_ingest
from trace_platform.operators.ingest.cryo_ingest import Part, write_part

T = TypeVar("T")
PROOFS = {"header_hash": True, "roots": True}
SETTINGS = {"chain_id": CHAIN_ID, "rpc_pool": "main", **PROOFS}
# Nothing is held against anybody: the preferred one is asked first every time.
FORGETFUL = replace(QUICK, forget_s=0.0)
KINDS = ("honest", "pruned", "lying", "dropping")
# Nodes count it differently: it is nobody's lie, and rests on the word of the one that is asked.
UNPROVEN = {"block.size", "block.size removed"}


@dataclass
class BadPool:
    chain: RecordedChain
    nodes: dict[str, ScriptedRpc]
    token: SecretFile

    @contextmanager
    def served(self, first: str) -> Iterator[ServedEgress]:
        """With this one preferred."""
        order = sorted(self.nodes, key=lambda kind: kind != first)
        urls = [self.nodes[kind].url for kind in order]
        with served_egress(pool(*urls, chain_id=CHAIN_ID), timing=FORGETFUL) as egress:
            yield egress

    def endpoint(self, egress: ServedEgress) -> RpcEndpoint:
        return RpcEndpoint(f"{egress.url}/pools/main", self.token)

    def tell(self, lie: Lie) -> None:
        self.nodes["lying"].answer = self.chain.lying(lie)

    @property
    def old(self) -> int:
        """A block with logs that the pruned one does not have."""
        return next(n for n, told in enumerate(self.chain.receipts) if told and told[-1]["logs"])


def dropping() -> Callable[[Any], Any]:
    numbers = count()

    def edit(told: Any) -> Any:
        if not isinstance(told, list):
            return told
        return [each for each in told if next(numbers) % 10 != 9]

    return edit


@pytest.fixture(scope="module")
def recorded() -> RecordedChain:
    with anvil(*busy_chain.OPTIONS) as node:
        busy_chain.build(node, with_blobs=False)
        node.call("anvil_mine", hex(90))
        logger = node.call("eth_getBlockReceipts", "0x1")[0]["contractAddress"]
        sender = node.call("eth_accounts")[3]
        for data in ("0xab", "0x"):
            sent = {"from": sender, "to": logger, "data": data, "gasPrice": "0x0"}
            node.call("eth_sendTransaction", sent)
        node.call("evm_mine")
        return RecordedChain.of(node)


@pytest.fixture
def bad(recorded: RecordedChain, tmp_path: Path) -> Iterator[BadPool]:
    chain = replace(recorded)
    token = tmp_path / "token"
    token.write_text(WORKER_TOKEN)
    token.chmod(0o600)
    with (
        scripted_rpc(chain.answer) as honest,
        scripted_rpc(chain.pruned(chain.head - 40)) as pruned,
        scripted_rpc(chain.answer) as lying,
        scripted_rpc(chain.answer) as drops,
    ):
        drops.edit = dropping()
        nodes = dict(zip(KINDS, (honest, pruned, lying, drops), strict=True))
        yield BadPool(chain, nodes, SecretFile(str(token)))


def ingested(endpoint: RpcEndpoint, blocks: BlockRange, root: Path) -> list[pa.Table]:
    """As `cryo_ingest` writes it on an executor."""
    store = LocalStore(str(root))
    prefixes = {name: f"s3://data/{name}/{uuid4()}/1/" for name in NAMES}
    config = cryo_ingest.Config.model_validate(SETTINGS)
    written = write_part(Part(endpoint, config, store, prefixes, blocks))
    files = [prefixes[name] + written.files[name].name for name in NAMES]
    return [pq.read_table(store.filesystem(uri)[1]) for uri in files]


def retried(work: Callable[[], T]) -> T:
    """As the Dispatcher would: one that drops answers rests for moments, and of two that are left
    none is a majority."""
    for _ in range(100):
        try:
            return work()
        except RpcUnreachable:
            continue
    return work()


def value_of(chain: RecordedChain, number: int) -> Lie:
    return dict(lies(chain, number))["transaction.value"]


@pytest.mark.parametrize("first", KINDS)
def test_what_is_ingested_is_the_honest_chain(bad: BadPool, tmp_path: Path, first: str) -> None:
    every = BlockRange(0, bad.chain.head)
    honest = ingested(RpcEndpoint(bad.nodes["honest"].url), every, tmp_path)
    bad.tell(value_of(bad.chain, bad.old))
    with bad.served(first) as egress:
        found = retried(lambda: ingested(bad.endpoint(egress), every, tmp_path))
    assert found == honest


def test_no_lie_in_any_field_is_written(bad: BadPool, tmp_path: Path) -> None:
    block = BlockRange(bad.old, bad.old)
    honest = ingested(RpcEndpoint(bad.nodes["honest"].url), block, tmp_path)
    wrong = set()
    with bad.served("lying") as egress:
        endpoint = bad.endpoint(egress)
        for name, lie in lies(bad.chain, bad.old):
            bad.tell(lie)
            if retried(partial(ingested, endpoint, block, tmp_path)) != honest:
                wrong.add(name)
    assert wrong == UNPROVEN


@pytest.mark.parametrize("first", KINDS)
def test_what_is_followed_is_the_honest_chain(
    bad: BadPool, data_dsns: DataDsns, first: str
) -> None:
    last = bad.chain.head
    bad.tell(value_of(bad.chain, last))
    bad.chain.head = last - 1
    with bad.served(first) as egress, opened(data_dsns.writer) as data:
        url = f"{egress.url}/pools/main"
        job = Job(data, url, {"start_block": 0, **PROOFS}, token=bad.token)
        with job.steps() as follower:
            for head in (last - 1, last):
                bad.chain.head = head
                for _ in range(500):
                    follower.turn()
                    if follower.last_block == head:
                        break
                assert follower.last_block == head, job.log.lines[-3:]
        honest = rebuilt(bad.nodes["honest"].url, BlockRange(0, last))
        assert job.all_rows() == honest


@pytest.mark.parametrize("first", KINDS)
def test_a_check_finds_what_is_wrong_and_nothing_else(
    bad: BadPool, tmp_path: Path, data_dsns: DataDsns, first: str
) -> None:
    cold = ColdChain(LocalStore(str(tmp_path / "cold")))
    cold.ingest(bad.nodes["honest"].url, BlockRange(0, bad.chain.head))
    bad.tell(value_of(bad.chain, bad.old))
    with bad.served(first) as egress:

        def found() -> list[tuple[int | None, int | None]]:
            config = integrity_check.Config.model_validate({**SETTINGS, "mode": "full"})
            made = operator_task(config, BlockRange(0, 0), Path("."))
            task = replace(
                made,
                inputs=cold.inputs(),
                store=cold.store,
                data=lambda: DataDatabase(data_dsns.writer),
                rpc=lambda _: bad.endpoint(egress),
            )
            return [(each.start, each.end) for each in IntegrityCheck().run(task).invalidations]

        assert retried(found) == []
        # What is stored is what the liar says.
        told = bad.nodes["lying"].answer("eth_getBlockByNumber", [hex(bad.old), True])
        said = told["transactions"][-1]["value"]
        cold.spoil("transactions", bad.old, lambda rows: _spoiled(rows, bad.old, said))
        assert retried(found) == [(bad.old, bad.old)]


def _spoiled(rows: pa.Table, block: int, value: str) -> pa.Table:
    """With another value in the block's last row."""
    told, number = rows.to_pylist(), int(value, 16)
    last = max(i for i, row in enumerate(told) if row["block_number"] == block)
    told[last] |= {
        "value_binary": number.to_bytes(32, "big"),
        "value_string": str(number),
        "value_f64": float(number),
    }
    return pa.Table.from_pylist(told, schema=rows.schema)
