"""Logs by the events that they are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trace_platform.operators.decode.abi import Abi, Event, output_names
from trace_platform.operators.decode.decoded import (
    ABI,
    UNDECODED,
    Case,
    Codes,
    Decoded,
    Indexes,
    Undecoded,
    assembled,
    origins_of,
    undecoded_schema,
)
from trace_platform.operators.decode.layout import Laid, laid_out
from trace_platform.operators.decode.values import Decoder, topic_columns
from trace_platform.operators.evm.schema import LOGS

TOPICS = ("topic0", "topic1", "topic2", "topic3")
_TIMESTAMP, _CHAIN_ID = LOGS.field("timestamp"), LOGS.field("chain_id").with_nullable(True)
KEPT = pa.schema(
    [
        LOGS.field("block_number"),
        LOGS.field("block_hash").with_nullable(True),
        _TIMESTAMP,
        *(LOGS.field(name) for name in ("transaction_hash", "transaction_index", "log_index")),
        LOGS.field("address"),
        _CHAIN_ID,
    ]
)
RAW = pa.schema([*(LOGS.field(name) for name in TOPICS), LOGS.field("data")])
# Logs that others wrote may lack these: they are null then.
MAY_LACK = ("block_hash", "timestamp", "chain_id", *TOPICS[1:])
_UNKNOWN, _OTHER_TOPICS = "unknown_event", "topic_count"


class LogDecoder:
    """Of events that can be told apart. `schemas` are of an output per event, and of what is not
    decoded."""

    def __init__(self, chosen: Sequence[tuple[Abi, Event]]) -> None:
        self._events = [event for _, event in chosen]
        taken = (*KEPT.names, ABI.name)
        self.cases = [
            Case(name, abi.version, laid_out(event.params, taken))
            for name, (abi, event) in zip(output_names(chosen), chosen, strict=True)
        ]
        self.outputs = (*(case.output for case in self.cases), UNDECODED)

    @cached_property
    def schemas(self) -> list[pa.Schema]:
        return [*(case.schema(KEPT) for case in self.cases), undecoded_schema(KEPT, RAW, "event")]

    @property
    def made_of(self) -> list[dict[str, list[str]]]:
        """By output and column: the columns of logs that it is read from."""
        found = []
        for event, case in zip(self._events, self.cases, strict=True):
            topics = iter(TOPICS[not event.anonymous :])
            held = [next(topics) if each.param.indexed else "data" for each in case.laid]
            found.append(origins_of(case, KEPT, held))
        raw = {name: [name] for name in (*KEPT.names, *RAW.names)}
        return [*found, {**raw, "event": ["topic0"], "reason": list(RAW.names)}]

    @property
    def topics(self) -> list[bytes]:
        """The first topics that tell an event."""
        return list(dict.fromkeys(e.topic0 for e in self._events if not e.anonymous))

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        found, undecoded = Decoded(), Undecoded(batch.num_rows)
        for number, rows in self._routed(batch, undecoded):
            own = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            decoded, reasons = self._rows(number, own)
            right = reasons == 0
            if not right.all():
                undecoded.add(rows[~right], self.outputs[number], reasons[~right])
                decoded = decoded.filter(pa.array(right))
            found.counts[self.outputs[number], ""] += decoded.num_rows
            found.batches.append((number, decoded))
        found.counts += Counter(dict(undecoded.counts()))
        if (rest := undecoded.batch(batch, self.schemas[-1])) is not None:
            found.batches.append((len(self.cases), rest))
        return found

    def _rows(self, number: int, logs: pa.RecordBatch) -> tuple[pa.RecordBatch, Codes]:
        """All rows, also those that have a reason not to be there."""
        case, event = self.cases[number], self._events[number]
        decoder = Decoder(logs["data"])
        plain = [laid for laid in case.laid if not laid.param.indexed]
        columns = _by_name(plain, decoder.params(plain))
        reasons = decoder.reasons
        topics = iter(TOPICS[not event.anonymous :])
        for laid in case.laid:
            if laid.param.indexed:
                values, wrong = topic_columns(laid, logs[next(topics)])
                columns |= _by_name([laid], values)
                reasons = np.where(reasons == 0, wrong, reasons)
        ordered = [columns[column.name] for laid in case.laid for column in laid.columns]
        return assembled(case, logs, ordered, self.schemas[number], len(KEPT)), reasons

    def _routed(self, batch: pa.RecordBatch, undecoded: Undecoded) -> list[tuple[int, Indexes]]:
        """The rows of each event that has some. The same first topic with another number of topics
        is another event: an ERC-721 transfer has one more than an ERC-20 one."""
        count = _topic_count(batch)
        known = pc.index_in(batch["topic0"], value_set=pa.array(self.topics, pa.binary()))
        first = known.fill_null(-1).to_numpy(zero_copy_only=False)
        event = self._table[first, count]
        nowhere = event < 0
        for rows, reason in (
            (np.flatnonzero(nowhere & (first >= 0)), _OTHER_TOPICS),
            (np.flatnonzero(nowhere & (first < 0)), _UNKNOWN),
        ):
            for place in np.unique(first[rows]):
                of = rows[first[rows] == place]
                undecoded.say(of, self._tried.get(int(place)), reason)
        there = np.unique(event[~nowhere])
        return [(int(number), np.flatnonzero(event == number)) for number in there]

    @cached_property
    def _table(self) -> Indexes:
        """By the place of the first topic among those that are known, and the number of topics: an
        event. The last row is of all other first topics: anonymous events."""
        table = np.full((len(self.topics) + 1, len(TOPICS) + 2), -1, np.int64)
        for number, event in enumerate(self._events):
            row = -1 if event.anonymous else self.topics.index(event.topic0)
            table[row, event.topics] = number
        return table

    @cached_property
    def _tried(self) -> dict[int, str]:
        """By the place of a first topic: the first output that it may be of."""
        found: dict[int, str] = {}
        for event, case in zip(self._events, self.cases, strict=True):
            if not event.anonymous:
                found.setdefault(self.topics.index(event.topic0), case.output)
        return found


def _by_name(laid: Sequence[Laid], columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
    names = (column.name for each in laid for column in each.columns)
    return dict(zip(names, columns, strict=True))


def _topic_count(batch: pa.RecordBatch) -> Indexes:
    """One more than there can be for a log that has a later topic without an earlier one."""
    there = np.stack([batch[name].is_valid().to_numpy(zero_copy_only=False) for name in TOPICS])
    gap = (there[1:] & ~there[:-1]).any(axis=0)
    found: Indexes = np.where(gap, len(TOPICS) + 1, there.sum(axis=0))
    return found
