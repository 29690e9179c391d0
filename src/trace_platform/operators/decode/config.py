"""What `log_decode` and `call_decode` are told: which ABIs, and of which contracts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from trace_platform.domain.chains import MAX_CHAIN_ID
from trace_platform.operators.contract import OperatorConfig
from trace_platform.operators.decode import builtin
from trace_platform.operators.decode.abi import Abi, Event, Function, output_names
from trace_platform.operators.decode.abi_json import events_of, functions_of
from trace_platform.operators.decode.abi_text import parse_event, parse_function
from trace_platform.wire.abi import TaskAbi
from trace_platform.wire.manifest import ManifestColumn

_Entry = TypeVar("_Entry", Event, Function)

Signature = Annotated[str, Field(min_length=3, max_length=10_000)]
EntryName = Annotated[str, Field(pattern=r"^[A-Za-z_$][A-Za-z0-9_$]*$", max_length=256)]
Names = tuple[str, ...]
AbiName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
Address = Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{40}$")]


class OwnAbi(BaseModel):
    """An ABI that stands in the config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: AbiName = Field(description="Name of the ABI: its outputs begin with it.")
    events: tuple[Signature, ...] = Field(
        default=(),
        description="Events, as Solidity writes them: "
        "`Transfer(address indexed from, address indexed to, uint256 value)`.",
    )
    functions: tuple[Signature, ...] = Field(
        default=(),
        description="Functions, as Solidity writes them: `transfer(address to, uint256 value)`.",
    )
    abi: tuple[dict[str, Any], ...] = Field(
        default=(), description="Entries of a JSON ABI, as a compiler writes it."
    )

    def parsed(self) -> Abi:
        return Abi(
            self.name,
            (*map(parse_event, self.events), *events_of(self.abi)),
            (*map(parse_function, self.functions), *functions_of(self.abi)),
        )


class StoredAbi(BaseModel):
    """An ABI that the instance keeps, in whatever version is valid where a row comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stored: AbiName = Field(description="Name of an ABI that the instance keeps: `trace abi list`.")
    events: tuple[EntryName, ...] = Field(
        default=(),
        max_length=64,
        description="Names of events of it that are decoded: an output each, whatever their "
        "versions are.",
    )
    functions: tuple[EntryName, ...] = Field(
        default=(),
        max_length=64,
        description="Names of functions of it that are decoded: an output each, whatever their "
        "versions are.",
    )


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An event or a function of a stored ABI, by name: its versions are known when a task runs."""

    abi: str
    name: str


class AddressColumn(BaseModel):
    """Addresses in a column of another input of the job, all of whose rows a task reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: int | None = Field(
        default=None,
        ge=1,
        le=1_000,
        description="Number of the job's input that has the addresses; or `from`.",
    )
    source: dict[str, Any] | None = Field(
        default=None,
        alias="from",
        description="What that input reads, such as `{ dataset: pools }`. It is an input of the "
        "job then, which does not wake it unless the job has it among its inputs.",
    )
    column: str = Field(
        min_length=1, description="Its column of addresses: 20 bytes, or text that begins with 0x."
    )

    @model_validator(mode="after")
    def _has_input(self) -> AddressColumn:
        # The DAG file's reader has put the number of the input in place of `from`.
        if self.input is None or self.source is not None:
            raise ValueError("give one of `input` and `from`, and `inputs` to the job")
        return self


# What is wrong with one of two forms is told of that form alone.
def _form(given: object) -> str:
    if isinstance(given, str):
        return "name"
    is_stored = isinstance(given, StoredAbi) or (isinstance(given, dict) and "stored" in given)
    return "stored" if is_stored else "abi"


_AnyAbi = Annotated[
    Annotated[str, Tag("name")]
    | Annotated[StoredAbi, Tag("stored")]
    | Annotated[OwnAbi, Tag("abi")],
    Discriminator(_form),
]
_Listed = Annotated[tuple[Address, ...], Field(min_length=1, max_length=1_000)]
_Addresses = Annotated[
    Annotated[_Listed, Tag("list")] | Annotated[AddressColumn, Tag("column")],
    Discriminator(lambda given: "list" if isinstance(given, list | tuple) else "column"),
]


class DecodeConfig(OperatorConfig):
    abis: tuple[_AnyAbi, ...] = Field(
        default=(),
        max_length=64,
        description="ABIs that come with Trace, whole (`erc20`) or one entry (`erc20.Transfer`), "
        "ABIs that the instance keeps (`{ stored: vault, events: [Deposit] }`), and ABIs of one's "
        "own.",
    )
    chain_id: int | None = Field(
        default=None,
        ge=1,
        le=MAX_CHAIN_ID,
        description="Chain of which stored ABIs are. Needed with them.",
    )
    addresses: _Addresses | None = Field(
        default=None,
        description="Contracts that are looked at: a list, or a column of another input. "
        "Null: all of them.",
    )

    def columns_by(self, abis: Sequence[TaskAbi]) -> list[list[ManifestColumn]]:
        """The columns of each output, with these stored ABIs."""
        raise NotImplementedError

    def made_of_by(self, abis: Sequence[TaskAbi]) -> list[dict[str, list[str]]]:
        """As `made_of`, with these stored ABIs."""
        raise NotImplementedError

    def made_of(self) -> list[dict[str, list[str]]] | None:
        return None if self.stored else self.made_of_by(())

    @property
    def stored(self) -> bool:
        """Whether columns depend on what the instance keeps."""
        return any(isinstance(each, StoredAbi) for each in self.abis)

    @model_validator(mode="after")
    def _has_chain(self) -> DecodeConfig:
        names = [each.stored for each in self.abis if isinstance(each, StoredAbi)]
        if names and self.chain_id is None:
            raise ValueError(f"stored ABIs are of a chain: give `chain_id` with {names[0]!r}")
        if len(set(names)) < len(names):
            raise ValueError("a stored ABI is named once, with all of its entries")
        return self


class EventsConfig(DecodeConfig):
    events: tuple[Signature, ...] = Field(
        default=(),
        max_length=64,
        description="Events of no ABI, as Solidity writes them. Their outputs have their own "
        "names alone.",
    )

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> EventsConfig:
        chosen = self.chosen()
        known = [each[1] for each in chosen if not isinstance(each, StoredEntry)]
        if known or not chosen:
            check_events(known, by_address=self.addresses is not None)
        return self

    def chosen(self) -> list[tuple[Abi, Event] | StoredEntry]:
        own = [Abi("", (parse_event(each),)) for each in self.events]
        return [*_chosen(self.abis, "events"), *((abi, abi.events[0]) for abi in own)]


class FunctionsConfig(DecodeConfig):
    functions: tuple[Signature, ...] = Field(
        default=(),
        max_length=64,
        description="Functions of no ABI, as Solidity writes them. Their outputs have their own "
        "names alone.",
    )

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> FunctionsConfig:
        chosen = self.chosen()
        known = [each[1] for each in chosen if not isinstance(each, StoredEntry)]
        if known or not chosen:
            check_functions(known)
        return self

    def chosen(self) -> list[tuple[Abi, Function] | StoredEntry]:
        own = [Abi("", (), (parse_function(each),)) for each in self.functions]
        return [*_chosen(self.abis, "functions"), *((abi, abi.functions[0]) for abi in own)]


def check_events(events: Sequence[Event], *, by_address: bool) -> None:
    """Raise ValueError when there are none, or when a log could be of two of them."""
    if not events:
        raise ValueError("there are no events: name ABIs (`abis: [erc20]`) or write `events`")
    seen: dict[tuple[bytes | None, int], Event] = {}
    for event in events:
        if event.anonymous and not by_address:
            said = f"event {event.name} is anonymous: only the address tells its logs"
            raise ValueError(f"{said}; give `addresses`")
        key = (None if event.anonymous else event.topic0, event.topics)
        if (other := seen.setdefault(key, event)) is not event:
            raise ValueError(
                f"{other.signature} and {event.signature} both have {len(event.indexed)} indexed"
                " parameters, and no log tells them apart: leave one out, or decode them in jobs of"
                " their own, each with `addresses`"
            )


def check_functions(functions: Sequence[Function]) -> None:
    if not functions:
        raise ValueError("there are no functions: name ABIs (`abis: [erc20]`) or write `functions`")
    seen: dict[bytes, Function] = {}
    for function in functions:
        if (other := seen.setdefault(function.selector, function)) is not function:
            raise ValueError(
                f"{other.signature} and {function.signature} have the selector"
                f" 0x{function.selector.hex()}: leave one out"
            )


def names_of(chosen: Sequence[tuple[Abi, Event] | tuple[Abi, Function] | StoredEntry]) -> Names:
    """Of the outputs."""
    return output_names(
        [
            (each.abi, each.name) if isinstance(each, StoredEntry) else (each[0].name, each[1].name)
            for each in chosen
        ]
    )


def _chosen(given: Iterable[str | StoredAbi | OwnAbi], kind: str) -> list[Any]:
    found: list[Any] = []
    for each in given:
        if isinstance(each, StoredAbi):
            found += _stored_entries(each, kind)
        else:
            found += [(abi, one) for abi, entries in _entries(each, kind) for one in entries]
    return found


def _stored_entries(given: StoredAbi, kind: str) -> list[StoredEntry]:
    names: tuple[str, ...] = getattr(given, kind)
    if not names:
        raise ValueError(f"name the {kind} of the stored ABI {given.stored!r}: {kind}: [...]")
    if len(set(names)) < len(names):
        raise ValueError(f"one of the {kind} of the stored ABI {given.stored!r} is named twice")
    return [StoredEntry(given.stored, name) for name in names]


def _entries(given: str | OwnAbi, kind: str) -> Iterator[tuple[Abi, Sequence[Any]]]:
    if isinstance(given, OwnAbi):
        abi = given.parsed()
        found = getattr(abi, kind)
    else:
        name, _, entry = given.partition(".")
        if name not in builtin.NAMES:
            raise ValueError(f"there is no ABI {name!r}{_instead(name, builtin.NAMES)}")
        abi = builtin.builtin(name)
        found = getattr(abi, kind)
        if entry:
            found = _named(found, entry, f"ABI {name} has no {entry!r} among its {kind}")
    if not found:
        raise ValueError(f"ABI {abi.name} has no {kind}")
    yield abi, found


def _named(found: Sequence[_Entry], entry: str, wrong: str) -> list[_Entry]:
    chosen = [each for each in found if each.name == entry]
    if not chosen:
        raise ValueError(wrong + _instead(entry, [each.name for each in found]))
    return chosen


def _instead(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = get_close_matches(name, names, 1)
    return f": did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"
