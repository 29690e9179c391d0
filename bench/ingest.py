"""`cryo_ingest` next to cryo and to ethereum-etl, and what memory it takes as ranges grow."""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness import Bench, Goal, Result, measurement
from bench.ingest_compare import Rival, compare, csv, parquet
from bench.ingest_memory import LARGE, SMALL, peaks
from bench.peers import Peer

CRYO = Peer("cryo", ("cryo==0.3.2",), "cryo")
# Its web3 asks setuptools for a module that newer ones do not have.
ETL = Peer("ethereum-etl", ("ethereum-etl==2.4.2", "setuptools==80.9.0"), "ethereumetl")
_CRYO_SIDE = Rival(CRYO, "cryo_freeze", parquet("*__{}__*.parquet"), same_columns=True)
_ETL_SIDE = Rival(ETL, "ethereum_etl_export", csv)

BLOCKS, TXS = 5_000, 20
# It asks for each receipt by itself: a run of it takes several times as long.
ETL_BLOCKS = 2_000


@measurement("cryo_ingest", f"{BLOCKS:,} blocks x {TXS} transactions in a warm session, and cryo")
def cryo_ingest(bench: Bench) -> Iterator[Result]:
    runs = compare(bench, "cryo_ingest", "cryo_ingest", _CRYO_SIDE, BLOCKS, TXS)
    counts = ", ".join(f"{n:,} {table}" for table, n in runs.ours[0].written.rows.items())
    yield runs.result("blocks", "blocks/s", lambda s: BLOCKS / s.wall_s)
    yield runs.result("rows", "rows/s", lambda s: s.rows / s.wall_s, note=f"wrote {counts}")
    yield runs.wall(Goal(1.0, "wall", of_peer=CRYO.name))
    yield runs.cpu(Goal(0.7, "CPU", of_peer=CRYO.name))


@measurement("cryo_ingest_orchestrated", "the same from event to commit in a whole instance")
def cryo_ingest_orchestrated(bench: Bench) -> Iterator[Result]:
    name = "cryo_ingest_orchestrated"
    runs = compare(bench, name, name, _CRYO_SIDE, BLOCKS, TXS)
    yield runs.wall()
    yield runs.cpu()


@measurement("cryo_ingest_etl", f"{ETL_BLOCKS:,} blocks x {TXS} transactions, and ethereum-etl")
def cryo_ingest_etl(bench: Bench) -> Iterator[Result]:
    runs = compare(bench, "cryo_ingest_etl", "cryo_ingest", _ETL_SIDE, ETL_BLOCKS, TXS)
    yield runs.wall(Goal(1.0, "wall", of_peer=ETL.name))
    yield runs.cpu(Goal(1.0, "CPU", of_peer=ETL.name))


@measurement("cryo_ingest_memory", f"peak memory of {LARGE:,} blocks next to {SMALL:,}")
def cryo_ingest_memory(bench: Bench) -> Iterator[Result]:
    large, small = peaks(bench, LARGE), peaks(bench, SMALL)
    peer = f"{SMALL:,} blocks"
    yield Result(
        "cryo_ingest_memory.all",
        *(large.all_mb, "MB", peer, small.all_mb),
        Goal(1.2, "peak RSS", of_peer=peer),
        "the session, Spark's JVM and the Python workers at one time",
    )
    yield Result(
        "cryo_ingest_memory.python_workers",
        *(large.workers_mb, "MB", peer, small.workers_mb),
        note="each one's own peak, added up",
    )
