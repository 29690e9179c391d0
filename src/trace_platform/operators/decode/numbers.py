"""Words of 32 bytes to Arrow columns of numbers: exact, and without a loop over rows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# So many rows of 32 bytes each.
Words: TypeAlias = "npt.NDArray[np.uint8]"
Ints: TypeAlias = "npt.NDArray[np.int64]"
Flags: TypeAlias = "npt.NDArray[np.bool_]"
# Of 64 bits each, the most significant first: four to a word.
Limbs: TypeAlias = "npt.NDArray[np.uint64]"

_INT64_BITS = 63
_LIMBS = 4
# A remainder below it and 32 more bits fit 64 bits.
_BASE, _BASE_DIGITS = 10**8, 8
_U64 = np.uint64
_DIGITS = np.frombuffer("".join(f"{n:04}" for n in range(10_000)).encode(), np.uint8).reshape(
    10_000, 4
)


def limbs(words: Words) -> Limbs:
    return np.ascontiguousarray(words).view(">u8").astype(_U64)


def plain_limbs(words: Words) -> Limbs:
    """In the machine's order of bytes: to look at bits, not to count."""
    return np.ascontiguousarray(words).view(_U64)


def is_small(bits: int, *, signed: bool) -> bool:
    """Whether every number of so many bits is an int64."""
    return bits <= _INT64_BITS + signed


def int64s(words: Words) -> pa.Array:
    low = np.ascontiguousarray(words[:, 24:]).view(">i8").astype(np.int64)
    return pa.array(low.ravel())


def uint64s(words: Words) -> pa.Array:
    """As decimal(20, 0): Spark has no unsigned integers."""
    pairs = np.zeros((len(words), 2), np.uint64)
    pairs[:, 0] = np.ascontiguousarray(words[:, 24:]).view(">u8").ravel()
    buffers = [None, pa.py_buffer(pairs)]
    return pa.Array.from_buffers(pa.decimal128(20, 0), len(words), buffers)


def wide(words: Words, *, signed: bool) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Binary of 32 bytes, decimal text, and the nearest double."""
    values, top = limbs(words), words[:, 0] >= 0x80
    texts = decimal_texts(values, beyond=top if not signed else np.zeros_like(top))
    negative = top if signed else np.zeros_like(top)
    if negative.any():
        values[negative] = _negated(values[negative])
    doubles = nearest_doubles(values)
    doubles[negative] *= -1
    return fixed_binary(words), texts, pa.array(doubles)


def fixed_binary(values: npt.NDArray[np.uint8]) -> pa.Array:
    """Each row of bytes as one value."""
    n, width = values.shape
    offsets = np.arange(n + 1, dtype=np.int32) * np.int32(width)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), data])


def decimal_texts(values: Limbs, *, beyond: Flags) -> pa.Array:
    """Decimal digits. Arrow writes numbers of 256 bits that have a sign, in two's complement;
    `beyond` are those of 2^255 and more, which it would take for negative ones."""
    little = np.ascontiguousarray(values[:, ::-1])
    buffers = [None, pa.py_buffer(little)]
    signed = pa.Array.from_buffers(pa.decimal256(76, 0), len(values), buffers)
    texts = signed.cast(pa.string())
    if not beyond.any():
        return texts
    return pc.replace_with_mask(texts, pa.array(beyond), _texts(_divided(values[beyond])))


def nearest_doubles(values: Limbs) -> npt.NDArray[np.float64]:
    """Rounded once, to even, as Python rounds an integer."""
    rows = np.arange(len(values))
    top = np.argmax(values != 0, axis=1)
    # 64 bits that begin with the first one that is set, and whether any is set below them.
    padded = np.concatenate([values, np.zeros((len(values), 1), _U64)], axis=1)
    high, low = padded[rows, top], padded[rows, top + 1]
    shift = _U64(64) - _bit_lengths(high)
    shift[high == 0] = 0
    split = shift > 0
    mantissa = high << shift
    # A shift by 64 is undefined.
    mantissa[split] |= low[split] >> (_U64(64) - shift[split])
    later = np.arange(_LIMBS + 1)[None, :] > (top + 1)[:, None]
    below = (low << shift) != 0
    below |= np.bitwise_or.reduce(np.where(later, padded, _U64(0)), axis=1) != 0
    mantissa |= below.astype(_U64)
    exponent = 64 * (_LIMBS - 1 - top) - shift.astype(np.int64)
    found: npt.NDArray[np.float64] = np.ldexp(mantissa.astype(np.float64), exponent)
    return found


def _negated(values: Limbs) -> Limbs:
    """Of two's complement: a carry passes a limb of zeros."""
    found = ~values
    carry = np.ones(len(values), np.bool_)
    for place in range(_LIMBS - 1, -1, -1):
        found[:, place] += carry
        carry &= found[:, place] == 0
    return found


def _bit_lengths(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Of halves: a double holds 32 bits exactly."""
    high = values >> _U64(32)
    half = np.where(high != 0, high, values & _U64(0xFFFFFFFF))
    _, exponents = np.frexp(half.astype(np.float64))
    return (exponents + np.where(high != 0, 32, 0)).astype(_U64)


def _texts(groups: npt.NDArray[np.uint64]) -> pa.Array:
    """Of groups of digits, without the zeros before a number."""
    text = np.empty((len(groups), groups.shape[1] * _BASE_DIGITS), np.uint8)
    high, low = np.divmod(groups, _U64(10_000))
    body = text.reshape(len(groups), groups.shape[1], _BASE_DIGITS)
    body[:, :, :4] = _DIGITS[high]
    body[:, :, 4:] = _DIGITS[low]
    shown = np.logical_or.accumulate(text != ord("0"), axis=1)
    offsets = np.zeros(len(groups) + 1, np.int32)
    np.cumsum(shown.sum(axis=1), out=offsets[1:], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text[shown])]
    return pa.Array.from_buffers(pa.string(), len(groups), buffers)


def _divided(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Groups of eight digits, the most significant first, as many as the largest number needs:
    long division by the base, over halves of limbs, until nothing is left."""
    halves = np.empty((2 * values.shape[1], len(values)), _U64)
    halves[0::2] = (values >> _U64(32)).T
    halves[1::2] = (values & _U64(0xFFFFFFFF)).T
    groups: list[npt.NDArray[np.uint64]] = []
    first = 0
    base = _U64(_BASE)
    while True:
        while first < len(halves) and not halves[first].any():
            first += 1
        if first == len(halves):
            break
        rest = np.zeros(len(values), _U64)
        for half in halves[first:]:
            dividend = (rest << _U64(32)) | half
            np.floor_divide(dividend, base, out=half)
            rest = dividend - half * base
        groups.append(rest)
    return np.stack(groups[::-1], axis=1)
