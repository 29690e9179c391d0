"""`python -m bench [--only NAME] [--runs N] [--size N] [--list]`."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from bench.harness import (
    MEASUREMENTS,
    Bench,
    BenchError,
    Measurement,
    Result,
    keep_records,
    read_records,
)

# Modules that register measurements, in the order in which they run.
ENTRIES = (
    *("ingest", "engine", "engine_load", "versions", "spark_tasks", "reorg_peers", "follow"),
    *("query", "decode", "decode_pipeline", "fold", "window", "proofs", "gateway", "console"),
)
LATEST = Path(__file__).parent / "out" / "latest.json"


def main() -> int:
    for entry in ENTRIES:
        importlib.import_module(f"bench.{entry}")
    asked = _arguments()
    if asked.list:
        for known in MEASUREMENTS.values():
            print(f"{known.name:<28}{known.about}")
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    chosen = [MEASUREMENTS[name] for name in asked.only or MEASUREMENTS]
    before = read_records(LATEST) if asked.only else []
    return _run(chosen, asked.runs, asked.size, before)


def _run(
    chosen: list[Measurement], runs: int, size: int | None, before: list[dict[str, object]]
) -> int:
    results: list[Result] = []
    failed = False
    for n, one in enumerate(chosen, 1):
        print(f"[{n}/{len(chosen)}] {one.name}: {one.about}", file=sys.stderr, flush=True)
        try:
            results += _measure(one, runs, size)
        except Exception as error:
            failed = True
            print(f"{one.name}: FAILED: {_one_line(error)}", flush=True)
        # After each: an interrupted run keeps what it has measured.
        keep_records(LATEST, before, [m.name for m in chosen[:n]], results)
    return 1 if failed else 0


def _measure(one: Measurement, runs: int, size: int | None) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as directory:
        results = list(one.measure(Bench(runs, Path(directory), size)))
    for result in results:
        print(result.line(), flush=True)
    return results


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, BenchError) else f"{type(error).__name__}: {text}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Trace.")
    parser.add_argument("--only", action="append", choices=list(MEASUREMENTS), metavar="NAME")
    parser.add_argument("--runs", type=_count, default=5, metavar="N", help="counted runs (5)")
    parser.add_argument(
        "--size", type=_count, metavar="N", help="of measurements that have a size: another one"
    )
    parser.add_argument("--list", action="store_true", help="name the measurements")
    return parser.parse_args()


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("give a number from 1 on")
    return int(text)


def _interrupt(_: int, __: FrameType | None) -> None:
    # As Ctrl-C does: servers and subjects are stopped on the way out.
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
