"""Events and functions as people write them: `Transfer(address indexed from, address indexed to,
uint256 value)`, with `event` or `function` before it or without."""

from __future__ import annotations

import re

from trace_platform.operators.decode.abi import NAME, Event, Function, check_event
from trace_platform.operators.decode.abi_type import Param, parse_type

_MOST_CHARS = 10_000
_MOST_DEPTH = 16
_HEAD = re.compile(r"\s*(?:(event|function)\s+)?([A-Za-z_$][A-Za-z0-9_$]*)\s*")
_TYPE = re.compile(r"[a-z][a-z0-9]*")
_ARRAYS = re.compile(r"(?:\s*\[\s*[0-9]*\s*\])+")
# Words of Solidity that change nothing here.
_PLACES = frozenset({"memory", "calldata", "storage", "payable"})


class WrongSignature(ValueError):
    """What is wrong with a signature, and at which character of it, from 0."""

    def __init__(self, text: str, at: int, said: str) -> None:
        super().__init__(f"{text[:200]!r}, character {at + 1}: {said}")
        self.at, self.said = at, said


def parse_event(text: str) -> Event:
    """Raise ValueError, which says where it is wrong."""
    reader = _Reader(text, "event")
    event = Event(reader.name, reader.params(indexed=True), anonymous=reader.takes("anonymous"))
    reader.end()
    return check_event(event)


def parse_function(text: str) -> Function:
    """What follows the parameters (`external returns (…)`) is left alone."""
    reader = _Reader(text, "function")
    return Function(reader.name, reader.params(indexed=False))


class _Reader:
    def __init__(self, text: str, kind: str) -> None:
        if len(text) > _MOST_CHARS:
            raise ValueError(f"a signature has at most {_MOST_CHARS} characters")
        head = _HEAD.match(text)
        if head is None or head[1] not in (None, kind):
            raise ValueError(f"{text[:80]!r} is no {kind}: write {_EXAMPLES[kind]!r}")
        self._text, self._at, self.name = text, head.end(), head[2]

    def params(self, *, indexed: bool, depth: int = 0) -> tuple[Param, ...]:
        if depth > _MOST_DEPTH:
            raise self._wrong(f"tuples nest at most {_MOST_DEPTH} deep")
        self._expect("(")
        found: list[Param] = []
        if self._take(")"):
            return ()
        while True:
            found.append(self._param(indexed=indexed, depth=depth))
            if self._take(")"):
                return tuple(found)
            if not self._take(","):
                raise self._wrong("',' or ')' has to stand here")

    def takes(self, word: str) -> bool:
        found = self._match(NAME, word)
        return found is not None

    def end(self) -> None:
        self._take(";")
        if self._text[self._at :].strip():
            raise self._wrong("nothing can follow here")

    def _param(self, *, indexed: bool, depth: int) -> Param:
        members: tuple[Param, ...] | None = None
        self._space()
        at = self._at
        if self._peek("(") or (self._match(NAME, "tuple") and self._peek("(")):
            members, base = self.params(indexed=False, depth=depth + 1), "tuple"
        else:
            self._at = at
            base = self._match(_TYPE) or ""
            if not base:
                raise self._wrong("a type has to stand here")
        arrays = self._match(_ARRAYS) or ""
        try:
            kind = parse_type(base + "".join(arrays.split()), members)
        except ValueError as error:
            self._at = at
            raise self._wrong(str(error)) from None
        is_indexed, name = False, ""
        while (word := self._match(NAME)) is not None:
            if word == "indexed" and not name and not is_indexed:
                if not indexed:
                    raise self._wrong("only parameters of an event are indexed")
                is_indexed = True
            elif word in _PLACES and not name:
                continue
            elif name:
                raise self._wrong("a parameter has one name")
            else:
                name = word
        return Param(name, kind, is_indexed)

    def _match(self, pattern: re.Pattern[str], word: str | None = None) -> str | None:
        self._space()
        found = pattern.match(self._text, self._at)
        if found is None or word not in (None, found[0]):
            return None
        self._at = found.end()
        return found[0]

    def _peek(self, mark: str) -> bool:
        self._space()
        return self._text.startswith(mark, self._at)

    def _take(self, mark: str) -> bool:
        if not self._peek(mark):
            return False
        self._at += len(mark)
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._wrong(f"{mark!r} has to stand here")

    def _space(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _wrong(self, said: str) -> WrongSignature:
        return WrongSignature(self._text, self._at, said)


_EXAMPLES = {
    "event": "Transfer(address indexed from, address indexed to, uint256 value)",
    "function": "transfer(address to, uint256 amount)",
}
