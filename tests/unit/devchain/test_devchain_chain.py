"""What the development chain's blocks promise: valid, linked, consistent, the same every time."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from trace_devchain import DevChain
from trace_devchain.accounts import POPULATION, zipf_slots
from trace_devchain.activity import MAX_UINT256, TRANSFER
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.evm_encoding import bloom_bits, encoded, keccak256
from trace_platform.operators.evm_header.header import ProvableBlock, header_hash

BLOCKS = 400


@pytest.fixture(scope="module")
def chain() -> DevChain:
    return DevChain(blocks=BLOCKS, txs=20)


@pytest.fixture(scope="module")
def blocks(chain: DevChain) -> list[dict[str, Any]]:
    return [json.loads(chain.full_block(n).body) for n in range(BLOCKS + 1)]


@pytest.fixture(scope="module")
def receipts(chain: DevChain) -> list[list[dict[str, Any]]]:
    return [json.loads(chain.receipts(n).body) for n in range(BLOCKS + 1)]


def digest(chain: DevChain, numbers: range) -> str:
    seen = hashlib.sha256()
    for n in numbers:
        for fragment in (chain.full_block(n), chain.hashed_block(n), chain.receipts(n)):
            seen.update(fragment.body)
    return seen.hexdigest()


def test_every_header_hash_is_valid(blocks: list[dict[str, Any]]) -> None:
    for block in blocks:
        header = msgspec.convert(block, ProvableBlock)
        assert "0x" + header_hash(header).hex() == block["hash"]


def test_parent_links_and_times_follow_the_numbers(blocks: list[dict[str, Any]]) -> None:
    assert int(blocks[0]["parentHash"], 16) == 0
    for parent, child in pairwise(blocks):
        assert child["parentHash"] == parent["hash"]
        assert int(child["number"], 16) == int(parent["number"], 16) + 1
        assert int(child["timestamp"], 16) > int(parent["timestamp"], 16)


def test_genesis_has_no_transactions(blocks: list[dict[str, Any]]) -> None:
    assert blocks[0]["transactions"] == []


def test_hashed_block_differs_from_the_full_one_in_transactions_only(chain: DevChain) -> None:
    for n in range(50):
        full, hashed = (json.loads(v(n).body) for v in (chain.full_block, chain.hashed_block))
        assert hashed == full | {"transactions": [tx["hash"] for tx in full["transactions"]]}


def test_receipts_add_up(blocks: list[dict[str, Any]], receipts: list[Any]) -> None:
    for block, of_block in zip(blocks, receipts, strict=True):
        gas, log_index = 0, 0
        for index, (tx, receipt) in enumerate(zip(block["transactions"], of_block, strict=True)):
            gas += int(receipt["gasUsed"], 16)
            assert int(receipt["cumulativeGasUsed"], 16) == gas
            assert int(receipt["transactionIndex"], 16) == int(tx["transactionIndex"], 16) == index
            assert receipt["transactionHash"] == tx["hash"]
            assert int(receipt["gasUsed"], 16) <= int(tx["gas"], 16)
            for key in ("from", "to", "type", "blockHash", "blockNumber"):
                assert receipt[key] == tx[key]
            for log in receipt["logs"]:
                assert int(log["logIndex"], 16) == log_index
                assert log["transactionHash"] == tx["hash"]
                assert log["blockHash"] == block["hash"]
                log_index += 1
        assert int(block["gasUsed"], 16) == gas <= int(block["gasLimit"], 16)


def test_blooms_hold_exactly_the_logs(blocks: list[dict[str, Any]], receipts: list[Any]) -> None:
    for block, of_block in zip(blocks[:60], receipts[:60], strict=True):
        whole = 0
        for receipt in of_block:
            bits = 0
            for log in receipt["logs"]:
                for value in (log["address"], *log["topics"]):
                    bits |= bloom_bits(bytes.fromhex(value[2:]))
            assert int(receipt["logsBloom"], 16) == bits
            whole |= bits
        assert int(block["logsBloom"], 16) == whole


def test_price_paid_follows_the_transaction_type(
    blocks: list[dict[str, Any]], receipts: list[Any]
) -> None:
    for block, of_block in zip(blocks, receipts, strict=True):
        base = int(block["baseFeePerGas"], 16)
        for tx, receipt in zip(block["transactions"], of_block, strict=True):
            paid = int(receipt["effectiveGasPrice"], 16)
            assert int(tx["gasPrice"], 16) == paid >= base
            if int(tx["type"], 16) >= 2:
                tip = int(tx["maxPriorityFeePerGas"], 16)
                assert paid == min(int(tx["maxFeePerGas"], 16), base + tip)


def test_blob_gas_of_the_header_is_that_of_its_transactions(
    blocks: list[dict[str, Any]], receipts: list[Any]
) -> None:
    total = 0
    for block, of_block in zip(blocks, receipts, strict=True):
        used = sum(int(r.get("blobGasUsed", "0x0"), 16) for r in of_block)
        hashes = [h for tx in block["transactions"] for h in tx.get("blobVersionedHashes", [])]
        assert int(block["blobGasUsed"], 16) == used == 131_072 * len(hashes)
        total += used
    assert total > 0


def test_created_address_is_derived_from_sender_and_nonce(
    blocks: list[dict[str, Any]], receipts: list[Any]
) -> None:
    creations = 0
    for block, of_block in zip(blocks, receipts, strict=True):
        for tx, receipt in zip(block["transactions"], of_block, strict=True):
            if tx["to"] is not None:
                assert receipt["contractAddress"] is None
                continue
            creations += 1
            source = encoded((bytes.fromhex(tx["from"][2:]), int(tx["nonce"], 16)))
            assert receipt["contractAddress"] == "0x" + keccak256(source)[12:].hex()
    assert creations > 0


def test_content_has_the_awkward_cases(blocks: list[dict[str, Any]], receipts: list[Any]) -> None:
    txs = [tx for block in blocks for tx in block["transactions"]]
    flat = [receipt for of_block in receipts for receipt in of_block]
    logs = [log for receipt in flat for log in receipt["logs"]]
    amounts = {int(log["data"], 16) for log in logs if len(log["data"]) == 66}
    assert {0, 1, MAX_UINT256} <= amounts
    assert {0, 1, MAX_UINT256} <= {int(tx["value"], 16) for tx in txs}
    assert {tx["type"] for tx in txs} == {"0x0", "0x1", "0x2", "0x3", "0x4"}
    assert {len(log["topics"]) for log in logs} == {0, 3, 4}
    failed = [receipt for receipt in flat if receipt["status"] == "0x0"]
    assert failed
    assert all(receipt["logs"] == [] for receipt in failed)
    assert any(not block["transactions"] for block in blocks[1:])
    assert any(tx["accessList"] for tx in txs if tx["type"] != "0x0")
    assert len({tx["hash"] for tx in txs}) == len(txs)
    assert any(block["withdrawals"] for block in blocks)


def test_nonces_of_a_sender_increase(blocks: list[dict[str, Any]]) -> None:
    last: dict[str, int] = {}
    for block in blocks:
        for tx in block["transactions"]:
            nonce = int(tx["nonce"], 16)
            assert nonce > last.get(tx["from"], -1)
            last[tx["from"]] = nonce


def test_average_and_exact_counts(blocks: list[dict[str, Any]]) -> None:
    mean = sum(len(block["transactions"]) for block in blocks) / BLOCKS
    assert 17 < mean < 23
    exact = DevChain(blocks=200, txs=20, exact_txs=True)
    assert {len(exact.content(n).txs) for n in range(1, 201)} == {20}


def test_exact_chain_has_about_one_erc20_transfer_per_transaction() -> None:
    chain = DevChain(blocks=300, txs=20, exact_txs=True)
    logs = [log for n in range(301) for tx in chain.content(n).txs for log in tx.logs]
    transfers = sum(log.topics[:1] == (TRANSFER,) and len(log.topics) == 3 for log in logs)
    assert 0.9 < transfers / (300 * 20) < 1.1


def test_addresses_are_many_and_few_of_them_hot() -> None:
    slots = zipf_slots(POPULATION)
    assert len(slots) == 65_536
    assert set(slots) == set(range(POPULATION))
    share = [slots.count(rank) for rank in (0, 1, 10, 1000)]
    assert share == sorted(share, reverse=True)
    assert sum(rank < 60 for rank in slots) > len(slots) // 3


def test_same_options_give_the_same_bytes_in_another_process() -> None:
    code = (
        "import hashlib; from trace_devchain import DevChain\n"
        "c = DevChain(blocks=60, seed=7); c.reorg(5); c.mine(3); s = hashlib.sha256()\n"
        "for n in reversed(range(c.head + 1)):\n"
        "    for f in (c.receipts(n), c.hashed_block(n), c.full_block(n)): pass\n"
        "for n in range(c.head + 1):\n"
        "    for f in (c.full_block(n), c.hashed_block(n), c.receipts(n)): s.update(f.body)\n"
        "print(s.hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    here = DevChain(blocks=60, seed=7)
    here.reorg(5)
    here.mine(3)
    assert digest(here, range(here.head + 1)) == other


def test_recorded_digest_of_the_default_chain_has_not_moved() -> None:
    # A change here changes every block that anyone has recorded: raise the generator's version.
    assert digest(DevChain(blocks=50), range(51)) == (
        "cc7e32aded58205643c3b53baa98ff34629424235a4e5b6bba50d9cc449c8514"
    )


@pytest.mark.parametrize("other", [{"seed": 1}, {"chain_id": 1}, {"txs": 11}, {"exact_txs": True}])
def test_other_options_give_another_chain(other: dict[str, Any]) -> None:
    assert DevChain(blocks=3, **other).hash_of(3) != DevChain(blocks=3).hash_of(3)


def test_blocks_do_not_depend_on_what_was_asked_before() -> None:
    fresh, used = DevChain(blocks=90), DevChain(blocks=90, cache_bytes=1)
    for n in (90, 3, 3, 50, 90, 0):
        used.full_block(n)
        used.receipts(n)
    assert digest(used, range(91)) == digest(fresh, range(91))


def test_mining_extends_what_was_there() -> None:
    chain = DevChain(blocks=10)
    before = digest(chain, range(11))
    assert chain.mine(5) == chain.head == 15
    assert digest(chain, range(11)) == before
    assert chain.header(11).parent_hash == chain.hash_of(10)
    assert chain.hash_of(15) == DevChain(blocks=15).hash_of(15)


def test_reorg_keeps_the_prefix_and_replaces_the_suffix() -> None:
    chain = DevChain(blocks=20)
    old = [chain.hash_of(n) for n in range(21)]
    old_tx = bytes.fromhex(chain.content(20).txs[0].hash[2:])
    assert chain.reorg(3) == chain.head == 21
    new = [chain.hash_of(n) for n in range(22)]
    assert new[:18] == old[:18]
    assert not set(new) & set(old[18:])
    assert chain.header(18).parent_hash == old[17]
    assert all(chain.header(n).parent_hash == new[n - 1] for n in range(18, 22))
    assert [chain.number_of(block) for block in old[18:]] == [None, None, None]
    assert chain.find_transaction(old_tx) is None


def test_reorgs_upon_reorgs_stay_linked_and_never_return_to_an_old_branch() -> None:
    chain = DevChain(blocks=30)
    seen: set[bytes] = set()
    for depth in (1, 5, 2, 30, 1):
        first, last = chain.head - depth + 1, chain.head
        seen |= {chain.hash_of(n) for n in range(first, last + 1)}
        chain.reorg(depth)
        assert not seen & {chain.hash_of(n) for n in range(first, chain.head + 1)}
    for n in range(1, chain.head + 1):
        assert chain.header(n).parent_hash == chain.hash_of(n - 1)
        assert chain.number_of(chain.hash_of(n)) == n


def test_reorg_before_any_block_was_built_equals_reorg_after() -> None:
    lazy, eager = DevChain(blocks=40), DevChain(blocks=40)
    eager.hash_of(40)
    assert lazy.reorg(7) == eager.reorg(7)
    assert digest(lazy, range(42)) == digest(eager, range(42))


@pytest.mark.parametrize("depth", [0, -1, 6])
def test_reorg_refuses_depths_that_do_not_exist(depth: int) -> None:
    with pytest.raises(InvalidConfig):
        DevChain(blocks=5).reorg(depth)


@pytest.mark.parametrize("bad", [{"blocks": -1}, {"txs": -1}, {"txs": 10**6}, {"chain_id": 0}])
def test_impossible_options_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig):
        DevChain(**bad)


def test_every_transaction_is_found_by_its_hash(chain: DevChain) -> None:
    for n in (1, 17, BLOCKS):
        for index, tx in enumerate(chain.content(n).txs):
            assert chain.find_transaction(bytes.fromhex(tx.hash[2:])) == (n, index)
    assert chain.find_transaction(bytes(32)) is None
    assert chain.find_transaction(b"\xff" * 32) is None


def test_cache_stays_below_its_limit_unless_everything_is_prebuilt() -> None:
    limit = 200_000
    chain = DevChain(blocks=100, cache_bytes=limit)
    digest(chain, range(101))
    assert chain.cached_bytes <= limit
    assert list(chain.prebuild()) == list(range(101))
    assert chain.cached_bytes > limit
