"""A block's header as a node tells it, and the hash that it must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from msgspec import field

from trace_platform.domain.evm_encoding import joined, keccak256, length_of_bytes
from trace_platform.domain.evm_hex import data, quantity
from trace_platform.operators.evm.payload import Block
from trace_platform.operators.evm_header.envelope import SignedTransaction

# In the order in which they are hashed; a number where True.
_ALWAYS = (
    *(("parent_hash", False), ("uncles_hash", False), ("miner", False), ("state_root", False)),
    *(("transactions_root", False), ("receipts_root", False), ("logs_bloom", False)),
    *(("difficulty", True), ("number", True), ("gas_limit", True), ("gas_used", True)),
    *(("timestamp", True), ("extra_data", False), ("mix_hash", False), ("nonce", False)),
)
# Each came with a fork, after those before it.
_SINCE = (
    ("base_fee", True),  # London
    ("withdrawals_root", False),  # Shanghai
    ("blob_gas_used", True),  # Cancun
    ("excess_blob_gas", True),
    ("parent_beacon_root", False),
    ("requests_hash", False),  # Prague
)


class HashedBlock(Block, gc=False, kw_only=True):
    """A block with what its hash is made of, besides the columns."""

    uncles_hash: str = field(name="sha3Uncles")
    difficulty: str
    mix_hash: str = field(name="mixHash")
    nonce: str
    parent_beacon_root: str | None = field(name="parentBeaconBlockRoot", default=None)
    requests_hash: str | None = field(name="requestsHash", default=None)


class ProvableBlock(HashedBlock, gc=False, kw_only=True):
    """And with what the transactions root is made of."""

    transactions: Sequence[SignedTransaction]


def header_hash(header: HashedBlock) -> bytes:
    """Raise ValueError for what is missing or no hex."""
    texts = _texts(header)
    if None in texts[: len(_ALWAYS)]:
        raise _unreadable(texts)
    # Encoded as the hex that the node told: half the time of reading it to numbers and bytes first.
    try:
        hex_of_items = "".join(
            [write(text) for write, text in zip(_WRITERS, texts, strict=True) if text is not None]
        )
        items = bytes.fromhex(hex_of_items)
    except ValueError:
        raise _unreadable(texts) from None
    if 2 * len(items) != len(hex_of_items):  # `fromhex` passes over blanks.
        raise _unreadable(texts)
    return keccak256(joined([items]))


def _number_item(text: str) -> str:
    """A number as an item of the list, in hex: big endian and as short as can be."""
    if text[:2] != "0x" or len(text) == len("0x"):
        raise ValueError(text)
    digits = text[2:].lstrip("0")
    if len(digits) % 2:
        digits = "0" + digits
    return digits if len(digits) == 2 and digits < "80" else _BEFORE[len(digits)] + digits


def _bytes_item(text: str) -> str:
    digits = text[2:]
    if text[:2] != "0x" or len(digits) % 2:
        raise ValueError(text)
    return digits if len(digits) == 2 and digits < "80" else _BEFORE[len(digits)] + digits


class _Before(dict[int, str]):
    """What stands before an item of so many hex digits."""

    def __missing__(self, digits: int) -> str:
        before = length_of_bytes(digits // 2).hex()
        return self.setdefault(digits, before) if digits <= _KEPT_DIGITS else before


# Longer items are no header's: a node that sends them fills no memory.
_KEPT_DIGITS = 2 * 1024
_BEFORE = _Before()


_texts: Callable[[HashedBlock], tuple[str | None, ...]] = attrgetter(
    *(name for name, _ in (*_ALWAYS, *_SINCE))
)
_WRITERS = tuple(_number_item if is_number else _bytes_item for _, is_number in (*_ALWAYS, *_SINCE))


def _unreadable(texts: Sequence[str | None]) -> ValueError:
    """Names the first field that cannot be hashed."""
    for (name, is_number), text in zip((*_ALWAYS, *_SINCE), texts, strict=True):
        try:
            if text is not None:
                quantity(text, name) if is_number else data(text, name)
            elif (name, is_number) in _ALWAYS:
                return ValueError(f"{name} is missing in a header")
        except ValueError as error:
            return error
    return ValueError("a field of a header is no hex")
