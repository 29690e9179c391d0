"""A block's header as a node tells it, and the hash that it must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from msgspec import field

from trace_platform.domain.evm_encoding import encoded, keccak256
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
_DIGITS = b"0123456789abcdefABCDEF"


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
    told = [text for text in texts if text is not None]
    if None in texts[: len(_ALWAYS)] or not _is_hex(told):
        raise _unreadable(texts)
    try:
        items = [read(text) for read, text in zip(_READERS, texts, strict=True) if text is not None]
    except ValueError:
        raise _unreadable(texts) from None
    return keccak256(encoded(items))


def _is_hex(texts: Sequence[str]) -> bool:
    """An x each, and digits beside. `int` and `fromhex` see to the x being in its place."""
    return "".join(texts).encode().translate(None, _DIGITS) == b"x" * len(texts)


def _number(text: str) -> int:
    return int(text, 16)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


_texts: Callable[[HashedBlock], tuple[str | None, ...]] = attrgetter(
    *(name for name, _ in (*_ALWAYS, *_SINCE))
)
_READERS = tuple(_number if is_number else _bytes for _, is_number in (*_ALWAYS, *_SINCE))


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
