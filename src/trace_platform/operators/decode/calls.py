"""Calls, of transactions or of traces, by the functions that they call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trace_platform.operators.decode.abi import UNDECODED, Abi, Function
from trace_platform.operators.decode.config import StoredEntry, names_of
from trace_platform.operators.decode.decoded import (
    ABI,
    Case,
    Codes,
    Decoded,
    Indexes,
    Undecoded,
    assembled,
    by_name,
    origins_of,
    schema_of,
    undecoded_schema,
)
from trace_platform.operators.decode.layout import laid_out
from trace_platform.operators.decode.stored import PlacedVersions, StoredAbis, Versioned
from trace_platform.operators.decode.values import Decoder
from trace_platform.operators.evm.schema import TRANSACTIONS
from trace_platform.wire.abi import TaskAbi

SELECTOR_BYTES = 4
INPUT = "input"
RAW = pa.schema([TRANSACTIONS.field(INPUT)])
_UNKNOWN = "unknown_function"


class CallDecoder:
    """`kept` are the columns that come with each call: they differ between transactions and
    traces. A call that a stored ABI knows, of the contract that is called, is that ABI's."""

    def __init__(
        self,
        chosen: Sequence[tuple[Abi, Function] | StoredEntry],
        kept: pa.Schema,
        given: Sequence[TaskAbi] = (),
        *,
        chain_id: int | None = None,
        keeps_unknown: bool = True,
    ) -> None:
        """`keeps_unknown`: calls of no function are kept too, as those of chosen contracts are."""
        taken = (*kept.names, ABI.name)
        self._kept = kept
        self.outputs = (*names_of(chosen), UNDECODED)
        self.chain_id, self._keeps_unknown = chain_id, keeps_unknown
        known = [(n, each) for n, each in enumerate(chosen) if not isinstance(each, StoredEntry)]
        wanted = {n: each for n, each in enumerate(chosen) if isinstance(each, StoredEntry)}
        self.selectors = [function.selector for _, (_, function) in known]
        self._cases = [
            Case(number, abi.version, laid_out(function.params, taken))
            for number, (abi, function) in known
        ]
        self._stored = StoredAbis(given, wanted, Function, taken)
        self.by_place = [FunctionsByPlace(*each) for each in self._stored.abis]

    @cached_property
    def schemas(self) -> list[pa.Schema]:
        known = {case.output: case.columns for case in self._cases}
        decoded = [
            schema_of(self._kept, known[n] if n in known else self._stored.columns(n))
            for n in range(len(self.outputs) - 1)
        ]
        return [*decoded, undecoded_schema(self._kept, RAW, "function")]

    @property
    def made_of(self) -> list[dict[str, list[str]]]:
        """By output and column: the columns of calls that it is read from."""
        stored = [each.case for _, versions in self._stored.abis for each in versions]
        held = ((case, [INPUT] * len(case.laid)) for case in (*self._cases, *stored))
        raw = {name: [name] for name in (*self._kept.names, INPUT)}
        rest = {**raw, "function": [INPUT], "reason": [INPUT]}
        return [*origins_of(held, len(self.outputs) - 1, self._kept), rest]

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        found, undecoded = Decoded(), Undecoded(batch.num_rows)
        for case, rows in self._routed(batch, undecoded):
            decoded, reasons = self._rows(case, batch.take(pa.array(rows)))
            right = reasons == 0
            undecoded.add(rows[~right], self.outputs[case.output], reasons[~right])
            decoded = decoded.filter(pa.array(right))
            found.counts[self.outputs[case.output], ""] += decoded.num_rows
            found.batches.append((case.output, decoded))
        found.counts += Counter(dict(undecoded.counts()))
        if (rest := undecoded.batch(batch, self.schemas[-1])) is not None:
            found.batches.append((len(self.outputs) - 1, rest))
        return found

    def _routed(
        self, batch: pa.RecordBatch, undecoded: Undecoded
    ) -> Iterator[tuple[Case, Indexes]]:
        """The rows of each function that has some."""
        selectors = pc.binary_slice(batch[INPUT], 0, SELECTOR_BYTES)
        left = np.ones(batch.num_rows, bool)
        for stored in self.by_place:
            number = stored.routed(batch, selectors, self.chain_id)
            yield from _by_case(np.where(left, number, -1), stored.cases)
            left &= number < 0
        known = pc.index_in(selectors, value_set=pa.array(self.selectors, pa.binary()))
        number = np.where(left, known.fill_null(-1).to_numpy(zero_copy_only=False), -1)
        if self._keeps_unknown:
            undecoded.say(np.flatnonzero(left & (number < 0)), None, _UNKNOWN)
        yield from _by_case(number, self._cases)

    def _rows(self, case: Case, calls: pa.RecordBatch) -> tuple[pa.RecordBatch, Codes]:
        decoder = Decoder(calls[INPUT], skip=SELECTOR_BYTES)
        # A contract takes a call that goes on behind its arguments: routers put tags there.
        columns = by_name(case.laid, decoder.params(case.laid, may_be_longer=True))
        schema = self.schemas[case.output]
        return assembled(case, calls, columns, schema, len(self._kept)), decoder.reasons


class FunctionsByPlace:
    """Of one stored ABI: which function a call is of, by its contract, block and selector."""

    def __init__(self, placed: PlacedVersions, versioned: Sequence[Versioned]) -> None:
        self.placed = placed
        self.cases = [each.case for each in versioned]
        own = [each.entry.selector for each in versioned if isinstance(each.entry, Function)]
        self.selectors = list(dict.fromkeys(own))
        self._versions = max((each.version for each in versioned), default=-1) + 1
        # The last version is none, the last selector any other.
        self._number = np.full((self._versions + 1, len(self.selectors) + 1), -1, np.int64)
        for number, (each, selector) in enumerate(zip(versioned, own, strict=True)):
            self._number[each.version, self.selectors.index(selector)] = number

    def routed(self, batch: pa.RecordBatch, selectors: pa.Array, chain_id: int | None) -> Indexes:
        """Of each row the number of its case; -1: none."""
        version = self.placed.of(batch["to_address"], batch["block_number"])
        version = np.where(version < self._versions, version, -1)
        other = pc.fill_null(pc.not_equal(batch["chain_id"], chain_id), False)
        version[other.to_numpy(zero_copy_only=False)] = -1
        known = pc.index_in(selectors, value_set=pa.array(self.selectors, pa.binary()))
        selector = known.fill_null(-1).to_numpy(zero_copy_only=False)
        found: Indexes = self._number[version, selector]
        return found


def _by_case(number: Indexes, cases: Sequence[Case]) -> Iterator[tuple[Case, Indexes]]:
    for each in np.unique(number[number >= 0]).tolist():
        yield cases[each], np.flatnonzero(number == each)
