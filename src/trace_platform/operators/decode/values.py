"""ABI-encoded data to Arrow columns: many rows at once, strictly.

A row whose data is not exactly what its types say is told by its reason and decoded no further;
the others are not touched by it. Positions are absolute in one buffer that holds all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trace_platform.operators.decode import numbers
from trace_platform.operators.decode.abi_type import (
    WORD,
    Array,
    Blob,
    Scalar,
    Tuple,
    Type,
    whole_words,
)
from trace_platform.operators.decode.layout import Laid, is_hashed, is_wide, laid_out, parts_of
from trace_platform.operators.decode.numbers import Flags, Ints, Words

Bytes: TypeAlias = "npt.NDArray[np.uint8]"

# Parts of the data may be pointed at more than once. So many times over: then it is no data but
# an attempt to fill the memory.
_MOST_TIMES = 8


class Reason(IntEnum):
    """Why a row was not decoded."""

    data_length = 1
    dirty_padding = 2
    bad_offset = 3
    bad_length = 4
    not_utf8 = 5
    too_large = 6
    topic_length = 7


@dataclass(frozen=True, slots=True)
class At:
    """Where values of one type begin. A dynamic value is found by its offset from `frame`, behind
    all that lies in place there: not before `body`."""

    position: Ints
    frame: Ints
    body: Ints
    # Of all its row's data.
    end: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.position)

    def moved(self, to: Ints) -> At:
        return At(to, self.frame, self.body, self.end, self.row)


class Decoder:
    """Of `data`, a value of bytes per row. After `params`, `reasons` is 0 where all was right."""

    def __init__(self, data: pa.Array, *, skip: int = 0) -> None:
        """`skip` bytes of each row come before the data: a selector."""
        rows, starts, ends = _buffers(data)
        # What is read beyond its row, before that is found out, is zeros.
        self._bytes = np.concatenate([rows, np.zeros(2 * WORD, np.uint8)])
        self._zeros = len(rows)
        self._windows = np.ndarray(
            (len(self._bytes) - WORD + 1,), np.dtype("V32"), self._bytes, strides=(1,)
        )
        self.reasons = np.zeros(len(data), np.uint8)
        self._starts, self._ends = starts + skip, ends
        self._all = np.arange(len(data), dtype=np.int64)
        self._left = (np.maximum(self._ends - self._starts, 0) // WORD + 1) * _MOST_TIMES
        self._furthest = self._starts.copy()

    def params(self, laid: Sequence[Laid], *, may_be_longer: bool = False) -> list[pa.Array]:
        """The columns of values that follow each other. Data that goes on behind the last of them
        is no fault where it `may_be_longer`."""
        size = self._ends - self._starts
        needed = WORD * sum(each.param.type.words for each in laid)
        is_dynamic = any(each.param.type.is_dynamic for each in laid)
        exact = not (is_dynamic or may_be_longer)
        self._fail(self._all, (size != needed) if exact else (size < needed), Reason.data_length)
        at = At(self._starts, self._starts, self._starts, self._ends, self._all)
        columns = self._members(laid, at)
        if is_dynamic and not may_be_longer:
            self._fail(self._all, self._furthest != self._ends, Reason.data_length)
        return columns

    def _fail(self, rows: Ints, wrong: Flags, reason: Reason) -> None:
        """The first reason stays."""
        if wrong.any():
            failed = rows[wrong]
            self.reasons[failed[self.reasons[failed] == 0]] = reason

    def _members(self, laid: Sequence[Laid], whole: At) -> list[pa.Array]:
        """Offsets count from where the members begin."""
        begin = whole.position
        size = WORD * sum(each.param.type.words for each in laid)
        at = At(begin, begin, begin + size, whole.end, whole.row)
        columns: list[pa.Array] = []
        before = 0
        for each in laid:
            columns += self._value(each.param.type, at.moved(begin + before))
            before += WORD * each.param.type.words
        return columns

    def _value(self, kind: Type, at: At) -> list[pa.Array]:
        if kind.is_dynamic:
            at = self._tail(at)
        match kind:
            case Scalar():
                return self._scalar(kind, at)
            case Blob():
                return [self._blob(kind, at)]
            case Array():
                return self._array(kind, at)
            case Tuple():
                laid = laid_out(kind.members)
                fields = [field for member in laid for field in member.columns]
                return [pa.StructArray.from_arrays(self._members(laid, at), fields=fields)]

    def _scalar(self, kind: Scalar, at: At) -> list[pa.Array]:
        columns, dirty = scalar(kind, self._words(at))
        self._fail(at.row, dirty, Reason.dirty_padding)
        return columns

    def _tail(self, at: At) -> At:
        """Where the offset that stands in place points to."""
        offset = self._count(at)
        tail = at.frame + offset
        wrong = (offset < 0) | (tail < at.body) | (tail > at.end - WORD)
        self._fail(at.row, wrong, Reason.bad_offset)
        return at.moved(np.where(wrong, at.end, tail))

    def _blob(self, kind: Blob, at: At) -> pa.Array:
        length, padded = self._length(at)
        begin = at.position + WORD
        rest = length % WORD
        last = self._words(at.moved(begin + padded - WORD), sure=rest > 0)
        behind = np.arange(WORD)[None, :] >= rest[:, None]
        dirty = (rest > 0) & ((last != 0) & behind).any(axis=1)
        self._fail(at.row, dirty, Reason.dirty_padding)
        self._see(at, begin + padded)
        offsets = _offsets(length)
        values = self._bytes[_spread(begin, length, offsets)]
        if kind.kind == "bytes":
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
            return pa.Array.from_buffers(pa.binary(), len(at), buffers)
        return self._text(values, offsets, at)

    def _text(self, values: Bytes, offsets: npt.NDArray[np.int32], at: At) -> pa.Array:
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
        text = pa.Array.from_buffers(pa.string(), len(at), buffers)
        try:
            text.validate(full=True)
        except pa.ArrowInvalid:
            wrong = _not_utf8(pa.Array.from_buffers(pa.binary(), len(at), buffers))
            self._fail(at.row, wrong, Reason.not_utf8)
            return _without(text, wrong)
        return text

    def _length(self, at: At) -> tuple[Ints, Ints]:
        """Of bytes that follow, and how many words they fill; none where it is wrong."""
        length = self._count(at)
        room = at.end - at.position - WORD
        wrong = (length < 0) | (length > room)
        length = np.where(wrong, 0, length)
        padded = -(-length // WORD) * WORD
        wrong |= padded > room
        self._fail(at.row, wrong, Reason.bad_length)
        length = self._afford(at, length, -(-length // WORD))
        return length, -(-length // WORD) * WORD

    def _array(self, kind: Array, at: At) -> list[pa.Array]:
        if kind.length is None:
            count, begin = self._count(at), at.position + WORD
        else:
            count, begin = np.full(len(at), kind.length, np.int64), at.position
        size = WORD * kind.item.words
        wrong = (count < 0) | (count > (at.end - begin) // size)
        self._fail(at.row, wrong, Reason.bad_length)
        count = np.where(wrong, 0, count)
        # A fixed number of items was paid for by what they are a part of.
        words = whole_words(kind.item) if kind.length is None else 0
        count = self._afford(at, count, count * words)
        offsets = _offsets(count)
        parent = np.repeat(np.arange(len(at)), count)
        nth = np.arange(len(parent)) - offsets[:-1].astype(np.int64)[parent]
        first = begin[parent]
        body = first + count[parent] * size
        items = At(first + nth * size, first, body, at.end[parent], at.row[parent])
        columns = self._value(kind.item, items)
        kinds = [part for _, part in parts_of(kind)]
        return [
            pa.ListArray.from_arrays(pa.array(offsets), column, type=part)
            for column, part in zip(columns, kinds, strict=True)
        ]

    def _afford(self, at: At, count: Ints, words: Ints) -> Ints:
        """None of a row that failed, or points at its data too often."""
        if at.row is self._all:
            self._left -= words
        else:
            np.subtract.at(self._left, at.row, words)
        self._fail(at.row, self._left[at.row] < 0, Reason.too_large)
        return np.where(self.reasons[at.row] == 0, count, 0)

    def _count(self, at: At) -> Ints:
        """A word as an offset or a length; -1 where no data is as large."""
        words = self._words(at)
        low = np.ascontiguousarray(words[:, 28:]).view(">u4").astype(np.int64).ravel()
        return np.where(_set_in(words, 0, 28) | (low > 2**31), -1, low)

    def _words(self, at: At, sure: Flags | None = None) -> Words:
        """What stands there; zeros, and a failed row, where its data has ended."""
        beyond = at.position + WORD > at.end
        if sure is None:
            self._fail(at.row, beyond, Reason.data_length)
            self._see(at, at.position + WORD)
        else:
            beyond |= ~sure
        position = np.where(beyond, self._zeros, at.position) if beyond.any() else at.position
        found: Words = self._windows[position].view(np.uint8).reshape(-1, WORD)
        return found

    def _see(self, at: At, until: Ints) -> None:
        """How far into its data each row was read."""
        if at.row is self._all:
            np.maximum(self._furthest, until, out=self._furthest)
        else:
            np.maximum.at(self._furthest, at.row, until)


def topic_columns(laid: Laid, topic: pa.Array) -> tuple[list[pa.Array], npt.NDArray[np.uint8]]:
    """Of an indexed parameter, with the reasons of its rows."""
    rows, starts, ends = _buffers(topic)
    short = ends - starts != WORD
    if short.any():
        filled = np.zeros((len(topic), WORD), np.uint8)
        spread = starts[~short][:, None] + np.arange(WORD)
        filled[~short] = rows[spread]
        words = filled
    else:
        words = rows[int(starts[0]) : int(ends[-1])].reshape(-1, WORD) if len(topic) else _NO_WORDS
    reasons = np.where(short, np.uint8(Reason.topic_length), np.uint8(0))
    if is_hashed(laid.param.type):
        return [numbers.fixed_binary(words)], reasons
    assert isinstance(laid.param.type, Scalar)
    columns, dirty = scalar(laid.param.type, words)
    reasons[dirty & (reasons == 0)] = Reason.dirty_padding
    return columns, reasons


def scalar(kind: Scalar, words: Words) -> tuple[list[pa.Array], Flags]:
    """The columns of one-word values, and where a word has bits that its type does not."""
    if is_wide(kind):
        return list(numbers.wide(words, signed=kind.kind == "int")), _dirty(kind, words)
    match kind.kind:
        case "uint" | "int":
            signed = kind.kind == "int"
            small = numbers.is_small(kind.size, signed=signed)
            column = numbers.int64s(words) if small else numbers.uint64s(words)
        case "address":
            column = numbers.fixed_binary(words[:, 12:])
        case "bool":
            column = pa.array(words[:, -1] == 1)
        case "bytes":
            column = numbers.fixed_binary(words[:, : kind.size])
        case "function":
            column = numbers.fixed_binary(words[:, :24])
    return [column], _dirty(kind, words)


def _dirty(kind: Scalar, words: Words) -> Flags:
    match kind.kind:
        case "uint":
            return _set_in(words, 0, WORD - kind.size // 8)
        case "int":
            return _unlike_sign(words, WORD - kind.size // 8)
        case "address":
            return _set_in(words, 0, 12)
        case "bool":
            return _set_in(words, 0, WORD - 1) | (words[:, -1] > 1)
        case "bytes":
            return _set_in(words, kind.size, WORD)
        case "function":
            return _set_in(words, 24, WORD)


def _set_in(words: Words, first: int, last: int) -> Flags:
    """Where a byte from `first` up to `last` is not zero."""
    found: Flags = _masked(numbers.plain_limbs(words), first, last) != 0
    return found


def _unlike_sign(words: Words, value: int) -> Flags:
    """Where what comes before the value's first byte does not repeat its sign."""
    if value == 0:
        return np.zeros(len(words), np.bool_)
    negative = words[:, value] >= 0x80
    sign = np.where(negative, np.uint64(2**64 - 1), np.uint64(0))
    found: Flags = _masked(numbers.plain_limbs(words) ^ sign[:, None], 0, value) != 0
    return found


def _masked(limbs: npt.NDArray[np.uint64], first: int, last: int) -> npt.NDArray[np.uint64]:
    """All the bits that are set from one byte up to another. Eight bytes at a time: a look at each
    byte takes ten times as long."""
    mask = bytes(0xFF if first <= place < last else 0 for place in range(WORD))
    found = np.zeros(len(limbs), np.uint64)
    for place, part in enumerate(np.frombuffer(mask, np.uint64)):
        if part:
            found |= limbs[:, place] & part
    return found


def _buffers(values: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """All bytes, and where each row's begin and end. A null has none."""
    if pa.types.is_large_binary(values.type):
        values = values.cast(pa.binary())
    if len(values) == 0:
        nothing = np.zeros(0, np.int64)
        return np.zeros(0, np.uint8), nothing, nothing
    _, offset_buffer, data = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[
        values.offset : values.offset + len(values) + 1
    ]
    held = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    first, last = int(offsets[0]), int(offsets[-1])
    within = offsets.astype(np.int64) - first
    return held[first:last], within[:-1], within[1:]


def _offsets(counts: Ints) -> npt.NDArray[np.int32]:
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    if found[-1] >= 2**31:
        raise OverflowError("one batch of rows has more than 2^31 values: read smaller batches")
    return found.astype(np.int32)


def _spread(begin: Ints, length: Ints, offsets: npt.NDArray[np.int32]) -> Ints:
    """The place of every byte of values that lie here and there."""
    return np.repeat(begin - offsets[:-1], length) + np.arange(int(offsets[-1]))


def _not_utf8(values: pa.Array) -> Flags:
    """Only looked at where some text of the batch is wrong."""
    return np.fromiter((not _is_utf8(each) for each in values.to_pylist()), np.bool_, len(values))


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without(text: pa.Array, wrong: Flags) -> pa.Array:
    """Empty where it is wrong."""
    return pa.array(
        ["" if bad else each for each, bad in zip(_texts(text), wrong, strict=True)], pa.string()
    )


def _texts(text: pa.Array) -> list[str]:
    raw = text.cast(pa.binary()).to_pylist()
    return [each.decode(errors="replace") for each in raw]


_NO_WORDS: Words = np.zeros((0, WORD), np.uint8)
