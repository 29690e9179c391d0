"""Two sides that ingest the same blocks from the same server, run in turns."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bench.harness import Bench, BenchError, Goal, Result, interleaved, median, spread
from bench.peers import Peer, PeerUnavailable, python_of
from bench.process_tree import machine_cpu_seconds
from bench.replay import Replay, replaying
from bench.subject import Subject

TABLES = ("blocks", "transactions", "logs")
# Above this share of one core the one-threaded server may be what is measured.
_BUSY = 0.8


@dataclass(frozen=True, slots=True)
class Written:
    """What a side's files hold, by table."""

    rows: Mapping[str, int]
    columns: Mapping[str, frozenset[str]]


Read = Callable[[Path], Written]


@dataclass(frozen=True, slots=True)
class Rival:
    """A peer, the subject that runs it, and how its files are read."""

    peer: Peer
    module: str
    written: Read
    # Whether ours must have every column that its files have.
    same_columns: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    wall_s: float
    cpu_s: float
    server_cpu_s: float
    others_cpu_s: float  # of whatever else ran on the machine
    written: Written

    @property
    def rows(self) -> int:
        return sum(self.written.rows.values())


@dataclass(frozen=True, slots=True)
class Compared:
    """The runs of both sides; without a peer its runs are empty and `missing` says why."""

    name: str
    peer: str
    ours: list[Sample]
    theirs: list[Sample]
    missing: str

    def result(
        self,
        figure: str,
        unit: str,
        of: Callable[[Sample], float],
        goal: Goal | None = None,
        note: str = "",
    ) -> Result:
        mine, theirs = [of(s) for s in self.ours], [of(s) for s in self.theirs]
        spreads = spread(mine) + (f", {self.peer} {spread(theirs)}" if theirs else "")
        return Result(
            name=f"{self.name}.{figure}",
            value=median(mine),
            unit=unit,
            peer=self.peer if theirs else None,
            peer_value=median(theirs) if theirs else None,
            goal=goal,
            note="; ".join(part for part in (spreads, note, self.missing) if part),
        )

    def wall(self, goal: Goal | None = None) -> Result:
        samples = [*self.ours, *self.theirs]
        server = max(s.server_cpu_s / s.wall_s for s in samples)
        others = median(s.others_cpu_s / s.wall_s for s in samples)
        note = f"others used {others:.1f} of {os.cpu_count()} cores, the replay server {server:.1f}"
        if server > _BUSY:
            note += ": IT MAY BE THE BOTTLENECK"
        return self.result("wall", "s", lambda s: s.wall_s, goal, note)

    def cpu(self, goal: Goal | None = None) -> Result:
        return self.result("cpu", "CPU s", lambda s: s.cpu_s, goal)


def compare(bench: Bench, name: str, ours: str, rival: Rival, blocks: int, txs: int) -> Compared:
    """Of the measurement `name`; `ours` is the subject of our side."""
    with ExitStack() as stack:
        replay = stack.enter_context(replaying(blocks, txs, bench.workspace / "replay.log"))

        def side(python: str | Path, module: str, read: Read) -> Callable[[], Sample]:
            args = (replay.url, str(bench.workspace / module))
            log = bench.workspace / f"{module}.log"
            program = Subject(module, python, f"bench.subjects.{module}", *args, log=log)
            return _sampler(bench, replay, stack.enter_context(program), read, blocks)

        sides = {"ours": side(sys.executable, ours, parquet("**/{}_*.parquet"))}
        missing = ""
        try:
            sides["theirs"] = side(python_of(rival.peer), rival.module, rival.written)
        except PeerUnavailable as error:
            missing = str(error)
        taken = interleaved(sides, bench.runs)
    runs = Compared(name, rival.peer.name, taken["ours"], taken.get("theirs", []), missing)
    _check_same_work(runs, rival, blocks)
    return runs


def parquet(pattern: str) -> Read:
    """From the files themselves, the same way for every side that writes Parquet."""

    def written(directory: Path) -> Written:
        rows: dict[str, int] = {}
        columns: dict[str, frozenset[str]] = {}
        for table in TABLES:
            footers = [pq.read_metadata(file) for file in directory.glob(pattern.format(table))]
            if not footers:
                raise BenchError(f"no file of {table} was written")
            rows[table] = sum(footer.num_rows for footer in footers)
            columns[table] = frozenset(footers[0].schema.to_arrow_schema().names)
        return Written(rows, columns)

    return written


def csv(directory: Path) -> Written:
    """`TABLE.csv`, with a line of column names."""
    rows: dict[str, int] = {}
    columns: dict[str, frozenset[str]] = {}
    for table in TABLES:
        with (directory / f"{table}.csv").open() as lines:
            columns[table] = frozenset(next(lines).strip().split(","))
            rows[table] = sum(1 for _ in lines)
    return Written(rows, columns)


def _sampler(
    bench: Bench, replay: Replay, subject: Subject, read: Read, blocks: int
) -> Callable[[], Sample]:
    output = bench.workspace / "output"

    def sample() -> Sample:
        output.mkdir()
        replay.cpu_s_since_last()
        before_s = machine_cpu_seconds()
        done = subject.run(start=1, end=blocks, output=str(output))
        server_s = replay.cpu_s_since_last()
        others_s = machine_cpu_seconds() - before_s - server_s - done["cpu_s"]
        written = read(output)
        shutil.rmtree(output)
        return Sample(done["wall_s"], done["cpu_s"], server_s, max(0.0, others_s), written)

    return sample


def _check_same_work(runs: Compared, rival: Rival, blocks: int) -> None:
    """A comparison of different work is worth nothing."""
    first = runs.ours[0].written
    if first.rows["blocks"] != blocks:
        raise BenchError(f"{first.rows['blocks']} of {blocks} blocks were written")
    samples: Sequence[Sample] = (*runs.ours, *runs.theirs)
    for written in [s.written for s in samples]:
        if written.rows != first.rows:
            raise BenchError(f"row counts differ: {dict(first.rows)} and {dict(written.rows)}")
        for table in TABLES if rival.same_columns else ():
            lacking = written.columns[table] - first.columns[table]
            if lacking:
                raise BenchError(
                    f"ours lacks columns of {table} that {runs.peer} has: {sorted(lacking)}"
                )
