"""`cryo_ingest` next to cryo: the same blocks from the same server, three tables each."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.peers import Peer, PeerUnavailable, python_of
from bench.process_tree import machine_cpu_seconds
from bench.replay import Replay, replaying
from bench.subject import Subject

CRYO = Peer("cryo", ("cryo==0.3.2",), "cryo")
BLOCKS, TXS = 5_000, 20
TABLES = ("blocks", "transactions", "logs")
# How each side names the files of a table.
_OURS_FILES, _CRYO_FILES = "**/{}_*.parquet", "*__{}__*.parquet"
# Above this share of one core the one-threaded server may be what is measured.
_BUSY = 0.8


@dataclass(frozen=True, slots=True)
class Written:
    """What a side's files hold, by table."""

    rows: Mapping[str, int]
    columns: Mapping[str, frozenset[str]]


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
    ours: list[Sample]
    cryo: list[Sample]
    missing: str

    def result(
        self,
        figure: str,
        unit: str,
        of: Callable[[Sample], float],
        goal: Goal | None = None,
        note: str = "",
    ) -> Result:
        mine, theirs = [of(s) for s in self.ours], [of(s) for s in self.cryo]
        spreads = spread(mine) + (f", cryo {spread(theirs)}" if theirs else "")
        return Result(
            name=f"{self.name}.{figure}",
            value=median(mine),
            unit=unit,
            peer=CRYO.name if theirs else None,
            peer_value=median(theirs) if theirs else None,
            goal=goal,
            note="; ".join(part for part in (spreads, note, self.missing) if part),
        )


@measurement("cryo_ingest", f"{BLOCKS:,} blocks x {TXS} transactions in a warm session, and cryo")
def cryo_ingest(bench: Bench) -> Iterator[Result]:
    runs = _compare(bench, "cryo_ingest")
    counts = ", ".join(f"{n:,} {table}" for table, n in runs.ours[0].written.rows.items())
    yield runs.result("blocks", "blocks/s", lambda s: BLOCKS / s.wall_s)
    yield runs.result("rows", "rows/s", lambda s: s.rows / s.wall_s, note=f"wrote {counts}")
    yield _wall(runs, Goal(1.0, "wall", of_peer=CRYO.name))
    yield _cpu(runs, Goal(0.7, "CPU", of_peer=CRYO.name))


@measurement("cryo_ingest_orchestrated", "the same from event to commit in a whole instance")
def cryo_ingest_orchestrated(bench: Bench) -> Iterator[Result]:
    runs = _compare(bench, "cryo_ingest_orchestrated")
    yield _wall(runs)
    yield _cpu(runs)


def _wall(runs: Compared, goal: Goal | None = None) -> Result:
    samples = [*runs.ours, *runs.cryo]
    server = max(s.server_cpu_s / s.wall_s for s in samples)
    others = median(s.others_cpu_s / s.wall_s for s in samples)
    note = f"others used {others:.1f} of {os.cpu_count()} cores, the replay server {server:.1f}"
    if server > _BUSY:
        note += ": IT MAY BE THE BOTTLENECK"
    return runs.result("wall", "s", lambda s: s.wall_s, goal, note)


def _cpu(runs: Compared, goal: Goal | None = None) -> Result:
    return runs.result("cpu", "CPU s", lambda s: s.cpu_s, goal)


def _compare(bench: Bench, name: str) -> Compared:
    """`name` is the measurement's and its subject's."""
    with ExitStack() as stack:
        replay = stack.enter_context(replaying(BLOCKS, TXS, bench.workspace / "replay.log"))

        def side(python: str | Path, module: str, files: str) -> Callable[[], Sample]:
            args = (replay.url, str(bench.workspace / module))
            log = bench.workspace / f"{module}.log"
            program = Subject(module, python, f"bench.subjects.{module}", *args, log=log)
            return _sampler(bench, replay, stack.enter_context(program), files)

        sides = {"ours": side(sys.executable, name, _OURS_FILES)}
        missing = ""
        try:
            sides["cryo"] = side(python_of(CRYO), "cryo_freeze", _CRYO_FILES)
        except PeerUnavailable as error:
            missing = str(error)
        taken = interleaved(sides, bench.runs)
    runs = Compared(name, taken["ours"], taken.get("cryo", []), missing)
    _check_same_work(runs)
    return runs


def _sampler(bench: Bench, replay: Replay, subject: Subject, files: str) -> Callable[[], Sample]:
    output = bench.workspace / "output"

    def sample() -> Sample:
        output.mkdir()
        replay.cpu_s_since_last()
        before_s = machine_cpu_seconds()
        done = subject.run(start=1, end=BLOCKS, output=str(output))
        server_s = replay.cpu_s_since_last()
        others_s = machine_cpu_seconds() - before_s - server_s - done["cpu_s"]
        written = _written(output, files)
        shutil.rmtree(output)
        return Sample(done["wall_s"], done["cpu_s"], server_s, max(0.0, others_s), written)

    return sample


def _written(directory: Path, pattern: str) -> Written:
    """From the files themselves, the same way for both sides."""
    rows: dict[str, int] = {}
    columns: dict[str, frozenset[str]] = {}
    for table in TABLES:
        footers = [pq.read_metadata(file) for file in directory.glob(pattern.format(table))]
        if not footers:
            raise BenchError(f"no file of {table} was written")
        rows[table] = sum(footer.num_rows for footer in footers)
        columns[table] = frozenset(footers[0].schema.to_arrow_schema().names)
    return Written(rows, columns)


def _check_same_work(runs: Compared) -> None:
    """A comparison of different work is worth nothing."""
    first = runs.ours[0].written
    if first.rows["blocks"] != BLOCKS:
        raise BenchError(f"{first.rows['blocks']} of {BLOCKS} blocks were written")
    for written in [s.written for s in (*runs.ours, *runs.cryo)]:
        if written.rows != first.rows:
            raise BenchError(f"row counts differ: {dict(first.rows)} and {dict(written.rows)}")
        for table in TABLES:
            lacking = written.columns[table] - first.columns[table]
            if lacking:
                raise BenchError(f"ours lacks columns of {table} that cryo has: {sorted(lacking)}")
