"""A node that lies in one field: with proofs the lie is refused by name, or it is in nothing that a
row holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.support import busy_chain
from tests.support.anvil import anvil
from tests.support.recorded_chain import CHAIN_ID, Lie, RecordedChain, lies
from tests.support.scripted_rpc import ScriptedRpc, scripted_rpc
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, NodeContradictsItself
from trace_platform.operators.evm.fetch import RangeFetcher
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm_header.proofs import NO_PROOFS, Proofs

Read = Callable[..., list[pa.Table]]
FULL = Proofs(header_hash=True, roots=True)
TABLES = ("blocks", "transactions", "logs")
# What no header tells: nodes count it differently, and nothing is made of it.
UNPROVEN = {"block.size", "block.size removed"}


@pytest.fixture(scope="module")
def chain() -> Iterator[RecordedChain]:
    with anvil(*busy_chain.OPTIONS) as node:
        busy_chain.build(node, with_blobs=False)
        yield RecordedChain.of(node)


@pytest.fixture(scope="module")
def node(chain: RecordedChain) -> Iterator[ScriptedRpc]:
    with scripted_rpc(chain.answer) as running:
        yield running


@pytest.fixture
def rows(chain: RecordedChain, node: ScriptedRpc) -> Iterator[Callable[..., list[pa.Table]]]:
    client = RpcClient(node.url, backoff_s=())

    def read(blocks: BlockRange, *, lie: Lie | None = None, **options: Any) -> list[pa.Table]:
        node.answer = chain.lying(lie) if lie is not None else chain.answer
        chunks = list(RangeFetcher(client, CHAIN_ID, **options).chunks(blocks))
        return [pa.Table.from_batches([getattr(chunk, t) for chunk in chunks]) for t in TABLES]

    yield read
    client.close()


def test_an_honest_node_proves_every_block(chain: RecordedChain, rows: Read) -> None:
    every = BlockRange(0, chain.head)
    assert rows(every, proofs=FULL) == rows(every)
    assert {t["type"] for b in chain.blocks for t in b["transactions"]} == {
        *("0x0", "0x1", "0x2", "0x4")
    }


def test_no_field_of_a_row_can_be_altered_without_being_noticed(
    chain: RecordedChain, rows: Read
) -> None:
    busy = [n for n, of_block in enumerate(chain.receipts) if of_block and of_block[-1]["logs"]]
    block = BlockRange(busy[-1], busy[-1])
    honest = rows(block)

    def passes(lie: Lie, proofs: Proofs) -> bool:
        try:
            return rows(block, lie=lie, proofs=proofs) != honest
        except (MalformedBlock, NodeContradictsItself):
            return False

    told = dict(lies(chain, block.start))
    assert len(told) > 80
    assert {name for name, lie in told.items() if passes(lie, FULL)} == UNPROVEN
    unnoticed = {name for name, lie in told.items() if passes(lie, NO_PROOFS)}
    assert {"transaction.value", "receipt.gasUsed", "log.data", "block.timestamp"} <= unnoticed


@pytest.mark.parametrize("proofs", [Proofs(header_hash=True), Proofs(roots=True)])
def test_a_part_of_the_proofs_is_true_of_an_honest_node_too(
    chain: RecordedChain, rows: Read, proofs: Proofs
) -> None:
    every = BlockRange(0, chain.head)
    assert rows(every, proofs=proofs) == rows(every)
    assert rows(every, proofs=proofs, tables=["blocks"])[0].num_rows == len(every)


def test_proofs_are_asked_of_ethereum_unless_they_are_set() -> None:
    assert [Proofs.of(n, None, None) for n in (1, 11_155_111, 31_337, 10)] == [
        *(FULL, FULL, NO_PROOFS, NO_PROOFS)
    ]
    assert Proofs.of(1, False, False) == NO_PROOFS
    assert Proofs.of(10, True, None) == Proofs(header_hash=True)


def test_the_address_of_a_creation_is_proven(chain: RecordedChain, rows: Read) -> None:
    told = ((n, r) for n, of_block in enumerate(chain.receipts) for r in of_block)
    number, made = next((n, r) for n, r in told if r["contractAddress"] and r["status"] == "0x1")
    block = BlockRange(number, number)
    found = rows(block, proofs=FULL)[1]["contract_address"].to_pylist()
    assert bytes.fromhex(made["contractAddress"][2:]) in found

    def lie(other: str | None) -> Lie:
        def change(method: str, answer: Any) -> None:
            for each in answer if method == "eth_getBlockReceipts" else ():
                if each["transactionHash"] == made["transactionHash"]:
                    each["contractAddress"] = other

        return change

    for other in (None, "0x" + "11" * 20):
        with pytest.raises(NodeContradictsItself, match="created contract"):
            rows(block, lie=lie(other), proofs=FULL)
