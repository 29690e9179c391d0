"""The records of one page: a list of objects in JSON, an object per line, or the lines of CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from trace_platform.domain.errors import EndpointRefused, EndpointUnreachable, IncompatibleSchema
from trace_platform.operators.http.config import Config
from trace_platform.operators.http.json_path import MISSING, found_at

# A field of CSV may be as long as an answer.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True, slots=True)
class Document:
    """A page as it was read. Of CSV and of lines there is no document to look into."""

    whole: Any
    records: list[Any]


def read_page(
    config: Config, body: bytes, number: int, scrub: Callable[[str], str] = str
) -> Document:
    """Raise EndpointUnreachable for what is not of the format (the page of an error, half of an
    answer), IncompatibleSchema for a document without the records, EndpointRefused for errors that
    an answer of GraphQL has, whatever stands beside them."""
    try:
        text = body.decode("utf-8-sig")
        if config.format == "json":
            whole = _loads(text)
            if config.graphql is not None:
                _refuse_errors(whole, number, scrub)
            return Document(whole, _records_in(whole, config, number))
        if config.format == "jsonl":
            lines = (line for line in text.split("\n") if line.strip())
            return Document(None, [_loads(line) for line in lines])
        return Document(None, list(_lines_of(text, config, number)))
    except (ValueError, RecursionError, csv.Error) as error:
        raise EndpointUnreachable(
            f"page {number} is not {config.format}: {_where(error)}",
            hint="open the address with curl: does it answer something else, or half of it?",
            page=number,
        ) from None


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=_decimal, parse_constant=_refuse_constant)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("it has a number with an exponent beyond all bounds") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _refuse_errors(whole: Any, number: int, scrub: Callable[[str], str]) -> None:
    errors = whole.get("errors") if isinstance(whole, dict) else None
    if not errors:
        return
    first = found_at(errors, "0.message")
    said = f": {scrub(first)}" if isinstance(first, str) else ""
    raise EndpointRefused(
        f"page {number}: the endpoint answers with errors{said}",
        hint="an answer with errors may lack records: the rows of before are kept",
    )


def _records_in(whole: Any, config: Config, number: int) -> list[Any]:
    found = found_at(whole, config.records, MISSING)
    if isinstance(found, list):
        return found
    place = config.records or "the document"
    said = "is not there" if found is MISSING else f"is {_kind(found)}, and no list"
    there = ""
    if isinstance(whole, dict):
        there = f"; the document has {', '.join(sorted(whole)[:12]) or 'nothing'}"
    raise IncompatibleSchema(
        f"page {number}: {place} {said}{there}",
        hint="the endpoint answers in another shape: correct `records`",
        page=number,
    )


def _lines_of(text: str, config: Config, number: int) -> Iterator[dict[str, str | None]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=config.delimiter, strict=True)
    head = [name.strip() for name in next(reader, [])]
    if len(set(head)) < len(head):
        raise IncompatibleSchema(
            f"page {number}: its first line has a name twice: {', '.join(head)}", page=number
        )
    for values in reader:
        if not values:
            continue
        if len(values) != len(head):
            raise ValueError(f"line {reader.line_num} has {len(values)} values, not {len(head)}")
        yield {name: value or None for name, value in zip(head, values, strict=True)}


def _where(error: Exception) -> str:
    """Without a word of the answer itself."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8"
    if isinstance(error, RecursionError):
        return "lists in lists without end"
    return str(error)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "true or false", str: "text", dict: "an object"}
    return kinds.get(type(value), "a number")
