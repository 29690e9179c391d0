"""What it costs an ingest to prove the hash of every header, next to the same ingest without."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator

from bench.harness import Bench, Goal, Result, interleaved, measurement, median, spread
from bench.replay import replaying
from bench.subject import Subject

# Blocks x transactions: as full as mainnet's have been for years, and small ones, of which the hash
# of the header is a larger part.
_SIZES = {"full": (1_000, 160), "small": (5_000, 20)}
# A run's CPU time differs by several percent from the next one's: the sides differ by less.
_LEAST_RUNS = 12


@measurement("header_hash", "cryo_ingest of full blocks and of small ones: headers hashed, or not")
def header_hash(bench: Bench) -> Iterator[Result]:
    for name, (blocks, txs) in _SIZES.items():
        yield from _of_size(bench, name, blocks, txs)


def _of_size(bench: Bench, name: str, blocks: int, txs: int) -> Iterator[Result]:
    output = bench.workspace / "output"
    with (
        replaying(blocks, txs, bench.workspace / "replay.log") as replay,
        Subject(
            *("cryo_ingest", sys.executable, "bench.subjects.cryo_ingest"),
            *(replay.url, str(bench.workspace / "scratch")),
            log=bench.workspace / "subject.log",
        ) as subject,
    ):

        def side(hashed: bool) -> Callable[[], float]:
            def cpu_s() -> float:
                output.mkdir()
                done = subject.run(start=1, end=blocks, output=str(output), header_hash=hashed)
                shutil.rmtree(output)
                return float(done["cpu_s"])

            return cpu_s

        taken = interleaved(
            {"hashed": side(True), "plain": side(False)}, max(_LEAST_RUNS, bench.runs), warm_ups=3
        )
    hashed, plain = taken["hashed"], taken["plain"]
    yield Result(
        name=f"header_hash.{name}",
        value=median(hashed),
        unit="CPU s",
        peer="without proofs",
        peer_value=median(plain),
        goal=Goal(1.05, "CPU", of_peer="without proofs"),
        note=f"{blocks:,} blocks x {txs}: {spread(hashed)}, without {spread(plain)}",
    )
    yield Result(
        name=f"header_hash.{name}_best",
        value=min(hashed),
        unit="CPU s",
        peer="without proofs",
        peer_value=min(plain),
    )
