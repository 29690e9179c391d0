"""Hashes and roots computed anew: against mainnet's own, and against every block of a real node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import busy_chain
from tests.support.anvil import Anvil, anvil
from trace_devchain import DevChain
from trace_platform.domain.evm_encoding import encoded, keccak256
from trace_platform.operators.evm_header.envelope import (
    SignedTransaction,
    UnknownKind,
    envelope,
)
from trace_platform.operators.evm_header.header import ProvableBlock, header_hash
from trace_platform.operators.evm_header.receipts import ProvableReceipt, bloom, receipts_root
from trace_platform.operators.evm_header.trie import EMPTY_ROOT, list_root

NO_UNCLES = "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"
NO_ROWS = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
GENESIS = "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"

# The first two blocks of Ethereum.
MAINNET: list[dict[str, Any]] = [
    {
        "hash": GENESIS,
        "parentHash": "0x" + "00" * 32,
        "sha3Uncles": NO_UNCLES,
        "miner": "0x" + "00" * 20,
        "stateRoot": "0xd7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544",
        "transactionsRoot": NO_ROWS,
        "receiptsRoot": NO_ROWS,
        "logsBloom": "0x" + "00" * 256,
        "difficulty": "0x400000000",
        "number": "0x0",
        "gasLimit": "0x1388",
        "gasUsed": "0x0",
        "timestamp": "0x0",
        "extraData": "0x11bbe8db4e347b4e8c937c1c8370e4b5ed33adb3db69cbdb7a38e1e50b1b82fa",
        "mixHash": "0x" + "00" * 32,
        "nonce": "0x0000000000000042",
        "transactions": [],
    },
]
MAINNET.append(
    MAINNET[0]
    | {
        "hash": "0x88e96d4537bea4d9c05d12549907b32561d3bf31f45aae734cdc119f13406cb6",
        "parentHash": GENESIS,
        "miner": "0x05a56e2d52c817161883f50c441c3228cfe54d9f",
        "stateRoot": "0xd67e4d450343046425ae4271474353857ab860dbc0a1dde64b41b5cd3a532bf3",
        "difficulty": "0x3ff800000",
        "number": "0x1",
        "timestamp": "0x55ba4224",
        "extraData": "0x476574682f76312e302e302f6c696e75782f676f312e342e32",
        "mixHash": "0x969b900de27b6ac6a67742365dd65f55a0526c41fd18e1b16f1a1215c2e66f59",
        "nonce": "0x539bd4979fef1ec4",
    }
)
# The first transaction of Ethereum, alone in block 46147.
FIRST = {
    "hash": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
    "transactionIndex": "0x0",
    "from": "0xa1e4380a3b1f749673e270229993ee55f35663b4",
    "nonce": "0x0",
    "gasPrice": "0x2d79883d2000",
    "gas": "0x5208",
    "to": "0x5df9b87991262f6ba471f09758cde1c0fc1de734",
    "value": "0x7a69",
    "input": "0x",
    "v": "0x1c",
    "r": "0x88ff6cf0fefd94db46111149ae4bfc179e9b94721fffd821d38d16464b3f71d0",
    "s": "0x45e0aff800961cfce805daef7016b9b675c137a6a41a548f7b60a3484c06a33a",
}
ROOT_OF_46147 = "4513310fcb9f6f616972a3b948dc5d547f280849a87ebb5af0191f98b87be598"


@pytest.fixture(scope="module")
def node() -> Iterator[Anvil]:
    with anvil(*busy_chain.OPTIONS) as running:
        busy_chain.build(running)
        _block_of_many(running)
        yield running


def _block_of_many(node: Anvil) -> None:
    """Beyond the positions whose key is one byte."""
    receiver, sender = node.call("eth_accounts")[8:10]
    body = {"from": sender, "to": receiver, "gas": "0x5208", "gasPrice": "0x0"}
    for _ in range(140):
        node.call("eth_sendTransaction", body)
    node.call("evm_mine")


@pytest.fixture(scope="module")
def headers(node: Anvil) -> list[ProvableBlock]:
    last = int(node.call("eth_blockNumber"), 16)
    told = [node.call("eth_getBlockByNumber", hex(n), True) for n in range(last + 1)]
    return [msgspec.convert(each, ProvableBlock) for each in told]


@pytest.fixture(scope="module")
def receipts(node: Anvil, headers: list[ProvableBlock]) -> list[list[ProvableReceipt]]:
    told = [node.call("eth_getBlockReceipts", header.number) for header in headers]
    return [msgspec.convert(each, list[ProvableReceipt]) for each in told]


@pytest.mark.parametrize("block", MAINNET, ids=["genesis", "block 1"])
def test_the_hash_of_mainnet_headers(block: dict[str, Any]) -> None:
    assert "0x" + header_hash(msgspec.convert(block, ProvableBlock)).hex() == block["hash"]


def test_the_first_transaction_of_mainnet_and_the_root_of_its_block() -> None:
    first = msgspec.convert(FIRST, SignedTransaction)
    assert "0x" + keccak256(envelope(first)).hex() == FIRST["hash"]
    assert list_root([envelope(first)]).hex() == ROOT_OF_46147


def test_the_root_of_nothing() -> None:
    assert "0x" + EMPTY_ROOT.hex() == "0x" + list_root([]).hex() == NO_ROWS
    assert "0x" + keccak256(encoded([])).hex() == NO_UNCLES


def test_every_header_of_a_node_hashes_to_its_hash(headers: list[ProvableBlock]) -> None:
    assert {h.number: "0x" + header_hash(h).hex() for h in headers} == {
        h.number: h.hash for h in headers
    }


def test_every_header_of_the_development_chain_hashes_to_its_hash() -> None:
    chain = DevChain(blocks=40, txs=3)
    for number in range(41):
        header = msgspec.json.decode(chain.full_block(number).body, type=ProvableBlock)
        assert header_hash(header) == chain.hash_of(number)


def test_every_signed_transaction_hashes_to_its_hash(headers: list[ProvableBlock]) -> None:
    signed = [t for h in headers for t in h.transactions]
    assert {t.kind for t in signed} == {f"0x{kind}" for kind in range(5)}
    assert ["0x" + keccak256(envelope(t)).hex() for t in signed] == [t.hash for t in signed]


def test_transactions_roots_are_those_of_the_headers(
    node: Anvil, headers: list[ProvableBlock]
) -> None:
    assert max(len(h.transactions) for h in headers) == 140
    for header in headers:
        root = list_root([envelope(t) for t in header.transactions])
        if any(t.kind == "0x3" for t in header.transactions):
            # Anvil puts blobs into the root with their sidecars, which no block holds.
            root = list_root([_as_sent(node, t) for t in header.transactions])
        assert "0x" + root.hex() == header.transactions_root


def test_receipts_roots_are_those_of_the_headers(
    headers: list[ProvableBlock], receipts: list[list[ProvableReceipt]]
) -> None:
    for header, own in zip(headers, receipts, strict=True):
        kinds = [int(t.kind, 16) for t in header.transactions]
        assert "0x" + receipts_root(kinds, own).hex() == header.receipts_root
    assert not all(receipts), "there are empty blocks, too"


def test_the_bloom_of_a_block_is_that_of_its_logs(
    headers: list[ProvableBlock], receipts: list[list[ProvableReceipt]]
) -> None:
    for header, own in zip(headers, receipts, strict=True):
        logs = [log for receipt in own for log in receipt.logs]
        words = [bytes.fromhex(w[2:]) for log in logs for w in (log.address, *log.topics)]
        assert bloom(words) == int(header.logs_bloom or "", 16)


def test_a_receipt_from_before_byzantium_has_a_root_for_its_status(
    receipts: list[list[ProvableReceipt]],
) -> None:
    (first, *_), *_ = filter(None, receipts)
    old = msgspec.structs.replace(first, status=None, root="0x" + "11" * 32)
    assert receipts_root([0], [old]) != receipts_root([0], [first])
    with pytest.raises(ValueError, match="neither a status nor a root"):
        receipts_root([0], [msgspec.structs.replace(first, status=None)])


def test_a_transaction_of_an_unknown_type_is_named() -> None:
    with pytest.raises(UnknownKind, match="type 0x7e"):
        envelope(msgspec.convert(FIRST | {"type": "0x7e"}, SignedTransaction))


@pytest.mark.parametrize("field", ["gasPrice", "v"])
def test_a_field_that_is_missing_is_refused(field: str) -> None:
    less = {k: v for k, v in FIRST.items() if k != field}
    with pytest.raises(ValueError, match="missing"):
        envelope(msgspec.convert(less, SignedTransaction))


@pytest.mark.parametrize(
    ("field", "sent"),
    [("gasLimit", "5000"), ("gasUsed", "0x 0"), ("miner", "00" * 21), ("nonce", "0x53 9b")],
)
def test_a_header_is_read_as_strictly_as_its_columns(field: str, sent: str) -> None:
    with pytest.raises(ValueError, match=f"is '{sent[:8]}"):
        header_hash(msgspec.convert(MAINNET[1] | {field: sent}, ProvableBlock))


@settings(max_examples=50)
@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=300), st.data())
def test_a_root_tells_any_change(values: list[bytes], data: st.DataObject) -> None:
    root = list_root(values)
    place = data.draw(st.integers(0, len(values) - 1))
    assert list_root(values[:place] + values[place + 1 :]) != root
    changed = bytes([values[place][0] ^ 1]) + values[place][1:]
    assert list_root([*values[:place], changed, *values[place + 1 :]]) != root


def _as_sent(node: Anvil, transaction: SignedTransaction) -> bytes:
    return bytes.fromhex(node.call("debug_getRawTransaction", transaction.hash)[2:])
