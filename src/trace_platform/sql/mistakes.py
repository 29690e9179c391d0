"""A statement's own mistakes, in DuckDB's words: where in its text, and what was meant."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

from trace_platform.domain.alike import alike, did_you_mean
from trace_platform.domain.errors import InvalidQuery
from trace_platform.sql.gate import Statement
from trace_platform.sql.hex_text import cure

# The statement stands in a subquery, on lines of its own; both beginnings have one length. What is
# blank before a statement DuckDB counts with one way to run it and not with another.
DESCRIBE_FROM = "DESCRIBE FROM (\n"
FROM = "FROM          (\n"

_KIND = re.compile(r"(?s)([A-Za-z ]+?) Error: (.*)")
_CANDIDATES = re.compile(r"\s*Candidate (?:bindings|tables): (.+)")
_NAME = re.compile(r'"((?:[^"]|"")+)"')
# As Arrow and Parquet carry the integers of 128 bits (result_columns.py).
_TOO_WIDE = "to DECIMAL(38,0)"
_WIDE_HINT = "Arrow and Parquet have 38 digits: cast it to VARCHAR, or ask for JSON or CSV"
# Times of a chain are numbers.
_TIME_OF_NUMBER = re.compile(
    r"string '[0-9]{4}-[0-9]{2}.*' to INT|argument types '(?:date_|time_bucket|strftime).*BIGINT"
)
_SECONDS_HINT = (
    "of seconds since 1970, such as a block's timestamp, to_timestamp(timestamp) makes a moment:"
    " to_timestamp(timestamp) >= '2026-01-31', date_trunc('day', to_timestamp(timestamp))"
)
# Wide numbers of a chain are digits.
_NUMBER_OF_TEXT = re.compile(
    r"argument types '(?:sum|avg|mean|median|[-+*/%]|//|\*\*)\([^']*VARCHAR"
)
_DIGITS_HINT = "of digits, such as a uint256's, ::BIGNUM makes a number: sum(value_string::BIGNUM)"
_NUMBER_OF_BYTES = re.compile(
    r"argument types '(?:sum|avg|[-+*/%]|//|\*\*)\([^']*BLOB"
    r"|cast \(BLOB -> \w*(?:INT|BIGNUM|DECIMAL|INTEGER)"
)
_BYTES_TO_NUMBER_HINT = "bytes_to_uint(column) makes a number of up to 32 bytes; or bytes_to_int"
_SHOWN_CHARS = 2_000
# Of the functions that are Python (chain_functions.py) only what they say themselves.
_OF_PYTHON = re.compile(r"Python exception occurred while executing the UDF: (?:[A-Za-z]+: )?")


def refusal(
    kind: str,
    facts: dict[str, Any],
    statement: Statement,
    shown: Callable[[str], str] = lambda text: text,
) -> InvalidQuery:
    """`facts` are those that DuckDB gives with `errors_as_json`; `shown` hides what nobody may see
    of its words."""
    said = str(facts["exception_message"]).strip()
    message = _OF_PYTHON.sub("", shown(_CANDIDATES.sub("", said)))
    suggestions = _suggestions(said)
    return InvalidQuery(
        f"{kind} Error: {message}"[:_SHOWN_CHARS],
        hint=did_you_mean(suggestions[:3]) or _cure(said),
        **_some(suggestions=suggestions, **_place(facts, statement)),
    )


def read(said: str) -> tuple[str, dict[str, Any]]:
    """The kind of error and what DuckDB tells about it."""
    match = _KIND.fullmatch(said)
    kind, told = (match[1], match[2]) if match else (None, said)
    with contextlib.suppress(ValueError):
        facts = json.loads(told)
        if isinstance(facts, dict) and "exception_message" in facts:
            return kind or str(facts.get("exception_type")), facts
    return kind or "Internal", {"exception_message": told}


def _cure(said: str) -> str | None:
    if _TOO_WIDE in said:
        return _WIDE_HINT
    if _TIME_OF_NUMBER.search(said):
        return _SECONDS_HINT
    if _NUMBER_OF_TEXT.search(said):
        return _DIGITS_HINT
    if _NUMBER_OF_BYTES.search(said):
        return _BYTES_TO_NUMBER_HINT
    return cure(said)


def _some(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value}


def _suggestions(said: str) -> list[str]:
    """Of DuckDB's candidates those that are like the name before them, the last one."""
    found = _CANDIDATES.search(said)
    named = _NAME.findall(said[: found.start()]) if found else []
    if not found or not named:
        return []
    wanted = named[-1].lower()
    return [
        each for each in _NAME.findall(found[1]) if alike(wanted, [each.lower().rpartition(".")[2]])
    ]


def _place(facts: dict[str, Any], statement: Statement) -> dict[str, int]:
    """Line and column, where the error is one of the statement's own text."""
    position = str(facts.get("position", ""))
    at = int(position) - len(FROM) if position.isdigit() else -1
    if not 0 <= at < len(statement.sql.encode()):
        return {}
    line, column = statement.place(at)
    return {"line": line, "column": column}
