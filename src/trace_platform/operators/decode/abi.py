"""Events and functions of a contract, and the ABI that they are a part of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trace_platform.domain.evm_encoding import keccak256
from trace_platform.operators.decode.abi_type import Array, Param, Tuple, Type, types_of

# The output of rows that become nothing else.
UNDECODED = "undecoded"
# Of a hash: enough to tell the versions of one contract apart.
_VERSION_CHARS = 12
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_NAME = re.compile(r"[^a-z0-9]+")
# As Solidity and Vyper write names. Columns are called by them.
NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    params: tuple[Param, ...]
    anonymous: bool = False

    @property
    def signature(self) -> str:
        return self.name + types_of(self.params)

    @property
    def topic0(self) -> bytes:
        return keccak256(self.signature.encode())

    @property
    def indexed(self) -> tuple[Param, ...]:
        return tuple(param for param in self.params if param.indexed)

    @property
    def plain(self) -> tuple[Param, ...]:
        return tuple(param for param in self.params if not param.indexed)

    @property
    def topics(self) -> int:
        """How many a log of it has."""
        return len(self.indexed) + (not self.anonymous)


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    params: tuple[Param, ...]

    @property
    def signature(self) -> str:
        return self.name + types_of(self.params)

    @property
    def selector(self) -> bytes:
        return keccak256(self.signature.encode())[:4]


@dataclass(frozen=True, slots=True)
class Abi:
    # Before the names of its outputs; empty: they have their own names alone.
    name: str
    events: tuple[Event, ...] = ()
    functions: tuple[Function, ...] = ()

    @property
    def digest(self) -> str:
        """The same for the same definitions, in whatever order they are written."""
        lines = [*map(written, self.events), *map(written, self.functions)]
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()

    @property
    def version(self) -> str:
        return version_of(self.digest)


def version_of(digest: str) -> str:
    """As rows and lists say it."""
    return digest[:_VERSION_CHARS]


def check_event(event: Event) -> Event:
    """Raise ValueError for what no log can be."""
    most = 4 if event.anonymous else 3
    if len(event.indexed) > most:
        raise ValueError(f"event {event.name} has {len(event.indexed)} indexed, at most {most} can")
    return event


def snake_case(name: str) -> str:
    """Of an event or a function, as an output of a job may be called."""
    found = _NO_NAME.sub("_", _CAPITAL.sub("_", name).lower()).strip("_")
    return found if found[:1].isalpha() else f"x_{found}".rstrip("_")


def output_names(entries: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """One for each, by the names of its ABI and its own, in order; overloads get a number, and so
    does what would be called as the output that comes last."""
    names: list[str] = []
    for abi, entry in entries:
        name = f"{abi}_{snake_case(entry)}" if abi else snake_case(entry)
        numbered, n = name, 2
        while numbered in (*names, UNDECODED):
            numbered, n = f"{name}_{n}", n + 1
        names.append(numbered)
    return tuple(names)


def written(each: Event | Function) -> str:
    """As `parse_event` and `parse_function` read it."""
    kind = "function" if isinstance(each, Function) else "event"
    anonymous = " anonymous" if isinstance(each, Event) and each.anonymous else ""
    return f"{kind} {each.name}{_params(each.params)}{anonymous}"


def _params(params: tuple[Param, ...]) -> str:
    """With names, and which are indexed."""
    return f"({', '.join(map(_param, params))})"


def _param(param: Param) -> str:
    indexed = " indexed" if param.indexed else ""
    return f"{_type(param.type)}{indexed} {param.name}"


def _type(kind: Type) -> str:
    if isinstance(kind, Tuple):
        return _params(kind.members)
    if isinstance(kind, Array):
        return f"{_type(kind.item)}[{'' if kind.length is None else kind.length}]"
    return str(kind)
