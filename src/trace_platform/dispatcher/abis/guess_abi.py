"""Which ABI may this be? What is known of signatures, and of topics and selectors of data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from trace_platform.dispatcher.abis.list_abis import shown_entries, shown_entry
from trace_platform.domain.errors import InvalidAbi
from trace_platform.drivers.postgres.database import Database
from trace_platform.operators.decode import builtin
from trace_platform.operators.decode.abi import Abi, Event, Function, version_of
from trace_platform.operators.decode.abi_source import read_abi
from trace_platform.operators.decode.abi_text import parse_event, parse_function
from trace_platform.state import abis
from trace_platform.wire.abi import AbiGuess, AbiGuesses, GuessAbi, GuessedEntry, SeenId


@dataclass(frozen=True, slots=True)
class _Known:
    """An ABI that it may be."""

    abi: Abi
    builtin: bool
    version: str


async def guess_abi(state: Database, org_id: UUID, given: GuessAbi) -> AbiGuesses:
    """Raise InvalidAbi for a text that is neither an ABI nor a signature."""
    events, functions = _read(given.text) if given.text else ((), ())
    seen = [*given.seen, *_ids(events, functions)]
    guesses = [guess for each in await _known(state, org_id) if (guess := _guess(each, seen))]
    found = {entry.id for guess in guesses for entry in guess.matched}
    unknown = [each for each in given.seen if each.id.lower() not in found]
    return AbiGuesses(
        entries=shown_entries(events, functions),
        guesses=sorted(guesses, key=_best_first),
        unknown=sorted(unknown, key=lambda each: -each.rows),
    )


def _read(text: str) -> tuple[Sequence[Event], Sequence[Function]]:
    """An ABI, or one signature: as that of an event and as that of a function, when it is not said
    which."""
    events: list[Event] = []
    functions: list[Function] = []
    with suppress(ValueError):
        events.append(parse_event(text))
    with suppress(ValueError):
        functions.append(parse_function(text))
    if events or functions:
        return events, functions
    try:
        abi = read_abi(text)
    except InvalidAbi as error:
        raise InvalidAbi(
            error.message,
            hint="give an ABI, or a signature such as Transfer(address,address,uint256)",
            **error.facts,
        ) from None
    return abi.events, abi.functions


def _ids(events: Iterable[Event], functions: Iterable[Function]) -> Iterator[SeenId]:
    for event in events:
        # Without names nobody says which parameters are indexed.
        topics = event.topics if event.indexed else None
        if not event.anonymous:
            yield SeenId(id=f"0x{event.topic0.hex()}", topics=topics)
    for function in functions:
        yield SeenId(id=f"0x{function.selector.hex()}")


async def _known(state: Database, org_id: UUID) -> list[_Known]:
    async with state.transaction() as tx:
        versions = await abis.versions(tx, org_id)
        said = await abis.definitions(tx, list({each.hash for each in versions}))
    found = [_Known(abi, True, abi.version) for abi in map(builtin.builtin, builtin.NAMES)]
    for name, hash in dict.fromkeys((each.name, each.hash) for each in versions):
        text = said[hash]
        events, functions = map(parse_event, text.events), map(parse_function, text.functions)
        found.append(_Known(Abi(name, tuple(events), tuple(functions)), False, version_of(hash)))
    return found


def _guess(known: _Known, seen: Sequence[SeenId]) -> AbiGuess | None:
    matched = [entry for each in _entries(known.abi) if (entry := _matched(*each, seen))]
    if not matched:
        return None
    return AbiGuess(
        name=known.abi.name,
        builtin=known.builtin,
        version=known.version,
        matched=sorted(matched, key=lambda each: -each.rows),
        of=len(known.abi.events) + len(known.abi.functions),
    )


def _entries(abi: Abi) -> Iterator[tuple[str, str, int | None]]:
    """Signature, id, and how many topics its logs have."""
    for event in abi.events:
        if not event.anonymous:
            yield shown_entry(event), f"0x{event.topic0.hex()}", event.topics
    for function in abi.functions:
        yield shown_entry(function), f"0x{function.selector.hex()}", None


def _matched(
    signature: str, id: str, topics: int | None, seen: Sequence[SeenId]
) -> GuessedEntry | None:
    same = [
        each
        for each in seen
        if each.id.lower() == id and (None in (each.topics, topics) or each.topics == topics)
    ]
    rows = sum(each.rows for each in same)
    return GuessedEntry(signature=signature, id=id, rows=rows) if same else None


def _best_first(guess: AbiGuess) -> tuple[int, float]:
    """By the rows that it explains, then by how much of it is there."""
    return -sum(each.rows for each in guess.matched), -len(guess.matched) / guess.of
