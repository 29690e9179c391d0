"""What a transaction does: one function per kind, each turning a draw into a call.

The mix is about one ERC-20 Transfer per transaction, with the awkward cases a decoder must
survive: no topics, four topics, empty data, 0, 1 and 2**256 - 1, failures, creations.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import shake_128
from struct import Struct
from typing import TypeAlias

import msgspec

from trace_devchain.accounts import Account, Accounts
from trace_platform.domain.evm_encoding import bloom_bits, keccak256

MAX_UINT256 = (1 << 256) - 1
_EXTREMES = (0, 1, MAX_UINT256)
_SCALES = (1, 1, 10**6, 10**12)

_TRANSFER_TOPIC = keccak256(b"Transfer(address,address,uint256)")
_APPROVAL_TOPIC = keccak256(b"Approval(address,address,uint256)")
_SWAP_TOPIC = keccak256(b"Swap(address,uint256,uint256,uint256,uint256,address)")
TRANSFER = "0x" + _TRANSFER_TOPIC.hex()
APPROVAL = "0x" + _APPROVAL_TOPIC.hex()
SWAP = "0x" + _SWAP_TOPIC.hex()
_SINGLE_TOPIC = keccak256(b"TransferSingle(address,address,address,uint256,uint256)")
_BATCH_TOPIC = keccak256(b"TransferBatch(address,address,address,uint256[],uint256[])")
_TRANSFER_BITS = bloom_bits(_TRANSFER_TOPIC)
_APPROVAL_BITS = bloom_bits(_APPROVAL_TOPIC)
_SWAP_BITS = bloom_bits(_SWAP_TOPIC)
# A Uniswap v2 pair counts in 112 bits.
_MAX_RESERVE = (1 << 112) - 1


class Draw(msgspec.Struct, frozen=True, gc=False):
    """The 64 random bytes of one transaction, cut into the decisions they make."""

    kind: int
    type: int
    extreme: int
    flags: int
    sender: int
    recipient: int
    third: int
    token: int
    gas: int
    size: int
    tip: int
    amount: int
    amount2: int
    fresh: bytes
    salt: bytes

    def quantity(self) -> int:
        """Any magnitude up to about 2**104, and one draw in 85 an extreme of uint256."""
        if self.extreme < len(_EXTREMES):
            return _EXTREMES[self.extreme]
        return (self.amount >> (self.flags & 31)) * _SCALES[self.flags >> 6]

    def noise(self, n_bytes: int) -> str:
        return shake_128(self.salt + self.fresh).hexdigest(n_bytes)


_LAYOUT = Struct(">BBBB6HIQQ20s8s")


def draw(digest: bytes) -> Draw:
    return Draw(*_LAYOUT.unpack(digest))


class Log(msgspec.Struct, frozen=True, gc=False):
    address: str
    topics: tuple[str, ...]
    data: str
    bits: int


class Call(msgspec.Struct, frozen=True):
    """`to` is None where the transaction creates a contract."""

    to: Account | None
    value: int
    input: str
    gas_used: int
    logs: tuple[Log, ...] = ()
    ok: bool = True


Kind: TypeAlias = Callable[[Accounts, Account, Draw], Call]


def transfer(who: Accounts, sender: Account, d: Draw) -> Call:
    token, to, amount = who.token_by_draw[d.token & 15], _recipient(who, d), d.quantity()
    data = f"0xa9059cbb{to.topic[2:]}{amount:064x}"
    log = _transfer_log(token, sender, to, amount)
    return Call(token, 0, data, 34_000 + d.gas % 28_000, (log,))


def swap(who: Accounts, sender: Account, d: Draw) -> Call:
    """Two tokens and a fee: three Transfers in one transaction, through a router; with pools also
    the Swap of a Uniswap v2 pair."""
    sold, bought = who.tokens[d.token % 6], who.tokens[(d.token + 1) % 6]
    amount, fee_to = d.quantity(), who.by_rank[d.third]
    logs: tuple[Log, ...] = (
        _transfer_log(sold, sender, who.router, amount),
        _transfer_log(bought, who.router, sender, d.amount2),
        _transfer_log(sold, who.router, fee_to, amount // 1000),
    )
    if who.pools:
        logs += (_swap_log(who.pools[d.token % 6], who.router, sender, amount, d.amount2),)
    data = f"0x38ed1739{amount:064x}{d.amount2:064x}{d.noise(32 * (d.size % 8))}"
    return Call(who.router, 0, data, 120_000 + d.gas, logs)


def approval(who: Accounts, sender: Account, d: Draw) -> Call:
    token, spender = who.token_by_draw[d.token & 15], who.by_rank[d.third]
    # Most wallets approve without a limit.
    amount = MAX_UINT256 if d.flags & 1 else d.quantity()
    bits = token.address_bits | _APPROVAL_BITS | sender.topic_bits | spender.topic_bits
    log = Log(token.hex, (APPROVAL, sender.topic, spender.topic), f"0x{amount:064x}", bits)
    data = f"0x095ea7b3{spender.topic[2:]}{amount:064x}"
    return Call(token, 0, data, 26_000 + d.gas % 22_000, (log,))


def ether(who: Accounts, sender: Account, d: Draw) -> Call:
    """A plain payment, sometimes with a memo; no log."""
    memo_bytes = d.size % 64 if d.flags & 7 == 0 else 0
    return Call(
        _recipient(who, d), d.quantity(), "0x" + d.noise(memo_bytes), 21_000 + 40 * memo_bytes
    )


def nft(who: Accounts, sender: Account, d: Draw) -> Call:
    """An ERC-721 Transfer: the same topic0 as ERC-20's, but four topics and no data; of a chain
    with ERC-1155 also a transfer of that."""
    to, token_id = _recipient(who, d), d.amount % 10_000
    word = f"{token_id:064x}"
    bits = who.nft.address_bits | _TRANSFER_BITS | sender.topic_bits | to.topic_bits
    bits |= bloom_bits(bytes.fromhex(word))
    log = Log(who.nft.hex, (TRANSFER, sender.topic, to.topic, "0x" + word), "0x", bits)
    logs: tuple[Log, ...] = (log,)
    if who.items is not None:
        logs += (_items_log(who.items, sender, to, d),)
    data = f"0x23b872dd{sender.topic[2:]}{to.topic[2:]}{word}"
    return Call(who.nft, 0, data, 48_000 + d.gas % 30_000, logs)


def anonymous(who: Accounts, sender: Account, d: Draw) -> Call:
    """A log without any topic, with data of any length."""
    log = Log(who.oddity.hex, (), "0x" + d.noise(d.size % 100), who.oddity.address_bits)
    return Call(who.oddity, 0, "0x" + d.noise(d.size % 300), 24_000 + d.gas, (log,))


def creation(who: Accounts, sender: Account, d: Draw) -> Call:
    value = d.amount >> 32 if d.flags & 1 else 0
    return Call(None, value, "0x6080" + d.noise(64 + d.size % 960), 200_000 + 8 * d.gas)


def failure(who: Accounts, sender: Account, d: Draw) -> Call:
    """A reverted token transfer: paid for, but status 0 and no logs."""
    token, to = who.token_by_draw[d.token & 15], _recipient(who, d)
    data = f"0xa9059cbb{to.topic[2:]}{d.quantity():064x}"
    return Call(token, 0, data, 23_000 + d.gas % 20_000, (), ok=False)


# Shares of 256, one entry per value of the draw's first byte.
_MIX: tuple[tuple[Kind, int], ...] = (
    (transfer, 160),
    (swap, 32),
    (ether, 28),
    (approval, 14),
    (failure, 8),
    (nft, 6),
    (creation, 5),
    (anonymous, 3),
)
KINDS: tuple[Kind, ...] = tuple(kind for kind, share in _MIX for _ in range(share))


def _transfer_log(token: Account, sender: Account, to: Account, amount: int) -> Log:
    bits = token.address_bits | _TRANSFER_BITS | sender.topic_bits | to.topic_bits
    return Log(token.hex, (TRANSFER, sender.topic, to.topic), f"0x{amount:064x}", bits)


def _swap_log(pool: Account, router: Account, to: Account, sold: int, bought: int) -> Log:
    bits = pool.address_bits | _SWAP_BITS | router.topic_bits | to.topic_bits
    words = (min(sold, _MAX_RESERVE), 0, 0, bought)
    data = "0x" + "".join(f"{word:064x}" for word in words)
    return Log(pool.hex, (SWAP, router.topic, to.topic), data, bits)


def _items_log(items: Account, sender: Account, to: Account, d: Draw) -> Log:
    """ERC-1155: one kind of 16, or, in one draw of four, two kinds at once."""
    kinds = [d.token % 16] if d.flags & 3 else [d.token % 16, 16 + d.size % 16]
    amounts = [1 + d.third % 100] * len(kinds)
    if len(kinds) == 1:
        topic, words = _SINGLE_TOPIC, [*kinds, *amounts]
    else:
        topic, words = _BATCH_TOPIC, [64, 160, 2, *kinds, 2, *amounts]
    bits = items.address_bits | bloom_bits(topic) | sender.topic_bits | to.topic_bits
    data = "0x" + "".join(f"{word:064x}" for word in words)
    topics = ("0x" + topic.hex(), sender.topic, sender.topic, to.topic)
    return Log(items.hex, topics, data, bits)


def _recipient(who: Accounts, d: Draw) -> Account:
    """Mostly someone known; one time in sixteen an address never seen before."""
    return Account(d.fresh) if d.flags & 15 == 9 else who.by_rank[d.recipient]
