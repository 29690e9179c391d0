"""What Trace, cryo and Ponder hold after reorgs, of one node, next to what the node has then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.engine_peers import EnginePostgres, engine_postgres
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
KINDS = ("stale", "missing", "duplicate")

_Make = Callable[[EnginePostgres, Path, TokenChain], AbstractContextManager[Side]]
_SIDES: Mapping[str, _Make] = {
    Trace.name: trace_side,
    Cryo.name: cryo_side,
    PonderSide.name: ponder_side,
}


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


@dataclass(slots=True)
class Record:
    """What was wrong with a side's rows after each depth, and its trouble at the end."""

    after: dict[int, Wrong] = field(default_factory=dict)
    trouble: str = ""

    @property
    def last(self) -> Wrong:
        return self.after[DEPTHS[-1]]

    def note(self, kind: str) -> str:
        depths = ", ".join(f"{wrong.count(kind)} after {d}" for d, wrong in self.after.items())
        tables = ", ".join(f"{n} {table}" for table, n in self.last.by_table(kind).items() if n)
        return "; ".join(part for part in (depths, tables, self.trouble) if part)


@measurement("reorg_peers", "rows that are not the chain's after reorgs of 1, 8 and 70 blocks")
def reorg_peers(bench: Bench) -> Iterator[Result]:
    missing: list[str] = []
    with ExitStack() as stack:
        postgres = stack.enter_context(engine_postgres(bench.workspace))
        chain = stack.enter_context(token_chain(SEED))
        chain.grow_to(START - 1)
        sides: list[Side] = []
        for name, make in _SIDES.items():
            try:
                side = stack.enter_context(make(postgres, bench.workspace, chain))
                _check_start(chain, side)
            except PeerUnavailable as error:
                missing.append(f"{name}: not measured here: {error}")
            else:
                sides.append(side)
        records = _through_reorgs(chain, sides)
        rows = {table: len(found) for table, found in _told(chain).items()}
    _check_ours(records[Trace.name])
    yield from _results(records, rows, missing)


def _check_start(chain: TokenChain, side: Side) -> None:
    """What is wrong later is then the reorgs' doing."""
    side.catch_up(chain.head, chain.head_hash)
    wrong = _wrong(side.rows(), _told(chain))
    if not wrong.is_nothing():
        why = f"wrong before any reorg: {wrong} {side.trouble()}"
        raise BenchError(why) if side.name == Trace.name else PeerUnavailable(why)


def _through_reorgs(chain: TokenChain, sides: Sequence[Side]) -> dict[str, Record]:
    records = {side.name: Record() for side in sides}
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
            records[side.name].after[depth] = _wrong(side.rows(), told)
    for side in sides:
        records[side.name].trouble = side.trouble()
    return records


def _catch_up(chain: TokenChain, sides: Sequence[Side]) -> None:
    for side in sides:
        side.catch_up(chain.head, chain.head_hash)


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


def _check_ours(ours: Record) -> None:
    for depth, wrong in ours.after.items():
        if not wrong.is_nothing():
            raise BenchError(f"trace is wrong after the reorg of {depth} blocks: {wrong}")


def _results(
    records: Mapping[str, Record], rows: Mapping[str, int], missing: Sequence[str]
) -> Iterator[Result]:
    note = "; ".join(["of " + ", ".join(f"{n} {table}" for table, n in rows.items()), *missing])
    for kind in KINDS:
        name, ours = f"reorg_peers.{kind}_rows", float(records[Trace.name].last.count(kind))
        yield Result(name, ours, "rows", goal=Goal(0, f"{kind} rows"), note=note)
        for peer in [side for side in records if side != Trace.name]:
            yield _next_to(name, ours, peer, records[peer], kind)


def _next_to(name: str, ours: float, peer: str, record: Record, kind: str) -> Result:
    figure, theirs = f"{name}_vs_{peer.partition(' ')[0]}", float(record.last.count(kind))
    note = f"{peer}: {record.note(kind)}"
    # Nothing is a share of none: then the note alone has their figure.
    if not theirs:
        return Result(figure, ours, "rows", note=note)
    return Result(figure, ours, "rows", peer, theirs, note=note)
