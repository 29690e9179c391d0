"""From content to header: what the header says of the block, and the link to its parent."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from trace_devchain.accounts import Account, Accounts
from trace_devchain.content import BLOB_GAS, Content
from trace_devchain.header import EMPTY_OMMERS, EMPTY_REQUESTS, EMPTY_TRIE, Header
from trace_platform.domain.evm_encoding import BLOOM_BYTES

GENESIS_TIME_S = 1_700_000_000
BLOCK_SPACING_S = 12
MIN_GAS_LIMIT = 36_000_000
_GAS_PER_TX = 1_000_000
_WITHDRAWALS_EVERY = 8


class Withdrawal(msgspec.Struct, frozen=True, gc=False):
    index: int
    validator: int
    address: Account
    amount_gwei: int


def gas_limit(max_txs: int) -> int:
    return max(MIN_GAS_LIMIT, max_txs * _GAS_PER_TX)


def seal(content: Content, parent_hash: bytes, limit: int, accounts: Accounts) -> Header:
    bits = 0
    for tx in content.txs:
        for log in tx.logs:
            bits |= log.bits
    return Header(
        parent_hash=parent_hash,
        ommers_hash=EMPTY_OMMERS,
        beneficiary=accounts.proposers[content.key[9] & 15].raw,
        state_root=content.derive(b"state"),
        transactions_root=_root(content, b"transactions"),
        receipts_root=_root(content, b"receipts"),
        logs_bloom=bits.to_bytes(BLOOM_BYTES, "big"),
        difficulty=0,
        number=content.number,
        gas_limit=limit,
        gas_used=sum([tx.gas_used for tx in content.txs]),
        timestamp=GENESIS_TIME_S + BLOCK_SPACING_S * content.number,
        extra_data=b"trace devchain",
        mix_hash=content.derive(b"randao"),
        nonce=bytes(8),
        base_fee=content.base_fee,
        withdrawals_root=_withdrawals_root(content),
        blob_gas_used=BLOB_GAS * sum([tx.blobs for tx in content.txs]),
        excess_blob_gas=0,
        parent_beacon_root=content.derive(b"beacon") if content.number else bytes(32),
        requests_hash=EMPTY_REQUESTS,
    )


def withdrawals(content: Content, accounts: Accounts) -> list[Withdrawal]:
    """Two in every eighth block, none in the others."""
    turn, rest = divmod(content.number, _WITHDRAWALS_EVERY)
    if rest or not turn:
        return []
    return [
        Withdrawal(
            index=2 * turn + n,
            validator=int.from_bytes(content.key[10 + n : 12 + n], "big"),
            address=accounts.proposers[content.key[14 + n] & 15],
            amount_gwei=18_000_000 + int.from_bytes(content.key[16 + n : 18 + n], "big"),
        )
        for n in range(2)
    ]


def _root(content: Content, label: bytes) -> bytes:
    """Not a trie: a digest over the draws that decide every field of every transaction."""
    if not content.txs:
        return EMPTY_TRIE
    drawn = b"".join([tx.digest for tx in content.txs])
    return blake2b(drawn, digest_size=32, key=content.key, person=label).digest()


def _withdrawals_root(content: Content) -> bytes:
    has_some = content.number and content.number % _WITHDRAWALS_EVERY == 0
    return content.derive(b"withdrawals") if has_some else EMPTY_TRIE
