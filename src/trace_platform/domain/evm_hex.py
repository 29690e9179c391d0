"""Numbers and bytes as nodes write them in JSON: `0x` and hexadecimal digits, and nothing else.

Python reads more than that: `int(text, 16)` takes decimal digits without 0x, signs, underscores,
spaces and the digits of every script, `bytes.fromhex` takes spaces. Each would be another value
than the node meant. Leading zeros are allowed, since several chains pad their numbers with them.
"""

from __future__ import annotations

import re

_QUANTITY = re.compile(r"0x[0-9a-fA-F]+").fullmatch
_DATA = re.compile(r"0x(?:[0-9a-fA-F]{2})*").fullmatch
_SHOWN_CHARS = 80

NOT_A_QUANTITY = "a number is 0x and hexadecimal digits"
NOT_DATA = "bytes are 0x and an even number of hexadecimal digits"


def quantity(said: object, field: str) -> int:
    """A number of any size. Raise ValueError with the field's name and what was sent."""
    if not isinstance(said, str) or not _QUANTITY(said):
        raise ValueError(f"{field} is {shown(said)}: {NOT_A_QUANTITY}")
    return int(said, 16)


def data(said: object, field: str, size: int | None = None) -> bytes:
    """Bytes, `size` of them where it is given. Raise ValueError likewise."""
    if not isinstance(said, str) or not _DATA(said):
        raise ValueError(f"{field} is {shown(said)}: {NOT_DATA}")
    if size is not None and len(said) != 2 + 2 * size:
        raise ValueError(f"{field} is {shown(said)}: {not_of_size(size)}")
    return bytes.fromhex(said[2:])


def not_of_size(size: int) -> str:
    return f"it is not {size} bytes of hex"


def shown(said: object) -> str:
    """What a node sent, on one line and not too long."""
    text = ascii(said)
    if len(text) <= _SHOWN_CHARS:
        return text
    return f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"
