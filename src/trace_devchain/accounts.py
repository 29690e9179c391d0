"""Who takes part: a fixed population of addresses, few of them hot, and the token contracts."""

from __future__ import annotations

from hashlib import blake2b

from trace_platform.domain.evm_encoding import bloom_bits

POPULATION = 6_000
# One slot per value of an unsigned 16-bit draw.
_SLOTS = 1 << 16


class Account:
    """An address in the spellings that blocks need, with its bloom bits computed once."""

    __slots__ = ("_address_bits", "_topic_bits", "hex", "raw", "topic")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        digits = raw.hex()
        self.hex = "0x" + digits
        self.topic = "0x" + "0" * 24 + digits
        self._address_bits = 0
        self._topic_bits = 0

    @property
    def address_bits(self) -> int:
        if not self._address_bits:
            self._address_bits = bloom_bits(self.raw)
        return self._address_bits

    @property
    def topic_bits(self) -> int:
        if not self._topic_bits:
            self._topic_bits = bloom_bits(bytes(12) + self.raw)
        return self._topic_bits


class Accounts:
    """The population of one chain. `by_rank` maps a 16-bit draw to an account, Zipf-like."""

    def __init__(self, key: bytes, *, pools: bool = False, items: bool = False) -> None:
        people = [Account(_address(key, b"person", n)) for n in range(POPULATION)]
        self.by_rank = [people[rank] for rank in zipf_slots(POPULATION)]
        self.tokens = [Account(_address(key, b"token", n)) for n in range(6)]
        # The first tokens carry most of the traffic; 16 entries, one per 4-bit draw.
        self.token_by_draw = [
            self.tokens[n] for n in (0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 5)
        ]
        self.nft = Account(_address(key, b"nft", 0))
        self.router = Account(_address(key, b"router", 0))
        self.oddity = Account(_address(key, b"oddity", 0))
        self.proposers = [Account(_address(key, b"proposer", n)) for n in range(16)]
        # Of each token and the next one; none where swaps are transfers and nothing else.
        self.pools = [Account(_address(key, b"pool", n)) for n in range(6)] if pools else []
        # A contract of ERC-1155; none where NFTs are those of ERC-721 and no others.
        self.items = Account(_address(key, b"items", 0)) if items else None
        self.nobody = Account(bytes(20))


def zipf_slots(population: int) -> list[int]:
    """A 65,536-entry table in which rank r fills a share of slots proportional to 1/(r+1).

    Integers only, so that every machine builds the same table; every rank has at least one slot.
    """
    weights = [(1 << 32) // (rank + 1) for rank in range(population)]
    total = sum(weights)
    spare = _SLOTS - population
    slots = [rank for rank, w in enumerate(weights) for _ in range(1 + spare * w // total)]
    return slots + [0] * (_SLOTS - len(slots))


def _address(key: bytes, role: bytes, n: int) -> bytes:
    return blake2b(role + n.to_bytes(4, "big"), digest_size=20, key=key).digest()
