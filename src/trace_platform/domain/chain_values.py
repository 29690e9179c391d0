"""Values of chains between bytes, numbers and text: what DuckDB and Spark both compute with.

Integers are decimal text, which every engine has: a uint256 fits no integer of theirs.
"""

from __future__ import annotations

import re

from trace_platform.domain.evm_encoding import keccak256

_HEX = re.compile("[0-9a-fA-F]*")
_WHOLE = re.compile("-?[0-9]+")
_WORD_BYTES = 32
_ADDRESS_BYTES = 20
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
# As types are hashed: each with its width. `#` stands for a tuple.
_ARRAY = r"(?:\[[0-9]*\])*"
_TYPE = rf"(?:#|address|bool|string|function|bytes[0-9]*|u?int[0-9]+|u?fixed[0-9]+x[0-9]+){_ARRAY}"
_TUPLE = re.compile(rf"\((?:{_TYPE}(?:,{_TYPE})*)?\)")
_MOST_SIGNATURE_CHARS = 2_000
# Of a DECIMAL(38, 18), before the point.
_MOST_UNITS_DIGITS = 20
# Of an operand: the square of a uint256 has 155 digits.
_MOST_DIGITS = 1_000


def unhexed(text: str) -> bytes:
    """With 0x or without. An odd digit stands for a whole byte, as in DuckDB."""
    digits = text[2:] if text[:2] in ("0x", "0X") else text
    if not _HEX.fullmatch(digits):
        raise ValueError(f"{text[:80]!r} is no hex")
    return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")


def checksum_address(address: bytes) -> str:
    """EIP-55: a digit is a capital where the hash of the text says so."""
    if len(address) != _ADDRESS_BYTES:
        raise ValueError(f"an address has {_ADDRESS_BYTES} bytes, this has {len(address)}")
    digits = address.hex()
    hashed = keccak256(digits.encode()).hex()
    shown = (c.upper() if h >= "8" else c for c, h in zip(digits, hashed, strict=False))
    return "0x" + "".join(shown)


def signature(text: str) -> str:
    """Of a function or an event. Raise ValueError for one that no contract has: its hash would be
    another one, and find nothing."""
    name, opened, types = text[: _MOST_SIGNATURE_CHARS + 1].partition("(")
    shape, before = opened + types, ""
    while shape != before:
        shape, before = _TUPLE.sub("#", shape), shape
    if not _NAME.fullmatch(name) or shape != "#" or len(text) > _MOST_SIGNATURE_CHARS:
        raise ValueError(
            f"{text[:80]!r} is no signature: write it as 'transfer(address,uint256)', types alone,"
            " without spaces; uint is uint256"
        )
    return text


def unsigned(data: bytes) -> str:
    return str(int.from_bytes(_narrow(data), "big"))


def signed(data: bytes) -> str:
    return str(int.from_bytes(_narrow(data), "big", signed=True))


def _narrow(data: bytes) -> bytes:
    if len(data) > _WORD_BYTES:
        raise ValueError(
            f"a number has up to {_WORD_BYTES} bytes, this has {len(data)}: data[1:32]"
        )
    return data


def word(digits: str) -> bytes:
    """Of 32 bytes. Raise ValueError for what is no uint256."""
    number = _integer(digits)
    if not 0 <= number < 1 << (8 * _WORD_BYTES):
        raise ValueError(f"{digits} is no uint256")
    return number.to_bytes(_WORD_BYTES, "big")


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"an integer has up to {_MOST_DIGITS} digits here")
    if not _WHOLE.fullmatch(digits):
        raise ValueError(f"{digits[:80]!r} is no whole number")
    return int(digits)


def whole(digits: str) -> str:
    """The same number, of which nothing was rounded away."""
    return str(_integer(digits))


def product(a: str, b: str) -> str:
    return str(_integer(a) * _integer(b))


def quotient(a: str, b: str) -> str | None:
    """Toward zero, and null of a division by zero, as DuckDB's // does."""
    dividend, divisor = _integer(a), _integer(b)
    if divisor == 0:
        return None
    quotient = abs(dividend) // abs(divisor)
    return str(quotient if (dividend < 0) == (divisor < 0) else -quotient)


def remainder(a: str, b: str) -> str | None:
    dividend, divisor = _integer(a), _integer(b)
    if divisor == 0:
        return None
    remainder = abs(dividend) % abs(divisor)
    return str(-remainder if dividend < 0 else remainder)


def in_units(digits: str, decimals: int) -> str:
    """With the point set so many digits from the end. What a DECIMAL(38, 18) does not hold, or
    would round, is refused."""
    number = _integer(digits)
    if not 0 <= decimals <= 77:
        raise ValueError(f"a token has 0 to 77 decimals, not {decimals}")
    if abs(number) >= 10 ** (_MOST_UNITS_DIGITS + decimals):
        raise ValueError(
            f"{digits[:80]} in units of 10^{decimals} has more than {_MOST_UNITS_DIGITS} digits"
            f" before the point: div_exact(…, '1{'0' * decimals}') is exact without those behind it"
        )
    whole, part = divmod(abs(number), 10**decimals)
    shown = f"{part:0{decimals}d}".rstrip("0") if part else ""
    if len(shown) > 18:
        raise ValueError(f"{digits} in units of 10^{decimals} has more than 18 decimals")
    return f"{'-' if number < 0 else ''}{whole}.{shown or '0'}"
