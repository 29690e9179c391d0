"""Stored ABIs, for whole batches: which version decodes a row, and which columns there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trace_platform.operators.decode.abi import Event, Function
from trace_platform.operators.decode.abi_text import parse_event, parse_function
from trace_platform.operators.decode.config import StoredEntry
from trace_platform.operators.decode.decoded import Case, Indexes
from trace_platform.operators.decode.layout import laid_out
from trace_platform.wire.abi import AbiSignatures, TaskAbi


@dataclass(frozen=True, slots=True)
class Versioned:
    """An entry as one version of a stored ABI has it, and what becomes of its rows."""

    # The version's place among those of its ABI.
    version: int
    entry: Event | Function
    case: Case


class StoredAbis:
    """The stored ABIs of a task, each with the entries that it decodes."""

    def __init__(
        self,
        given: Sequence[TaskAbi],
        wanted: Mapping[int, StoredEntry],
        kind: type[Event] | type[Function],
        taken: Sequence[str],
    ) -> None:
        """`wanted` are entries by the number of their output, `taken` names of other columns."""
        known = {abi.name: abi for abi in given}
        self._columns: dict[int, list[pa.Field]] = {number: [] for number in wanted}
        self.abis: list[tuple[PlacedVersions, list[Versioned]]] = []
        for name in dict.fromkeys(entry.abi for entry in wanted.values()):
            abi = known.get(name, TaskAbi(name=name, versions=[], places=[]))
            own = {entry.name: number for number, entry in wanted.items() if entry.abi == name}
            found = list(self._versioned(abi, own, kind, taken))
            self.abis.append((PlacedVersions(abi), found))

    def columns(self, output: int) -> list[pa.Field]:
        """Of all versions that are valid. Null in rows of those that do not have it."""
        return self._columns[output]

    def _versioned(
        self,
        abi: TaskAbi,
        wanted: Mapping[str, int],
        kind: type[Event] | type[Function],
        taken: Sequence[str],
    ) -> Iterable[Versioned]:
        """Columns are named in the order in which versions came, so that no later one changes what
        there is."""
        known: dict[int, dict[str, pa.Field]] = {number: {} for number in wanted.values()}
        for n, said in enumerate(abi.versions):
            for entry in _entries(said, kind):
                number = wanted.get(entry.name)
                if number is None:
                    continue
                laid = laid_out(entry.params, taken, known[number])
                case = Case(number, said.version, laid)
                known[number] |= {column.name.lower(): column for column in case.columns}
                if said.valid:
                    self._add_columns(number, case.columns)
                    yield Versioned(n, entry, case)

    def _add_columns(self, output: int, columns: Sequence[pa.Field]) -> None:
        there = {column.name for column in self._columns[output]}
        self._columns[output] += [
            column.with_nullable(True) for column in columns if column.name not in there
        ]


def _entries(said: AbiSignatures, kind: type[Event] | type[Function]) -> list[Event | Function]:
    if kind is Event:
        return [parse_event(text) for text in said.events]
    return [parse_function(text) for text in said.functions]


class PlacedVersions:
    """By contract and block: the version of an ABI that decodes it."""

    def __init__(self, abi: TaskAbi) -> None:
        versions = [said.version for said in abi.versions]
        contracts = dict.fromkeys(place.address for place in abi.places if place.address)
        self.addresses = [bytes.fromhex(address[2:]) for address in contracts]
        self.decodes_any = any(place.address is None for place in abi.places)
        rows = {address: n for n, address in enumerate(contracts)}
        # Nothing begins or ends between two of these blocks.
        edges = {edge for place in abi.places for edge in (place.start, place.end + 1)}
        self._edges = np.array(sorted(edges), np.int64)
        # The last row is of all other contracts.
        self._version = np.full((len(rows) + 1, len(edges) + 1), -1, np.int64)
        for place in abi.places:
            row = -1 if place.address is None else rows[place.address]
            first, last = self._ranks(np.array([place.start, place.end]))
            self._version[row, first : last + 1] = versions.index(place.version)

    def of(self, contract: pa.Array, block: pa.Array) -> Indexes:
        """The place of the version of each row; -1: none decodes it."""
        known = pa.array(self.addresses, pa.binary())
        row = pc.index_in(contract, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
        rank = self._ranks(block.to_numpy(zero_copy_only=False))
        own, of_any = self._version[row, rank], self._version[-1, rank]
        found: Indexes = np.where(own >= 0, own, of_any)
        return found

    def _ranks(self, blocks: Indexes) -> Indexes:
        found: Indexes = np.searchsorted(self._edges, blocks, side="right")
        return found
