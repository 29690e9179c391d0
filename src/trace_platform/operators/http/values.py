"""Values of JSON and CSV as the types of columns: exactly, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from trace_platform.operators.files.columns import bytes_of, known_type

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
# Python would leave these digits out.
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_MOST_FLOAT32 = 3.4028235e38
_MOST_FLOAT64 = 1.7976931348623157e308
# Nothing that fits a column is rounded.
_EXACT = Context(prec=1_000)

Fit = Callable[[Any], Any]


class Misfit(Exception):
    """A value that a column cannot hold; the text says what it is, without the value."""


def schema_of(types: Mapping[str, str]) -> pa.Schema:
    return pa.schema([(name, _arrow(known_type(kind))) for name, kind in types.items()])


def fit_of(declared: str) -> Fit:
    """What makes a value one of this type, or raises Misfit. Null stays null."""
    kind = known_type(declared)
    fit = _fit(kind, bytes_of(declared))

    def fitted(value: Any) -> Any:
        return None if value is None else fit(value)

    return fitted


def inferred(values: Iterable[Any]) -> str:
    """The type of a column that nobody has declared, by all of its values; text holds any."""
    kinds = {_kind_of(value) for value in values if value is not None}
    if kinds == {"int64", "float64"}:
        return "float64"
    return kinds.pop() if len(kinds) == 1 else "string"


def as_json(value: Any) -> str:
    """One line; numbers as they were told. Raise Misfit for what is nested without end."""
    try:
        return _told(value)
    except RecursionError:
        raise Misfit("a list or an object that is nested too deep") from None


def _told(value: Any) -> str:
    if isinstance(value, dict):
        inner = (f"{_quoted(name)}: {_told(each)}" for name, each in value.items())
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_told, value))}]"
    return str(value) if isinstance(value, Decimal) else _quoted(value)


def storable(text: str) -> str:
    """Half a character, which JSON may have and no file, is told as JSON does."""
    return text.encode("utf-8", "backslashreplace").decode()


def _quoted(value: Any) -> str:
    return storable(json.dumps(value, ensure_ascii=False))


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if -(2**63) <= value < 2**63 else "string"
    return "float64" if isinstance(value, Decimal) else "string"


def _arrow(kind: str) -> pa.DataType:
    if kind.startswith("decimal"):
        digits, places = _digits(kind)
        return pa.decimal128(digits, places)
    return _ARROW[kind]


def _digits(kind: str) -> tuple[int, int]:
    digits, places = kind[8:-1].split(",")
    return int(digits), int(places)


def _fit(kind: str, size: int | None) -> Fit:
    if kind in _BITS:
        return lambda value: _integer(value, _BITS[kind])
    if kind.startswith("decimal"):
        return lambda value: _decimal(value, *_digits(kind))
    if kind == "binary":
        return lambda value: _bytes(value, size)
    return {
        "boolean": _boolean,
        "float": lambda value: _float(value, _MOST_FLOAT32),
        "double": lambda value: _float(value, _MOST_FLOAT64),
        "string": _string,
        "date": _date,
        "timestamp": _timestamp,
    }[kind]


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise Misfit(_named(value))


def _number(value: Any) -> Decimal:
    """Numbers that are told as text are numbers, too: JSON has none that are large and exact."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return Decimal(value.strip())
    raise Misfit(_named(value))


def _integer(value: Any, bits: int) -> int:
    number = _number(value)
    if number and number.adjusted() > 20:
        raise Misfit("a larger number")
    if number != number.to_integral_value():
        raise Misfit("a number with decimals")
    whole = int(number)
    if not -(2 ** (bits - 1)) <= whole < 2 ** (bits - 1):
        raise Misfit("a larger number")
    return whole


def _decimal(value: Any, digits: int, places: int) -> Decimal:
    number = _number(value)
    if not number:
        return Decimal(0)
    if number.adjusted() >= digits - places:
        raise Misfit("a larger number")
    found = number.normalize(_EXACT)
    exponent = found.as_tuple().exponent
    if found != number or (isinstance(exponent, int) and -exponent > places):
        raise Misfit("a number with more decimals")
    return found


def _float(value: Any, most: float) -> float:
    number = float(_number(value))
    if abs(number) > most:
        raise Misfit("a larger number")
    return number


def _string(value: Any) -> str:
    text = value if isinstance(value, str) else as_json(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Misfit("text with half a character") from None
    return text


def _bytes(value: Any, size: int | None) -> bytes:
    if not isinstance(value, str) or not re.fullmatch(r"0[xX]([0-9a-fA-F]{2})*", value):
        raise Misfit(_named(value) + " that is not 0x and hexadecimal digits")
    found = bytes.fromhex(value[2:])
    if size is not None and len(found) != size:
        raise Misfit(f"{len(found)} bytes")
    return found


def _date(value: Any) -> date:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value.strip()):
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            pass
    raise Misfit(_named(value) + " that is no date, such as 2026-01-31")


def _timestamp(value: Any) -> datetime:
    """Without a zone it is UTC."""
    if isinstance(value, str) and re.match(r"\s*\d{4}-\d\d-\d\d", value):
        if _FINER.search(value):
            raise Misfit("a time with more than microseconds")
        try:
            found = datetime.fromisoformat(value.strip())
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise Misfit(_named(value) + " that is no time, such as 2026-01-31T12:00:00Z")


def _named(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | Decimal):
        return "a number"
    names: dict[type, str] = {str: "text", dict: "an object", list: "a list"}
    return names.get(type(value), "something else")
