"""Header encoding, checked against headers of a real node."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.corpus import corpus
from trace_devchain.header import EMPTY_OMMERS, EMPTY_TRIE
from trace_platform.domain.evm_encoding import Item, bloom_bits, encoded
from trace_platform.operators.evm_header.header import ProvableBlock, header_hash

ZERO_HASH = "0x" + "0" * 64


def _bloom(*bits: int) -> str:
    return f"0x{sum(1 << bit for bit in bits):0512x}"


# Recorded from anvil 1.7.1 under --hardfork london, shanghai and prague.
RECORDED = {
    "london with a log": {
        "parentHash": "0xd72246be9437de2066881d163b330c9a50e9566398bfbed5ff55d9de2220e559",
        "sha3Uncles": "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",
        "miner": "0x0000000000000000000000000000000000000000",
        "stateRoot": "0x552f0f7ce2c6b344f7e671add5db9486c0024a6ff60d29bd8079b68e225aa2b5",
        "transactionsRoot": "0x44595fecc6a129d6f83f01a88f930e4debfffa56a1c372dc539801f2df78594d",
        "receiptsRoot": "0xeb86011a5f839d2716a0520bb9f4c49e7e41d352712a932b8ddd4664a63aa22d",
        "difficulty": "0x0",
        "number": "0x4",
        "gasLimit": "0x1c9c380",
        "gasUsed": "0xd44b",
        "timestamp": "0x6af96b40",
        "extraData": "0x",
        "mixHash": "0x3354ed6a40dc1c4fd9a8accd1bda0443f44a49564971eaf29a74e868dcd0f295",
        "nonce": "0x0000000000000000",
        "baseFeePerGas": "0x27f03db4",
        "hash": "0x1c78d74952010a340de150b86c115347a5bdaf33fadb81968b7d4c092aff9f7b",
        "logsBloom": _bloom(71, 396, 541, 1385, 1660, 1837),
    },
    "shanghai with a log": {
        "parentHash": "0x2897b2b4671e677e65d30567b40a388ae19500fd9bec2a43f56c0d9c1994b711",
        "sha3Uncles": "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",
        "miner": "0x0000000000000000000000000000000000000000",
        "stateRoot": "0x706a64442fb4b2bb95eff659d426294c4f50b5a093c173b98a93dcd3c8585fe1",
        "transactionsRoot": "0xf696d612a676238bc6939abb667f67f65665cabdc460855712281bd90fc9cea7",
        "receiptsRoot": "0x1f45694f8e3c821ed9a14a91af6c517d1e39da31b13c9c7042f00b2382641e31",
        "difficulty": "0x0",
        "number": "0x4",
        "gasLimit": "0x1c9c380",
        "gasUsed": "0xd44f",
        "timestamp": "0x6af96b42",
        "extraData": "0x",
        "mixHash": "0x04a0741411c9e01208f258bceab7f44a371f439c65193f11bbe48601855c3f9a",
        "nonce": "0x0000000000000000",
        "baseFeePerGas": "0x27f03db4",
        "withdrawalsRoot": "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        "hash": "0xd13ca380366278c2a3a0f4dadda94f5d69005bdfa799c43079be60ed7ab796c8",
        "logsBloom": _bloom(71, 396, 541, 1385, 1660, 1837),
    },
    "prague genesis": {
        "parentHash": ZERO_HASH,
        "sha3Uncles": "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",
        "miner": "0x0000000000000000000000000000000000000000",
        "stateRoot": "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        "transactionsRoot": "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        "receiptsRoot": "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        "difficulty": "0x0",
        "number": "0x0",
        "gasLimit": "0x1c9c380",
        "gasUsed": "0x0",
        "timestamp": "0x6af96b42",
        "extraData": "0x",
        "mixHash": ZERO_HASH,
        "nonce": "0x0000000000000000",
        "baseFeePerGas": "0x3b9aca00",
        "withdrawalsRoot": "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        "blobGasUsed": "0x0",
        "excessBlobGas": "0x0",
        "parentBeaconBlockRoot": ZERO_HASH,
        "requestsHash": "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "hash": "0xa6b3683d6fd03fefeb049d670dc774752de1c73dda603952aa3dc2f24c109810",
        "logsBloom": _bloom(),
    },
    "prague with a log": {
        "parentHash": "0x2fb9f525c37b90d0a6d2c86ea29cab3793bee0d373e57554c026cc6f0c11bb98",
        "sha3Uncles": "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",
        "miner": "0x0000000000000000000000000000000000000000",
        "stateRoot": "0x94f94fddba0cd04825bc829fbf10964b265b19030f788caaf8b19220839ab988",
        "transactionsRoot": "0xf696d612a676238bc6939abb667f67f65665cabdc460855712281bd90fc9cea7",
        "receiptsRoot": "0x1f45694f8e3c821ed9a14a91af6c517d1e39da31b13c9c7042f00b2382641e31",
        "difficulty": "0x0",
        "number": "0x4",
        "gasLimit": "0x1c9c380",
        "gasUsed": "0xd44f",
        "timestamp": "0x6af96b43",
        "extraData": "0x",
        "mixHash": "0xb51c312f6b301f2ddf350c54098d7ef316dd1fc776e46ee4ecc12cc08237ac71",
        "nonce": "0x0000000000000000",
        "baseFeePerGas": "0x27f03db4",
        "withdrawalsRoot": "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        "blobGasUsed": "0x0",
        "excessBlobGas": "0x0",
        "parentBeaconBlockRoot": ZERO_HASH,
        "requestsHash": "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "hash": "0x732986c974a8e7a41be2f5c7cf0090ae567c355aea02210f7c6e4a16b4c5b2ce",
        "logsBloom": _bloom(71, 396, 541, 1385, 1660, 1837),
    },
}


def _hash(block: dict[str, str]) -> str:
    header = msgspec.convert({"transactions": []} | block, ProvableBlock)
    return f"0x{header_hash(header).hex()}"


@pytest.mark.parametrize("name", RECORDED)
def test_hash_of_a_real_header_is_recomputed(name: str) -> None:
    block = RECORDED[name]
    assert _hash(block) == block["hash"]


@pytest.mark.parametrize("field", ["number", "gasUsed", "timestamp", "baseFeePerGas"])
def test_hash_changes_with_every_field(field: str) -> None:
    block = RECORDED["prague with a log"]
    changed = block | {field: hex(int(block[field], 16) + 1)}
    assert _hash(changed) != block["hash"]


def test_bloom_of_a_real_log_is_recomputed() -> None:
    address = bytes.fromhex("e7f1725e7734ce288f8367e1bb143e90bb3f0512")
    both = bloom_bits(address) | bloom_bits(b"\x11" * 32)
    assert f"0x{both:0512x}" == RECORDED["prague with a log"]["logsBloom"]


def test_well_known_empty_roots() -> None:
    assert EMPTY_TRIE.hex() == "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
    assert EMPTY_OMMERS.hex() == "1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"


@corpus(
    ("item", "expected"),
    [
        (b"dog", b"\x83dog"),
        ([b"cat", b"dog"], b"\xc8\x83cat\x83dog"),
        (b"", b"\x80"),
        ([], b"\xc0"),
        (0, b"\x80"),
        (b"\x00", b"\x00"),
        (15, b"\x0f"),
        (127, b"\x7f"),
        (128, b"\x81\x80"),
        (1024, b"\x82\x04\x00"),
        ([[], [[]], [[], [[]]]], b"\xc7\xc0\xc1\xc0\xc3\xc0\xc1\xc0"),
        (b"x" * 55, b"\xb7" + b"x" * 55),
        (b"x" * 56, b"\xb8\x38" + b"x" * 56),
        (b"x" * 1024, b"\xb9\x04\x00" + b"x" * 1024),
        ([b"x" * 60], b"\xf8\x3e\xb8\x3c" + b"x" * 60),
    ],
)
def test_rlp_encodes_the_specification_examples(item: Item, expected: bytes) -> None:
    assert encoded(item) == expected
