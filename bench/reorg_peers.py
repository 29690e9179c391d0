"""What Trace, cryo and Ponder hold after reorgs, of one node, next to what the node has then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.engine_peers import engine_postgres
from bench.harness import Bench, BenchError, Goal, Result, measurement
from bench.peers import PeerUnavailable
from bench.reorg_chain import TokenChain, token_chain
from bench.reorg_sides import (
    FILE_BLOCKS,
    TABLES,
    Cryo,
    PonderSide,
    Rows,
    Side,
    Trace,
    cryo_side,
    ponder_side,
    trace_side,
)
from tests.support.slow_rows import SlowRows
from trace_platform.domain.block_range import BlockRange

SEED = 5
START = 20 * FILE_BLOCKS
GROWTH = 3 * FILE_BLOCKS
# The last is deeper than what the node calls finalized: 64 blocks.
DEPTHS = (1, 8, 70)
_PEERS = {Cryo.name: cryo_side, PonderSide.name: ponder_side}


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a side's rows, by table."""

    stale: Mapping[str, int]  # the node does not have them any more
    missing: Mapping[str, int]
    duplicate: Mapping[str, int]

    def count(self, kind: str) -> int:
        return sum(self.by_table(kind).values())

    def by_table(self, kind: str) -> Mapping[str, int]:
        found: Mapping[str, int] = getattr(self, kind)
        return found

    def is_nothing(self) -> bool:
        return not any(self.count(kind) for kind in KINDS)


KINDS = ("stale", "missing", "duplicate")


@dataclass(slots=True)
class Record:
    """A side's rows: after the reorg of each depth, and how it ended if it did."""

    after: dict[int, Wrong] = field(default_factory=dict)
    ended: str = ""

    def note(self, side: str, kind: str) -> str:
        told = ", ".join(f"{wrong.count(kind)} after {d}" for d, wrong in self.after.items())
        last = self.after[DEPTHS[-1]].by_table(kind)
        tables = ", ".join(f"{n} {table}" for table, n in last.items() if n)
        return "; ".join(part for part in (f"{side}: {told}", tables, self.ended) if part)


@measurement("reorg_peers", "rows that are not the chain's after reorgs of 1, 8 and 70 blocks")
def reorg_peers(bench: Bench) -> Iterator[Result]:
    records: dict[str, Record] = {}
    missing: list[str] = []
    with ExitStack() as stack:
        postgres = stack.enter_context(engine_postgres(bench.workspace))
        chain = stack.enter_context(token_chain(SEED))
        chain.grow_to(START - 1)
        sides: list[Side] = [
            stack.enter_context(trace_side(postgres, bench.workspace, chain)),
        ]
        for name, make in _PEERS.items():
            try:
                sides.append(stack.enter_context(make(postgres, bench.workspace, chain)))
            except PeerUnavailable as error:
                missing.append(f"{name}: not measured here: {error}")
        records = _through_reorgs(chain, sides)
        rows = {table: len(held) for table, held in _told(chain).items()}
    yield from _results(records, rows, missing)


def _through_reorgs(chain: TokenChain, sides: Sequence[Side]) -> dict[str, Record]:
    records = {side.name: Record() for side in sides}
    _catch_up(chain, sides)
    _check_start(chain, sides)
    for depth in DEPTHS:
        with ExitStack() as stack:
            for side in sides:
                stack.enter_context(side.standing_still())
            chain.reorg(depth)
        _catch_up(chain, sides)
        chain.grow_to(chain.head + GROWTH)
        _catch_up(chain, sides)
        told = _told(chain)
        for side in sides:
            record = records[side.name]
            record.after[depth] = _wrong(side.rows(), told)
            if not record.ended and (ended := side.ended()):
                record.ended = f"after the reorg of {depth} it ended: {ended}"
    return records


def _catch_up(chain: TokenChain, sides: Sequence[Side]) -> None:
    for side in sides:
        side.catch_up(chain.head, chain.head_hash)


def _check_start(chain: TokenChain, sides: Sequence[Side]) -> None:
    """What is wrong later is then the reorgs' doing."""
    told = _told(chain)
    for side in sides:
        wrong = _wrong(side.rows(), told)
        if not wrong.is_nothing():
            raise BenchError(f"{side.name} is wrong before any reorg: {wrong} {side.ended()}")


def _told(chain: TokenChain) -> Rows:
    rows = SlowRows(chain.node.call, BlockRange(0, chain.head))
    return {table: list(rows[table]) for table in TABLES}


def _wrong(held: Rows, told: Rows) -> Wrong:
    counted = [_compare(held, told, table) for table in TABLES]
    by_kind = zip(*counted, strict=True)
    return Wrong(*(dict(zip(TABLES, counts, strict=True)) for counts in by_kind))


def _compare(held: Rows, told: Rows, table: str) -> tuple[int, int, int]:
    """Stale, missing and duplicate rows, by the columns that are held."""
    columns = list(held[table][0]) if held[table] else list(told[table][0])
    mine, right = (
        Counter(tuple(row[column] for column in columns) for row in rows[table])
        for rows in (held, told)
    )
    stale, missing = mine.keys() - right.keys(), right.keys() - mine.keys()
    return len(stale), len(missing), sum(n - 1 for n in mine.values())


def _results(
    records: Mapping[str, Record], rows: Mapping[str, int], missing: Sequence[str]
) -> Iterator[Result]:
    ours = records[Trace.name]
    for depth, wrong in ours.after.items():
        if not wrong.is_nothing():
            raise BenchError(f"trace is wrong after the reorg of depth {depth}: {wrong}")
    told = "of " + ", ".join(f"{n:,} {table}" for table, n in rows.items())
    for kind in KINDS:
        name, value = f"reorg_peers.{kind}_rows", float(ours.after[DEPTHS[-1]].count(kind))
        note = "; ".join([told, *missing])
        yield Result(name, value, "rows", goal=Goal(0, f"{kind} rows"), note=note)
        for peer in [side for side in records if side != Trace.name]:
            yield _next_to(name, value, peer, records[peer], kind)


def _next_to(name: str, value: float, peer: str, record: Record, kind: str) -> Result:
    theirs = float(record.after[DEPTHS[-1]].count(kind))
    note = record.note(peer, kind)
    full = f"{name}_vs_{peer.partition(' ')[0]}"
    # Nothing can be a share of none: then the note alone has the figure.
    if not theirs:
        return Result(full, value, "rows", note=note)
    return Result(full, value, "rows", peer, theirs, note=note)
