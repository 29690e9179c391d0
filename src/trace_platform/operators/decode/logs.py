"""Logs by the events that they are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trace_platform.operators.decode.abi import UNDECODED, Abi, Event
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
from trace_platform.operators.decode.values import Decoder, topic_columns
from trace_platform.operators.evm.schema import LOGS
from trace_platform.wire.abi import TaskAbi

Flags: TypeAlias = "npt.NDArray[np.bool_]"

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
    decoded. A log that a stored ABI knows, where it comes from, is that ABI's."""

    def __init__(
        self,
        chosen: Sequence[tuple[Abi, Event] | StoredEntry],
        given: Sequence[TaskAbi] = (),
        *,
        chain_id: int | None = None,
        keeps_unknown: bool = True,
    ) -> None:
        """`keeps_unknown`: logs of no event are kept too, as those of chosen contracts are."""
        taken = (*KEPT.names, ABI.name)
        self.outputs = (*names_of(chosen), UNDECODED)
        self.chain_id, self._keeps_unknown = chain_id, keeps_unknown
        known = [(n, each) for n, each in enumerate(chosen) if not isinstance(each, StoredEntry)]
        wanted = {n: each for n, each in enumerate(chosen) if isinstance(each, StoredEntry)}
        self._events = [event for _, (_, event) in known]
        self._cases = [
            Case(number, abi.version, laid_out(event.params, taken))
            for number, (abi, event) in known
        ]
        self._stored = StoredAbis(given, wanted, Event, taken)
        self.by_place = [EventsByPlace(*each) for each in self._stored.abis]

    @cached_property
    def schemas(self) -> list[pa.Schema]:
        known = {case.output: case.columns for case in self._cases}
        decoded = [
            schema_of(KEPT, known[n] if n in known else self._stored.columns(n))
            for n in range(len(self.outputs) - 1)
        ]
        return [*decoded, undecoded_schema(KEPT, RAW, "event")]

    @property
    def made_of(self) -> list[dict[str, list[str]]]:
        """By output and column: the columns of logs that it is read from."""
        stored = [each for _, versions in self._stored.abis for each in versions]
        cases = [*zip(self._cases, self._events, strict=True)]
        cases += [(e.case, e.entry) for e in stored if isinstance(e.entry, Event)]
        held = ((case, _held(case, event)) for case, event in cases)
        raw = {name: [name] for name in (*KEPT.names, *RAW.names)}
        rest = {**raw, "event": ["topic0"], "reason": list(RAW.names)}
        return [*origins_of(held, len(self.outputs) - 1, KEPT), rest]

    @property
    def topics(self) -> list[bytes]:
        """The first topics that tell an event, whoever emits it."""
        return list(dict.fromkeys(e.topic0 for e in self._events if not e.anonymous))

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        found, undecoded = Decoded(), Undecoded(batch.num_rows)
        for case, event, rows in self._routed(batch, undecoded):
            own = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            decoded, reasons = self._rows(case, event, own)
            right = reasons == 0
            if not right.all():
                undecoded.add(rows[~right], self.outputs[case.output], reasons[~right])
                decoded = decoded.filter(pa.array(right))
            found.counts[self.outputs[case.output], ""] += decoded.num_rows
            found.batches.append((case.output, decoded))
        found.counts += Counter(dict(undecoded.counts()))
        if (rest := undecoded.batch(batch, self.schemas[-1])) is not None:
            found.batches.append((len(self.outputs) - 1, rest))
        return found

    def _rows(self, case: Case, event: Event, logs: pa.RecordBatch) -> tuple[pa.RecordBatch, Codes]:
        """All rows, also those that have a reason not to be there."""
        decoder = Decoder(logs["data"])
        plain = [laid for laid in case.laid if not laid.param.indexed]
        columns = by_name(plain, decoder.params(plain))
        reasons = decoder.reasons
        topics = iter(TOPICS[not event.anonymous :])
        for laid in case.laid:
            if laid.param.indexed:
                values, wrong = topic_columns(laid, logs[next(topics)])
                columns |= by_name([laid], values)
                reasons = np.where(reasons == 0, wrong, reasons)
        return assembled(case, logs, columns, self.schemas[case.output], len(KEPT)), reasons

    def _routed(self, batch: pa.RecordBatch, undecoded: Undecoded) -> Iterator[Routed]:
        """The rows of each event that has some."""
        count = _topic_count(batch)
        left = np.ones(batch.num_rows, bool)
        # An output whose event has this first topic, with another number of topics.
        tried = np.full(batch.num_rows, -1, np.int64)
        for stored in self.by_place:
            number, alike = stored.routed(batch, count, self.chain_id)
            yield from stored.rows(np.where(left, number, -1))
            left &= number < 0
            tried = np.where(tried < 0, alike, tried)
        yield from self._known(batch, count, left, tried, undecoded)

    def _known(
        self,
        batch: pa.RecordBatch,
        count: Indexes,
        left: Flags,
        tried: Indexes,
        undecoded: Undecoded,
    ) -> Iterator[Routed]:
        """Of events that are what they are everywhere. The same first topic with another number of
        topics is another event: an ERC-721 transfer has one more than an ERC-20 one."""
        known = pc.index_in(batch["topic0"], value_set=pa.array(self.topics, pa.binary()))
        first = known.fill_null(-1).to_numpy(zero_copy_only=False)
        event = np.where(left, self._table[first, count], -1)
        nowhere = left & (event < 0)
        tried = np.where(first >= 0, self._outputs_of_topics[first], tried)
        for output in np.unique(tried[nowhere]):
            rows = np.flatnonzero(nowhere & (tried == output))
            if output >= 0:
                undecoded.say(rows, self.outputs[int(output)], _OTHER_TOPICS)
            elif self._keeps_unknown:
                undecoded.say(rows, None, _UNKNOWN)
        for number in np.unique(event[event >= 0]).tolist():
            rows = np.flatnonzero(event == number)
            yield Routed(self._cases[number], self._events[number], rows)

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
    def _outputs_of_topics(self) -> Indexes:
        """By the place of a first topic: the first output that it may be of; the last is none."""
        found = np.full(len(self.topics) + 1, -1, np.int64)
        for event, case in zip(self._events, self._cases, strict=True):
            if not event.anonymous:
                place = self.topics.index(event.topic0)
                found[place] = case.output if found[place] < 0 else found[place]
        return found


class Routed(NamedTuple):
    """Rows that are all of one event, by one version of its ABI."""

    case: Case
    event: Event
    rows: Indexes


class EventsByPlace:
    """Of one stored ABI: which event a log is, by its contract, its block and its topics."""

    def __init__(self, placed: PlacedVersions, versioned: Sequence[Versioned]) -> None:
        self.placed = placed
        self._found = [(each.version, each.entry, each.case) for each in versioned]
        events = [event for _, event, _ in self._found if isinstance(event, Event)]
        self.topics = list(dict.fromkeys(e.topic0 for e in events if not e.anonymous))
        self.has_anonymous = any(event.anonymous for event in events)
        versions = max((version for version, _, _ in self._found), default=-1) + 1
        # The last version is none, the last first topic any other.
        shape = (versions + 1, len(self.topics) + 1)
        self._number = np.full((*shape, len(TOPICS) + 2), -1, np.int64)
        self._alike = np.full(shape, -1, np.int64)
        for number, (version, event, case) in enumerate(self._found):
            assert isinstance(event, Event), "functions are not of logs"
            topic = -1 if event.anonymous else self.topics.index(event.topic0)
            self._number[version, topic, event.topics] = number
            if not event.anonymous:
                self._alike[version, topic] = case.output
        self._versions = versions

    def routed(
        self, batch: pa.RecordBatch, count: Indexes, chain_id: int | None
    ) -> tuple[Indexes, Indexes]:
        """Of each row the number of its event, and the output of one with the same first topic;
        -1: none."""
        version = self.placed.of(batch["address"], batch["block_number"])
        version = np.where(version < self._versions, version, -1)
        other = pc.fill_null(pc.not_equal(batch["chain_id"], chain_id), False)
        version[other.to_numpy(zero_copy_only=False)] = -1
        known = pc.index_in(batch["topic0"], value_set=pa.array(self.topics, pa.binary()))
        first = known.fill_null(-1).to_numpy(zero_copy_only=False)
        return self._number[version, first, count], self._alike[version, first]

    def rows(self, number: Indexes) -> Iterator[Routed]:
        for each in np.unique(number[number >= 0]).tolist():
            _, event, case = self._found[each]
            assert isinstance(event, Event), "functions are not of logs"
            yield Routed(case, event, np.flatnonzero(number == each))


def _held(case: Case, event: Event) -> list[str]:
    """Of each parameter: the column of the log that it is in."""
    topics = iter(TOPICS[not event.anonymous :])
    return [next(topics) if laid.param.indexed else "data" for laid in case.laid]


def _topic_count(batch: pa.RecordBatch) -> Indexes:
    """One more than there can be for a log that has a later topic without an earlier one."""
    there = np.stack([batch[name].is_valid().to_numpy(zero_copy_only=False) for name in TOPICS])
    gap = (there[1:] & ~there[:-1]).any(axis=0)
    found: Indexes = np.where(gap, len(TOPICS) + 1, there.sum(axis=0))
    return found
