"""Calls, of transactions or of traces, by the functions that they call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trace_platform.operators.decode.abi import Abi, Function, output_names
from trace_platform.operators.decode.decoded import (
    ABI,
    UNDECODED,
    Case,
    Codes,
    Decoded,
    Undecoded,
    assembled,
    origins_of,
    undecoded_schema,
)
from trace_platform.operators.decode.layout import laid_out
from trace_platform.operators.decode.values import Decoder
from trace_platform.operators.evm.schema import TRANSACTIONS

SELECTOR_BYTES = 4
INPUT = "input"
RAW = pa.schema([TRANSACTIONS.field(INPUT)])
_UNKNOWN = "unknown_function"


class CallDecoder:
    """`kept` are the columns that come with each call: they differ between transactions and
    traces."""

    def __init__(self, chosen: Sequence[tuple[Abi, Function]], kept: pa.Schema) -> None:
        self._kept = kept
        self.selectors = [function.selector for _, function in chosen]
        taken = (*kept.names, ABI.name)
        self.cases = [
            Case(name, abi.version, laid_out(function.params, taken))
            for name, (abi, function) in zip(output_names(chosen), chosen, strict=True)
        ]
        self.outputs = (*(case.output for case in self.cases), UNDECODED)

    @cached_property
    def schemas(self) -> list[pa.Schema]:
        rest = undecoded_schema(self._kept, RAW, "function")
        return [*(case.schema(self._kept) for case in self.cases), rest]

    @property
    def made_of(self) -> list[dict[str, list[str]]]:
        """By output and column: the columns of calls that it is read from."""
        found = [origins_of(case, self._kept, [INPUT] * len(case.laid)) for case in self.cases]
        raw = {name: [name] for name in (*self._kept.names, INPUT)}
        return [*found, {**raw, "function": [INPUT], "reason": [INPUT]}]

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        found, undecoded = Decoded(), Undecoded(batch.num_rows)
        selectors = pc.binary_slice(batch[INPUT], 0, SELECTOR_BYTES)
        known = pc.index_in(selectors, value_set=pa.array(self.selectors, pa.binary()))
        function = known.fill_null(-1).to_numpy(zero_copy_only=False)
        undecoded.say(np.flatnonzero(function < 0), None, _UNKNOWN)
        for number in np.unique(function[function >= 0]).tolist():
            rows = np.flatnonzero(function == number)
            decoded, reasons = self._rows(number, batch.take(pa.array(rows)))
            right = reasons == 0
            undecoded.add(rows[~right], self.outputs[number], reasons[~right])
            decoded = decoded.filter(pa.array(right))
            found.counts[self.outputs[number], ""] += decoded.num_rows
            found.batches.append((number, decoded))
        found.counts += Counter(dict(undecoded.counts()))
        if (rest := undecoded.batch(batch, self.schemas[-1])) is not None:
            found.batches.append((len(self.cases), rest))
        return found

    def _rows(self, number: int, calls: pa.RecordBatch) -> tuple[pa.RecordBatch, Codes]:
        case = self.cases[number]
        decoder = Decoder(calls[INPUT], skip=SELECTOR_BYTES)
        # A contract takes a call that goes on behind its arguments: routers put tags there.
        columns = decoder.params(case.laid, may_be_longer=True)
        rows = assembled(case, calls, columns, self.schemas[number], len(self._kept))
        return rows, decoder.reasons
