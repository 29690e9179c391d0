"""The functions that chain data needs beside DuckDB's own, in every database of a query.

Macros where SQL is exact; Python where it is not (Keccak, integers of more than 128 bits). What is
Python takes whole columns, opens nothing and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from trace_platform.domain.chain_values import (
    checksum_address,
    in_units,
    product,
    quotient,
    remainder,
    signature,
    signed,
    unsigned,
    whole,
    word,
)
from trace_platform.domain.evm_encoding import keccak256

# Without 0x or with it: as results show bytes.
_UNHEXED = "CASE WHEN left(h, 2) IN ('0x', '0X') THEN substr(h, 3) ELSE h END"
_MACROS = {
    "unhex": f"(h) AS system.main.unhex({_UNHEXED})",
    "from_hex": f"(h) AS system.main.from_hex({_UNHEXED})",
    "to_0x": "(bytes BLOB) AS '0x' || lower(hex(bytes))",
    "selector": "(signature) AS keccak256(encode(__trace_signature(signature)))[1:4]",
    "topic": "(signature) AS keccak256(encode(__trace_signature(signature)))",
    "bytes_to_uint": "(bytes) AS CAST(__trace_uint(bytes) AS BIGNUM)",
    "bytes_to_int": "(bytes) AS CAST(__trace_int(bytes) AS BIGNUM)",
    "uint_to_bytes": "(n) AS __trace_word(CAST(n AS VARCHAR))",
    "mul_exact": "(a, b) AS CAST(__trace_mul(CAST(a AS VARCHAR), CAST(b AS VARCHAR)) AS BIGNUM)",
    "div_exact": "(a, b) AS CAST(__trace_div(CAST(a AS VARCHAR), CAST(b AS VARCHAR)) AS BIGNUM)",
    "mod_exact": "(a, b) AS CAST(__trace_mod(CAST(a AS VARCHAR), CAST(b AS VARCHAR)) AS BIGNUM)",
    "sum_exact": "(n) AS sum(CAST(__trace_whole(CAST(n AS VARCHAR)) AS BIGNUM))",
    "from_units": "(n, decimals) AS"
    " CAST(__trace_units(CAST(n AS VARCHAR), CAST(decimals AS BIGINT)) AS DECIMAL(38, 18))",
    "from_wei": "(n) AS CAST(__trace_units(CAST(n AS VARCHAR), 18::BIGINT) AS DECIMAL(38, 18))",
}
# What a statement may call; the rest is what these are made of.
NAMES = frozenset({*_MACROS, "keccak256", "checksum_address"})


def add(connection: duckdb.DuckDBPyConnection) -> None:
    """Before the database is locked."""
    for name, (function, given, result) in _PYTHON.items():
        connection.create_function(
            name,
            _by_column(function, len(given), _ARROW[result]),
            given,
            result,
            type="arrow",
            null_handling="special",
        )
    for name, body in _MACROS.items():
        connection.execute(f"CREATE MACRO {name}{body}")


def _by_column(function: Callable[..., Any], width: int, kind: pa.DataType) -> Callable[..., Any]:
    """Null where a value is. DuckDB counts the parameters, so they cannot be `*columns`."""

    def over(*columns: pa.ChunkedArray) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], kind)

    return (lambda a: over(a)) if width == 1 else (lambda a, b: over(a, b))


_TEXT, _BYTES = "VARCHAR", "BLOB"
_ARROW = {_TEXT: pa.string(), _BYTES: pa.binary()}
_PYTHON: dict[str, tuple[Callable[..., Any], list[str], str]] = {
    "keccak256": (keccak256, [_BYTES], _BYTES),
    "checksum_address": (checksum_address, [_BYTES], _TEXT),
    "__trace_signature": (signature, [_TEXT], _TEXT),
    "__trace_uint": (unsigned, [_BYTES], _TEXT),
    "__trace_int": (signed, [_BYTES], _TEXT),
    "__trace_word": (word, [_TEXT], _BYTES),
    "__trace_whole": (whole, [_TEXT], _TEXT),
    "__trace_mul": (product, [_TEXT, _TEXT], _TEXT),
    "__trace_div": (quotient, [_TEXT, _TEXT], _TEXT),
    "__trace_mod": (remainder, [_TEXT, _TEXT], _TEXT),
    "__trace_units": (in_units, [_TEXT, "BIGINT"], _TEXT),
}
