"""Hex text to Arrow columns, a column at a time: one join, one unhexlify.

Every function raises ValueError for text that is not what the column holds. It takes the same
text as `domain.evm_hex`, which reads one value.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Sequence
from itertools import compress, repeat

import numpy as np
import pyarrow as pa

from trace_platform.domain.evm_hex import NOT_A_QUANTITY, NOT_DATA, not_of_size

INT64_MAX = 2**63 - 1
HASH, ADDRESS = 32, 20
_DIGITS = b"0123456789abcdefABCDEF"


def fixed_hex(values: Sequence[str], width: int) -> pa.Array:
    """`0x…` of exactly `width` bytes each."""
    return _binary_array(_unhex_fixed(values, width), np.full(len(values), width, np.int64))


def optional_fixed_hex(values: Sequence[str | None], width: int) -> pa.Array:
    present = np.fromiter((v is not None for v in values), np.bool_, len(values))
    if present.all():
        return fixed_hex([v for v in values if v is not None], width)
    data = _unhex_fixed([v for v in values if v is not None], width)
    return _binary_array(data, present * np.int64(width), present)


def variable_hex(values: Sequence[str]) -> pa.Array:
    """`0x…` of any even length."""
    joined = np.frombuffer(_ascii(values), np.uint8)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    if (lengths < 2).any() or (lengths & 1).any():
        raise ValueError(NOT_DATA)
    starts = np.cumsum(lengths) - lengths
    if (joined[starts] != ord("0")).any() or (joined[starts + 1] != ord("x")).any():
        raise ValueError(NOT_DATA)
    # An x is in a prefix or nowhere (the sizes below tell), so this drops just the prefixes.
    data = _unhex(joined.tobytes().replace(b"0x", b""))
    sizes = lengths // 2 - 1
    if len(data) != sizes.sum():
        raise ValueError(NOT_DATA)
    return _binary_array(data, sizes)


def optional_variable_hex(values: Sequence[str | None]) -> pa.Array:
    present = np.fromiter((v is not None for v in values), np.bool_, len(values))
    found = variable_hex([v for v in values if v is not None])
    if present.all():
        return found
    offsets = np.frombuffer(found.buffers()[1], np.int32)[: len(found) + 1]
    lengths = np.zeros(len(values), np.int64)
    lengths[present] = np.diff(offsets)
    return _binary_array(found.buffers()[2], lengths, present)


def topics(rows: Sequence[Sequence[str]]) -> list[pa.Array]:
    """The four topic columns; a topic that a log does not have is null."""
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    if (counts > 4).any():
        raise ValueError("a log has at most four topics")
    return [_topic(rows, counts, i) for i in range(4)]


def _topic(rows: Sequence[Sequence[str]], counts: np.ndarray, i: int) -> pa.Array:
    present = counts > i
    if present.all():
        return fixed_hex([row[i] for row in rows], HASH)
    data = _unhex_fixed([row[i] for row in compress(rows, present)], HASH)
    return _binary_array(data, present * np.int64(HASH), present)


def quantities(values: Sequence[str]) -> pa.Array:
    """Hex numbers that fit an int64."""
    try:
        return pa.array(np.fromiter(_integers(values), np.int64, len(values)))
    except OverflowError:
        raise ValueError("it does not fit 64 bits") from None
    except ValueError:
        raise ValueError(NOT_A_QUANTITY) from None


def capped(values: Sequence[str | None]) -> pa.Array:
    """Hex numbers or nulls; those above the largest int64 stop there."""
    present = [v for v in values if v is not None]
    if len(present) == len(values):
        try:
            return pa.array(np.fromiter(_integers(present), np.int64, len(present)))
        except (OverflowError, ValueError):
            pass  # too large, or no number at all: the next lines tell
    numbers = iter(integers(present))
    return pa.array(
        [None if v is None else min(next(numbers), INT64_MAX) for v in values], pa.int64()
    )


def integers(values: Sequence[str]) -> list[int]:
    """Hex numbers of any size."""
    try:
        return list(_integers(values))
    except ValueError:
        raise ValueError(NOT_A_QUANTITY) from None


def _integers(values: Sequence[str]) -> Iterator[int]:
    """Nothing but digits and as many x as values: `int` takes an x as the second character of a
    value and nowhere else, so that each has its own."""
    if _ascii(values).translate(None, _DIGITS) != b"x" * len(values):
        raise ValueError(NOT_A_QUANTITY)
    return map(int, values, repeat(16))


def uint256(values: Sequence[str]) -> list[pa.Array]:
    """Binary, decimal text and double of each number."""
    numbers = integers(values)
    try:
        data = b"".join([n.to_bytes(32, "big") for n in numbers])
    except OverflowError:
        raise ValueError("it does not fit 256 bits") from None
    return [
        _binary_array(data, np.full(len(numbers), 32, np.int64)),
        pa.array(list(map(str, numbers)), pa.string()),
        pa.array(np.fromiter(map(float, numbers), np.float64, len(numbers))),
    ]


def flags(values: Sequence[str | None]) -> pa.Array:
    """0x1 or 0x0, or null."""
    numbers = capped(values).to_pylist()
    if not {None, 0, 1}.issuperset(numbers):
        raise ValueError("it is neither 0x0 nor 0x1")
    return pa.array([None if n is None else n == 1 for n in numbers], pa.bool_())


def _ascii(values: Sequence[str]) -> bytes:
    try:
        return "".join(values).encode("ascii")
    except UnicodeEncodeError:
        raise ValueError("hex has no such characters") from None


def _unhex(digits: bytes) -> bytes:
    try:
        return binascii.unhexlify(digits)
    except binascii.Error:
        raise ValueError(NOT_DATA) from None


def _unhex_fixed(values: Sequence[str], width: int) -> bytes:
    joined = np.frombuffer(_ascii(values), np.uint8)
    if len(joined) != len(values) * (2 + 2 * width):
        raise ValueError(not_of_size(width))
    rows = joined.reshape(len(values), 2 + 2 * width)
    # A value of another length shifts the prefixes after it, and unhexlify refuses an x.
    if (rows[:, 0] != ord("0")).any() or (rows[:, 1] != ord("x")).any():
        raise ValueError(not_of_size(width))
    return _unhex(rows[:, 2:].tobytes())


def _binary_array(
    data: bytes | pa.Buffer, lengths: np.ndarray, present: np.ndarray | None = None
) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:], dtype=np.int32)
    valid, nulls = None, 0
    if present is not None:
        valid = pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
        nulls = int(len(present) - present.sum())
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, null_count=nulls)
