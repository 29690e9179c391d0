"""Bytes that a statement takes for text: nodes of a bound plan (meaning.py) that are never what was
meant, each with its cure; and the cures of DuckDB's own refusals."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

Node = dict[str, Any]
# What is wrong, and what would be right.
Mistake = tuple[str, str]

BYTES_HINT = (
    "hex is written '0x…', two digits a byte; of a column: unhex(column) takes its text for hex,"
    " encode(column) for UTF-8"
)
TEXT_HINT = (
    "as text bytes are to_0x(column), such as starts_with(to_0x(column), '0xd8'); which bytes a"
    " column begins with: column[1:2] = '0xd8da'; decode(column) reads UTF-8"
)
QUOTES_HINT = "hex is a text to SQL, in single quotes: '0x…'"
_SHORTENED_HINT = (
    "its middle was left out to fit the terminal: `--format csv` and JSON, `\\format json` at the"
    " prompt, and a query of fewer columns have all of it"
)
_SHORTENED = re.compile(r"(?:0[xX])?[0-9a-fA-F]+(?:…|\.{2,3})[0-9a-fA-F]*")
# DuckDB asks for a cast that would take letters for bytes.
_CANNOT_COMPARE = re.compile(r"BLOB and VARCHAR|VARCHAR and BLOB")
_BOTH = re.compile(r"(?s)inferred to be:.*(?:BLOB.*VARCHAR|VARCHAR.*BLOB)")
_GIVEN = re.compile(r"argument types '[^'(]*\((?P<given>[^']*)\)'")
# In double quotes it is the name of a column.
_NAMED_HEX = re.compile(r'column "0[xX][0-9a-fA-F]+" not found')
_COMPARISONS = ("COMPARE_EQUAL", "COMPARE_IN", "COMPARE_NOTEQUAL", "COMPARE_NOT_IN")
_TO_JSON = frozenset(
    {"to_json", "array_to_json", "row_to_json", "json_array", "json_object", "json_quote"}
)
_CHECKSUM = re.compile(r"0x[0-9a-fA-F]{40}")


def cure(said: str) -> str | None:
    """Of an error of DuckDB's."""
    if _CANNOT_COMPARE.search(said) or _BOTH.search(said):
        return BYTES_HINT
    if _NAMED_HEX.search(said):
        return QUOTES_HINT
    given = _GIVEN.search(said)
    if given is not None and given["given"] == "BLOB" and "'length(" in said:
        return "bytes are counted by octet_length(column)"
    if given is not None and "BLOB" in given["given"]:
        return TEXT_HINT
    wants_bytes = "BLOB" in said.partition("Candidate")[2]
    if wants_bytes and (given is None or re.search("VARCHAR|STRING_LITERAL", given["given"])):
        return BYTES_HINT
    return None


def hint_of(value: str) -> str:
    """Of a text where bytes are wanted."""
    return _SHORTENED_HINT if _SHORTENED.fullmatch(value) else BYTES_HINT


def converts(given: Node, wanted: Node, source: str, target: str) -> bool:
    """Whether values of the one type, or some within them, become the other."""
    if given["id"] == source and wanted["id"] == target:
        return True
    pairs = zip(_within(given), _within(wanted), strict=False)
    return any(converts(*pair, source, target) for pair in pairs)


def mistake(node: Node) -> Mistake | None:
    """In a node of the statement's own."""
    if _becomes_text(node):
        return "bytes as text would be letters and \\x…, not hex", TEXT_HINT
    if _is_of_a_pivot(node) and any(map(_becomes_text, node["children"])):
        return (
            "PIVOT would compare bytes as letters and \\x…, not as hex",
            "pivot on their hex: PIVOT … ON to_0x(column) IN ('0x…')",
        )
    if node.get("type") in _COMPARISONS:
        return _never(node["children"])
    return None


def misread_number(node: Node) -> Mistake | None:
    """In the macros of exact numbers, which read digits: bytes may hold the letters of some."""
    if not _name(node).startswith("__trace_"):
        return None
    casts = [each for each in node["children"] if each.get("type") == "OPERATOR_CAST"]
    if not any(_kind(each) == "BLOB" and _kind_of(each) == "VARCHAR" for each in casts):
        return None
    return "bytes are no number", "bytes_to_uint(bytes) makes one of them, or bytes_to_int(bytes)"


def _becomes_text(node: Node) -> bool:
    if node.get("type") == "OPERATOR_CAST":
        return _shows_bytes(node["arguments"][0], node["return_type"])
    return _name(node) in _TO_JSON and any(map(_holds_bytes, node["arguments"]))


def _is_of_a_pivot(node: Node) -> bool:
    """It compares what it pivots on with each of its values, of which nothing has a place."""
    return node.get("type") == "COMPARE_NOT_DISTINCT_FROM" and node["query_location_length"] == 0


def _shows_bytes(given: Node, wanted: Node) -> bool:
    if wanted["id"] == "VARCHAR":
        return _holds_bytes(given)
    pairs = zip(_within(given), _within(wanted), strict=False)
    return any(_shows_bytes(*pair) for pair in pairs)


def _holds_bytes(kind: Node) -> bool:
    return kind["id"] == "BLOB" or any(map(_holds_bytes, _within(kind)))


def _within(kind: Node) -> Iterator[Node]:
    info = kind.get("type_info") or {}
    if "child_type" in info:
        yield info["child_type"]
    for each in info.get("child_types", ()):
        yield each["second"]


def _never(operands: list[Node]) -> Mistake | None:
    """Hex text that is compared with text which no hex text of that form is."""
    forms = [form for form in map(_form, operands) if form is not None]
    texts = [text for text in map(_text, operands) if text is not None]
    for form, text in itertools.product(forms, texts):
        if not _may_equal(form, text):
            return (
                f"{form} is never {text[:80]!r}: it writes hex in another way",
                "compare the bytes themselves, column = '0x…', in capitals or not",
            )
    return None


def _may_equal(form: str, text: str) -> bool:
    match form:
        case "hex(…)":
            return re.fullmatch("[0-9A-F]*", text) is not None
        case "lower(hex(…))":
            return re.fullmatch("[0-9a-f]*", text) is not None
        case "to_0x(…)":
            return re.fullmatch("0x[0-9a-f]*", text) is not None
    # Of a checksum it can be told only that it has no one kind of letters.
    is_plain = text.lower() == text and re.search("[a-f]", text[2:]) is not None
    return _CHECKSUM.fullmatch(text) is not None and not is_plain


def _form(node: Node) -> str | None:
    """How hex is written that a function makes of bytes."""
    name, children = _name(node), node.get("children") or []
    if name in ("hex", "to_hex") and _kind(node) == "BLOB":
        return "hex(…)"
    if name == "checksum_address":
        return "checksum_address(…)"
    if name == "lower" and _form(children[0]) == "hex(…)":
        return "lower(hex(…))"
    is_prefixed = name == "||" and len(children) == 2 and _text(children[0]) == "0x"
    return "to_0x(…)" if is_prefixed and _form(children[1]) == "lower(hex(…))" else None


def _name(node: Node) -> str:
    is_function = node.get("expression_class") == "BOUND_FUNCTION"
    return str((node.get("qname") or {}).get("path", [""])[-1]) if is_function else ""


def _kind(node: Node) -> str:
    return str(node["arguments"][0]["id"]) if node.get("arguments") else ""


def _kind_of(node: Node) -> str:
    return str(node["return_type"]["id"])


def _text(node: Node) -> str | None:
    """A constant text, also one that DuckDB casts to text."""
    while node.get("type") == "OPERATOR_CAST":
        node = node["children"][0]
    value = node.get("value") if node.get("expression_class") == "BOUND_CONSTANT" else None
    if not value or value["is_null"] or value["type"]["id"] != "VARCHAR":
        return None
    return str(value["value"])
