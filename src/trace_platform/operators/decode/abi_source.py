"""An ABI as people have it: JSON of a compiler or an explorer, or signatures in lines of text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from trace_platform.domain.errors import InvalidAbi
from trace_platform.operators.decode.abi import Abi, Event, Function, written
from trace_platform.operators.decode.abi_json import events_of, functions_of
from trace_platform.operators.decode.abi_text import WrongSignature, parse_event, parse_function

MAX_ENTRIES = 2_000
_BLANK = re.compile(r"[ \t\n\r]*")
_KIND = re.compile(r"\s*([a-z]+)\b")
# What an ABI has besides events and functions.
_OTHERS = frozenset({"error", "constructor", "fallback", "receive"})


def read_abi(text: str) -> Abi:
    """Raise InvalidAbi, which says where it is wrong. What stands there twice is there once."""
    body = text.lstrip("\ufeff")
    found = list(_of_json(body) if body.lstrip()[:1] in ("[", "{") else _of_lines(body))
    if len(found) > MAX_ENTRIES:
        raise InvalidAbi(f"the ABI has {len(found):,} entries, at most {MAX_ENTRIES:,} can be")
    events = dict.fromkeys(each for _, each in found if isinstance(each, Event))
    functions = dict.fromkeys(each for _, each in found if isinstance(each, Function))
    if not events and not functions:
        raise InvalidAbi(
            "the ABI has neither events nor functions",
            hint="give JSON as a compiler writes it, or lines such as: "
            "event Transfer(address indexed from, address indexed to, uint256 value)",
        )
    _refuse_alike(body, found)
    return Abi("", tuple(events), tuple(functions))


def _of_json(text: str) -> Iterator[tuple[int, Event | Function]]:
    """With the place of each in the text."""
    for at, entry in _json_entries(text):
        if not isinstance(entry, dict):
            _refuse(text, at, "an entry is an object with a type, a name and inputs")
        try:
            entries: list[Event | Function] = [*events_of([entry]), *functions_of([entry])]
            yield from ((at, _readable(one)) for one in entries)
        except ValueError as error:
            _refuse(text, at, str(error))


def _json_entries(text: str) -> list[tuple[int, Any]]:
    decoder = json.JSONDecoder()
    try:
        start = _BLANK.match(text, 0).end()  # type: ignore[union-attr]
        given = json.loads(text)
        if isinstance(given, dict):
            if not isinstance(given.get("abi"), list):
                _refuse(text, start, "this JSON is an object without a list `abi`")
            start = _place_of_abi(text, start, decoder)
        found, at = [], _past(text, start + 1)
        while text[at] != "]":
            entry, end = decoder.raw_decode(text, at)
            found.append((at, entry))
            at = _past(text, _past(text, end) + 1) if text[_past(text, end)] == "," else end
            at = _past(text, at)
    except json.JSONDecodeError as error:
        _refuse(text, error.pos, f"this is no JSON: {error.msg}")
    except RecursionError:
        raise InvalidAbi("the JSON is nested deeper than any ABI") from None
    return found


def _place_of_abi(text: str, start: int, decoder: json.JSONDecoder) -> int:
    """Of the list under the last key `abi` of an object that is valid JSON."""
    at, found = _past(text, start + 1), start
    while text[at] != "}":
        key, end = decoder.raw_decode(text, at)
        value_at = _past(text, _past(text, end) + 1)
        _, end = decoder.raw_decode(text, value_at)
        found = value_at if key == "abi" else found
        at = _past(text, end)
        at = _past(text, at + 1) if text[at] == "," else at
    return found


def _past(text: str, at: int) -> int:
    return _BLANK.match(text, at).end()  # type: ignore[union-attr]


def _of_lines(text: str) -> Iterator[tuple[int, Event | Function]]:
    parsers: dict[str, Callable[[str], Event | Function]] = {
        "event": parse_event,
        "function": parse_function,
    }
    for at, signature in _signatures(text):
        kind = _KIND.match(signature)
        if kind is not None and kind[1] in _OTHERS:
            continue
        parse = parsers.get(kind[1]) if kind is not None else None
        if parse is None:
            _refuse(text, at, "a line begins with `event` or `function`, or this is JSON")
        try:
            yield at, _readable(parse(signature))
        except WrongSignature as error:
            _refuse(text, at + error.at, error.said)
        except ValueError as error:
            _refuse(text, at, str(error))


def _signatures(text: str) -> Iterator[tuple[int, str]]:
    """A signature goes on over lines until its brackets are closed."""
    at, start, open_brackets = 0, 0, 0
    for line in text.splitlines(keepends=True):
        said = line.split("//", 1)[0]
        if open_brackets <= 0:
            start, open_brackets = at + len(said) - len(said.lstrip()), 0
        open_brackets += said.count("(") - said.count(")")
        at += len(line)
        if open_brackets <= 0 and said.strip():
            yield start, _without_comments(text[start:at])
    if open_brackets > 0:
        yield start, _without_comments(text[start:])


def _without_comments(text: str) -> str:
    """As long as it was: places stay what they are."""
    return re.sub(r"//[^\n]*", lambda found: " " * len(found[0]), text).rstrip()


def _readable(one: Event | Function) -> Event | Function:
    """It is stored as text: names that are none would be read as something else."""
    line = written(one)
    try:
        again = parse_event(line) if isinstance(one, Event) else parse_function(line)
    except ValueError:
        raise _no_name(one) from None
    if again != one:
        raise _no_name(one)
    return one


def _no_name(one: Event | Function) -> ValueError:
    return ValueError(f"{one.name[:80]}: a name in it is no name of Solidity")


def _refuse_alike(text: str, found: Sequence[tuple[int, Event | Function]]) -> None:
    seen: dict[object, Event | Function] = {}
    for at, each in found:
        key: object = each.selector if isinstance(each, Function) else _told_by(each)
        other = seen.setdefault(key, each)
        if other != each and not _only_names_differ(other, each):
            what = "selector" if isinstance(each, Function) else "topics"
            _refuse(
                text, at, f"{each.signature} and {other.signature} have the same {what}: leave "
                "one out, nothing in the data tells them apart"
            )  # fmt: skip
        elif other != each:
            _refuse(text, at, f"{each.signature} stands here twice, with other names")


def _only_names_differ(one: Event | Function, other: Event | Function) -> bool:
    if isinstance(one, Event) and isinstance(other, Event):
        return [p.indexed for p in one.params] == [p.indexed for p in other.params]
    return one.signature == other.signature


def _told_by(event: Event) -> object:
    """An anonymous event has nothing but its number of topics, and the contract."""
    return event.topics if event.anonymous else (event.topic0, event.topics)


def _refuse(text: str, at: int, said: str) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    raise InvalidAbi(f"line {line}, column {column}: {said}", line=line, column=column)
