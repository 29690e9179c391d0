"""Chains that are not Ethereum: what their nodes send becomes rows, and what only Ethereum's rules
could prove of it is told."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support import other_chains
from tests.support.scripted_rpc import scripted_rpc
from tests.support.slow_rows import SlowRows, assert_same
from tests.support.tiny_chain import CHAIN_ID, TinyChain, digest
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import NodeContradictsItself
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.checks.integrity.chain import Chain, Rows
from trace_platform.operators.evm_header.proofs import Proofs

BOTH = BlockRange(0, 1)
ALL = (
    *(other_chains.optimism, other_chains.arbitrum, other_chains.zksync, other_chains.polygon),
    other_chains.ethereum,
)


def asked(chain: TinyChain, *, header_hash: bool = False, roots: bool = False) -> Rows:
    with scripted_rpc(chain.answer) as node:
        proofs = Proofs(header_hash=header_hash, roots=roots)
        pool = Chain(RpcEndpoint(node.url), CHAIN_ID, proofs, batch_blocks=10)
        try:
            return pool.rows([BOTH])
        finally:
            pool.close()


def rows(chain: TinyChain) -> SlowRows:
    """After the rows that are read in columns were found to be the same."""
    expected = SlowRows(lambda method, *params: chain.answer(method, list(params)), BOTH)
    found = asked(chain)
    for table in ("blocks", "transactions", "logs"):
        found[table].validate(full=True)
        assert_same(found[table], expected[table], table)
    return expected


@pytest.mark.parametrize("chain", ALL)
def test_every_block_becomes_the_rows_that_the_node_tells(chain: Callable[[], TinyChain]) -> None:
    assert rows(chain())["transactions"]


def test_a_deposit_of_optimism_has_no_price_and_keeps_its_nonce() -> None:
    first, second, third = rows(other_chains.optimism())["transactions"]
    assert [row["transaction_type"] for row in (first, second, third)] == [0x7E, 0x7E, 2]
    assert (first["nonce"], first["gas_price"]) == (5_000_000, 0)
    assert (second["nonce"], second["gas_price"]) == (2**63 - 1, None)
    assert json.loads(second["above_int64"]) == {"nonce": str(2**64 - 3)}


def test_the_types_of_arbitrum_and_zksync_are_numbers_as_others() -> None:
    found = rows(other_chains.arbitrum())["transactions"]
    assert [row["transaction_type"] for row in found] == [*(0x6A, 0x64, 0x65, 0x66, 0x68, 0x69), 2]
    found = rows(other_chains.zksync())["transactions"]
    assert [row["transaction_type"] for row in found] == [0xFF, 0x71]


def test_logs_of_zksync_are_counted_as_the_node_counts_them() -> None:
    found = rows(other_chains.zksync())["logs"]
    assert [(row["transaction_index"], row["log_index"]) for row in found] == [
        *((0, 0), (0, 1), (1, 0), (1, 1))
    ]


def test_a_state_sync_of_polygon_is_a_transaction_from_nobody() -> None:
    last = rows(other_chains.polygon())["transactions"][-1]
    nobody = bytes(20)
    assert (last["from_address"], last["to_address"], last["gas_used"]) == (nobody, nobody, 0)


@pytest.mark.parametrize("chain", [other_chains.optimism, other_chains.arbitrum])
def test_roots_that_only_the_chain_itself_can_make_are_refused_by_name(
    chain: Callable[[], TinyChain],
) -> None:
    """Their headers hash as Ethereum's do."""
    asked(chain(), header_hash=True)
    with pytest.raises(NodeContradictsItself, match="of type 0x") as caught:
        asked(chain(), roots=True)
    assert "turn `header_hash` or `roots` off" in (caught.value.hint or "")


def test_a_chain_that_hashes_otherwise_says_which_check_to_turn_off() -> None:
    with pytest.raises(NodeContradictsItself, match="hash of its header") as caught:
        asked(other_chains.zksync(), header_hash=True)
    assert "turn `header_hash` or `roots` off" in (caught.value.hint or "")


def test_ethereum_is_proven() -> None:
    asked(other_chains.with_roots(other_chains.ethereum()), header_hash=True, roots=True)


@pytest.mark.parametrize("root", ["transactionsRoot", "receiptsRoot"])
def test_a_wrong_root_of_ethereum_is_a_contradiction(root: str) -> None:
    chain = other_chains.with_roots(other_chains.ethereum())
    chain.block(1)[root] = digest("another")
    with pytest.raises(NodeContradictsItself, match="contradicts itself about block 1"):
        asked(chain, roots=True)
