"""The types of a contract's ABI, as they are written and as they are hashed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

WORD = 32
# Of one value, whatever the data says: more than any contract has, and little enough to lay out.
_MOST_WORDS = 4_096
_MOST_DEPTH = 16

_ARRAYS = re.compile(r"(?:\[(?:[1-9][0-9]*)?\])+$")
_ONE_ARRAY = re.compile(r"\[([0-9]*)\]")
_NUMBER = re.compile(r"(u?int)([0-9]*)")
_BYTES = re.compile(r"bytes([1-9][0-9]?)")
_FIXED = re.compile(r"u?fixed([0-9]+x[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of one word. `size` is in bits for numbers, in bytes for `bytes`."""

    kind: Literal["uint", "int", "address", "bool", "bytes", "function"]
    size: int = 0

    is_dynamic = False
    words = 1
    least = 1

    def __str__(self) -> str:
        return f"{self.kind}{self.size}" if self.kind in ("uint", "int", "bytes") else self.kind


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes or text of any length."""

    kind: Literal["bytes", "string"]

    is_dynamic = True
    words = 1
    least = 1

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class Array:
    item: Type
    # None: as long as the data says.
    length: int | None

    @property
    def is_dynamic(self) -> bool:
        return self.length is None or self.item.is_dynamic

    @property
    def words(self) -> int:
        """In the head of what it is a part of."""
        return 1 if self.is_dynamic else (self.length or 0) * self.item.words

    @property
    def least(self) -> int:
        """Words that a value has wherever it stands: of a length, or of a fixed number of items."""
        return 1 if self.length is None else self.length * whole_words(self.item)

    def __str__(self) -> str:
        return f"{self.item}[{'' if self.length is None else self.length}]"


@dataclass(frozen=True, slots=True)
class Param:
    """Of an event, a function or a tuple. Without a name in the ABI it has the empty one."""

    name: str
    type: Type
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Tuple:
    members: tuple[Param, ...]

    @property
    def is_dynamic(self) -> bool:
        return any(member.type.is_dynamic for member in self.members)

    @property
    def words(self) -> int:
        return 1 if self.is_dynamic else sum(member.type.words for member in self.members)

    @property
    def least(self) -> int:
        return sum(whole_words(member.type) for member in self.members)

    def __str__(self) -> str:
        return types_of(self.members)


Type = Scalar | Blob | Array | Tuple


def whole_words(kind: Type) -> int:
    """In place, and where its offset points to."""
    return kind.words + (kind.least if kind.is_dynamic else 0)


def types_of(params: tuple[Param, ...]) -> str:
    """As a signature has them, such as `(address,uint256)`."""
    return f"({','.join(str(param.type) for param in params)})"


def parse_type(text: str, members: tuple[Param, ...] | None = None) -> Type:
    """`members` are those of a `tuple`, which JSON lists apart. Raise ValueError for no type."""
    arrays = _ARRAYS.search(text)
    base = text[: arrays.start()] if arrays else text
    found: Type = _base(base, members)
    for depth, length in enumerate(_ONE_ARRAY.findall(arrays[0]) if arrays else []):
        if depth >= _MOST_DEPTH:
            raise ValueError(f"{text[:80]!r} nests arrays more than {_MOST_DEPTH} deep")
        found = Array(found, int(length) if length else None)
        if found.least > _MOST_WORDS:
            raise ValueError(f"{text[:80]!r} has more than {_MOST_WORDS} words")
    return found


def _base(text: str, members: tuple[Param, ...] | None) -> Type:
    if text == "tuple" and members is not None:
        if not members:
            raise ValueError("a tuple has at least one member")
        return Tuple(members)
    if text in ("address", "bool", "function"):
        return Scalar(text)  # type: ignore[arg-type]
    if text in ("bytes", "string"):
        return Blob(text)  # type: ignore[arg-type]
    if (number := _NUMBER.fullmatch(text)) is not None:
        bits = int(number[2] or 256)
        if not (8 <= bits <= 256 and bits % 8 == 0):
            raise ValueError(f"there is no type {text[:80]!r}: widths are 8, 16, … 256")
        return Scalar("uint" if number[1] == "uint" else "int", bits)
    if (sized := _BYTES.fullmatch(text)) is not None and int(sized[1]) <= WORD:
        return Scalar("bytes", int(sized[1]))
    if _FIXED.fullmatch(text):
        raise ValueError(f"{text!r} is not supported: no compiler emits fixed-point numbers")
    raise ValueError(f"there is no type {text[:80]!r}")
