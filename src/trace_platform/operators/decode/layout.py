"""The columns that parameters become: their names and Arrow types.

A number that may be wider than 64 bits is three columns, as everywhere: `_binary`, `_string` and
`_f64`. Of an array of them each of the three is a list; in a tuple they are three fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from trace_platform.operators.decode.abi_type import Array, Blob, Param, Scalar, Tuple, Type
from trace_platform.operators.decode.numbers import is_small

# What comes behind the name, and the Arrow type of each column.
Parts = Sequence[tuple[str, pa.DataType]]

_BINARY, _TEXT = pa.binary(), pa.string()
_WIDE = (("_binary", _BINARY), ("_string", _TEXT), ("_f64", pa.float64()))


@dataclass(frozen=True, slots=True)
class Laid:
    """A parameter and its columns, in order."""

    param: Param
    columns: tuple[pa.Field, ...]


# Columns by their names in small letters.
Known = Mapping[str, pa.Field]


def laid_out(
    params: Sequence[Param], taken: Iterable[str] = (), known: Known = MappingProxyType({})
) -> tuple[Laid, ...]:
    """`taken` are names that other columns have: a parameter of such a name gets `_param` behind
    it. No reader tells `amountIn` from `amountin`: the second one gets a number. So does one whose
    name a column of another type has among the `known` ones, those of other versions."""
    used = {name.lower() for name in taken}
    fixed = frozenset(used)
    found = []
    for place, param in enumerate(params):
        parts = _topic_parts(param) if param.indexed else parts_of(param.type)
        name = _free(param.name or f"arg{place}", parts, used, fixed, known)
        fields = tuple(pa.field(name + suffix, kind, nullable=False) for suffix, kind in parts)
        used.update(field.name.lower() for field in fields)
        found.append(Laid(param, fields))
    return tuple(found)


def parts_of(kind: Type) -> list[tuple[str, pa.DataType]]:
    """What comes behind the name, and the Arrow type of each."""
    if isinstance(kind, Scalar):
        return _scalar_parts(kind)
    if isinstance(kind, Blob):
        return [("", _BINARY if kind.kind == "bytes" else _TEXT)]
    if isinstance(kind, Array):
        return [(suffix, _list(item)) for suffix, item in parts_of(kind.item)]
    return [("", struct_of(kind))]


def struct_of(kind: Tuple) -> pa.StructType:
    return pa.struct([field for laid in laid_out(kind.members) for field in laid.columns])


def is_hashed(kind: Type) -> bool:
    """Of an indexed value of these types a log has the hash alone."""
    return not isinstance(kind, Scalar)


def is_wide(kind: Scalar) -> bool:
    return kind.kind in ("uint", "int") and kind.size > 64


def _topic_parts(param: Param) -> list[tuple[str, pa.DataType]]:
    return [("", _BINARY)] if is_hashed(param.type) else parts_of(param.type)


def _scalar_parts(kind: Scalar) -> list[tuple[str, pa.DataType]]:
    if is_wide(kind):
        return list(_WIDE)
    if kind.kind in ("uint", "int"):
        small = is_small(kind.size, signed=kind.kind == "int")
        return [("", pa.int64() if small else pa.decimal128(20, 0))]
    return [("", pa.bool_() if kind.kind == "bool" else _BINARY)]


def _list(item: pa.DataType) -> pa.ListType:
    # `element` is what Parquet calls it.
    return pa.list_(pa.field("element", item, nullable=False))


def _free(name: str, parts: Parts, used: set[str], fixed: frozenset[str], known: Known) -> str:
    if not _is_free(name, parts, fixed):
        name = f"{name}_param"
    free, n = name, 2
    while not (_is_free(free, parts, used) and _is_known(free, parts, known)):
        free, n = f"{name}_{n}", n + 1
    return free


def _is_free(name: str, parts: Parts, used: Iterable[str]) -> bool:
    return not {f"{name}{suffix}".lower() for suffix, _ in parts} & set(used)


def _is_known(name: str, parts: Parts, known: Known) -> bool:
    """Each column is new, or what it was."""
    for suffix, kind in parts:
        column = known.get(f"{name}{suffix}".lower())
        if column is not None and (column.name, column.type) != (f"{name}{suffix}", kind):
            return False
    return True
