"""Names and values as SQL, for statements that take no parameters."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def listed(values: Iterable[str]) -> str:
    return "[" + ", ".join(map(text, values)) + "]"


def without_semicolon(sql: str) -> str:
    """So that the statement can stand in another one. Every other byte stays where it is."""
    written = bytearray(sql.encode())
    tokens = duckdb.tokenize(sql)
    for ordered in (tokens, reversed(tokens)):
        for offset, kind in ordered:
            if kind == duckdb.token_type.operator and written[offset] == ord(";"):
                written[offset] = ord(" ")
            elif kind != duckdb.token_type.comment:
                break
    return written.decode()
