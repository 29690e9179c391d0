"""Random values of ABI types, for an encoder, and what their columns have to hold."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from trace_platform.operators.decode.abi_type import Array, Blob, Param, Scalar, Tuple, Type
from trace_platform.operators.decode.layout import is_wide, laid_out

_TEXTS = ("", "a", "héé ✓", "x" * 31, "y" * 32, "z" * 33, "nul \0 in it")


def types(depth: int = 2) -> st.SearchStrategy[Type]:
    bits = st.integers(1, 32).map(lambda n: 8 * n)
    scalars = st.one_of(
        st.builds(Scalar, st.just("uint"), bits),
        st.builds(Scalar, st.just("int"), bits),
        st.builds(Scalar, st.just("bytes"), st.integers(1, 32)),
        st.sampled_from([Scalar("address"), Scalar("bool"), Scalar("function")]),
    )
    plain: st.SearchStrategy[Type] = st.one_of(
        scalars, st.sampled_from([Blob("bytes"), Blob("string")])
    )
    if depth == 0:
        return plain
    inner = types(depth - 1)
    members = st.lists(inner, min_size=1, max_size=3).map(_params)
    lengths = st.one_of(st.none(), st.integers(1, 3))
    return st.one_of(plain, st.builds(Array, inner, lengths), st.builds(Tuple, members))


def _params(kinds: Sequence[Type]) -> tuple[Param, ...]:
    return tuple(Param("", kind) for kind in kinds)


def value(kind: Type, random: Random) -> Any:
    match kind:
        case Blob(kind="string"):
            return random.choice(_TEXTS)
        case Blob():
            return random.randbytes(random.choice((0, 1, 31, 32, 33, 70)))
        case Array():
            length = random.randrange(4) if kind.length is None else kind.length
            return tuple(value(kind.item, random) for _ in range(length))
        case Tuple():
            return tuple(value(member.type, random) for member in kind.members)
        case Scalar():
            return _scalar(kind, random)


def _scalar(kind: Scalar, random: Random) -> Any:
    match kind.kind:
        case "uint":
            most = 2**kind.size - 1
            return random.choice((0, 1, most, most // 2, most // 2 + 1, random.randint(0, most)))
        case "int":
            half = 2 ** (kind.size - 1)
            edges = (0, 1, -1, half - 1, -half, random.randint(-half, half - 1))
            return random.choice(edges)
        case "address":
            return "0x" + random.randbytes(20).hex()
        case "bool":
            return random.random() < 0.5
    return random.randbytes(kind.size or 24)


def columns(kind: Type, given: Any) -> list[Any]:
    """A value of each column that a parameter of this type has."""
    match kind:
        case Array():
            parts = [columns(kind.item, each) for each in given]
            width = len(columns(kind.item, _any(kind.item)))
            return [[part[n] for part in parts] for n in range(width)]
        case Tuple():
            laid = laid_out(kind.members)
            fields = {
                column.name: part
                for each, own in zip(laid, given, strict=True)
                for column, part in zip(each.columns, columns(each.param.type, own), strict=True)
            }
            return [fields]
        case Scalar() if is_wide(kind):
            word = given.to_bytes(32, "big", signed=kind.kind == "int")
            return [word, str(given), float(given)]
        case Scalar(kind="address"):
            return [bytes.fromhex(given[2:])]
    return [given]


def _any(kind: Type) -> Any:
    return value(kind, Random(0))
