"""The content of a block, a pure function of (options, number, branch).

Every random bit is a BLAKE2b digest of those three, read as integers, so every process and
every Python version makes the same blocks, in any order.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from trace_devchain.accounts import Account, Accounts
from trace_devchain.activity import KINDS, Draw, Log, draw

GWEI = 10**9
BLOB_GAS = 131_072
# Shares of 256, one entry per value of the draw's second byte.
_TYPES = (2,) * 218 + (0,) * 20 + (1,) * 8 + (3,) * 5 + (4,) * 5
_AUTHORIZATION_GAS = 25_000
_ACCESS_LIST_GAS = 4_300
_INDEX_BITS = 24


class Options(msgspec.Struct, frozen=True):
    """What makes one chain differ from another. `txs` is an average unless `exact_txs`."""

    seed: int = 0
    chain_id: int = 31337
    txs: int = 10
    exact_txs: bool = False
    # Whether swaps log a Swap, too.
    pools: bool = False
    # Whether who sends an ERC-721 token sends some of ERC-1155, too.
    items: bool = False

    @property
    def max_txs(self) -> int:
        return self.txs if self.exact_txs else max(2 * self.txs - 1, 0)


class Tx(msgspec.Struct, frozen=True):
    """`digest` is the source of what nobody reads: signature, blob hashes, access lists."""

    digest: bytes
    hash: str
    index: int
    type: int
    sender: Account
    to: Account | None
    nonce: int
    value: int
    input: str
    gas: int
    gas_used: int
    max_fee: int
    tip: int
    price: int
    blobs: int
    access_list: bool
    ok: bool
    logs: tuple[Log, ...]


class Content(msgspec.Struct, frozen=True):
    number: int
    branch: int
    key: bytes
    base_fee: int
    txs: tuple[Tx, ...]

    def derive(self, label: bytes) -> bytes:
        """32 bytes of this block's own, one value per label."""
        return blake2b(self.key + label, digest_size=32).digest()


class Generator:
    def __init__(self, options: Options) -> None:
        name = (
            f"trace-devchain/1 {options.seed} {options.chain_id} {options.txs} {options.exact_txs}"
        )
        self._root = blake2b(name.encode(), digest_size=32).digest()
        self._options = options
        self.accounts = Accounts(self._root, pools=options.pools, items=options.items)

    def block(self, number: int, branch: int) -> Content:
        place = number.to_bytes(8, "big") + branch.to_bytes(8, "big")
        key = blake2b(self._root + place, digest_size=32).digest()
        base_fee = _base_fee(number, key)
        count = self._count(key) if number else 0
        txs = tuple([self._tx(number, key, base_fee, index) for index in range(count)])
        return Content(number, branch, key, base_fee, txs)

    def _count(self, key: bytes) -> int:
        """Exact, or spread evenly around the average with one block in 32 empty."""
        options = self._options
        if options.exact_txs or options.txs == 0:
            return options.txs
        if key[0] < 8:
            return 0
        return 1 + int.from_bytes(key[1:5], "big") % options.max_txs

    def _tx(self, number: int, key: bytes, base_fee: int, index: int) -> Tx:
        digest = blake2b(key + index.to_bytes(4, "big"), digest_size=64).digest()
        d = draw(digest)
        sender = self.accounts.by_rank[d.sender]
        call = KINDS[d.kind](self.accounts, sender, d)
        type_ = _TYPES[d.type]
        if call.to is None and type_ > 2:
            type_ = 2  # Blob and set-code transactions cannot create contracts.
        access_list = type_ > 0 and call.to is not None and d.third & 7 == 7
        gas_used = (
            call.gas_used + _ACCESS_LIST_GAS * access_list + _AUTHORIZATION_GAS * (type_ == 4)
        )
        max_fee, tip = _fees(type_, base_fee, d)
        return Tx(
            digest=digest,
            hash=_tx_hash(digest, number, index),
            index=index,
            type=type_,
            sender=sender,
            to=call.to,
            # Unique and increasing per sender without counting anyone's transactions.
            nonce=number * self._options.max_txs + index,
            value=call.value,
            input=call.input,
            gas=21_000 if gas_used == 21_000 else gas_used + gas_used // 4,
            gas_used=gas_used,
            max_fee=max_fee,
            tip=tip,
            price=min(max_fee, base_fee + tip),
            blobs=1 + d.size % 3 if type_ == 3 else 0,
            access_list=access_list,
            ok=call.ok,
            logs=call.logs,
        )


def locate(tx_hash: bytes) -> tuple[int, int]:
    """(block number, index) where this hash can only be, if it exists at all.

    A hash hides its own place, so a chain of any length needs no transaction index.
    """
    head, mask = int.from_bytes(tx_hash[:8], "big"), int.from_bytes(tx_hash[8:16], "big")
    place = head ^ mask
    return place >> _INDEX_BITS, place & ((1 << _INDEX_BITS) - 1)


def _tx_hash(digest: bytes, number: int, index: int) -> str:
    tail = blake2b(digest, digest_size=24).hexdigest()
    head = (number << _INDEX_BITS | index) ^ int(tail[:16], 16)
    return f"0x{head:016x}{tail}"


def _base_fee(number: int, key: bytes) -> int:
    """A slow wave with noise: 5 to 19 gwei."""
    return (
        5 * GWEI + abs(number % 512 - 256) * (GWEI // 20) + int.from_bytes(key[5:9], "big") % GWEI
    )


def _fees(type_: int, base_fee: int, d: Draw) -> tuple[int, int]:
    """(max fee, tip). Before EIP-1559 both are bound up in one gas price, which is all paid."""
    tip = 1 + d.tip % (3 * GWEI)
    if type_ < 2:
        return base_fee + tip, tip
    # One in eight caps its fee so low that only part of the tip is paid.
    return (base_fee + tip // 2 if d.gas & 7 == 0 else 2 * base_fee + tip), tip
