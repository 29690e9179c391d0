"""python -m tests.support.judge --histories 20000 --seed 1 --shapes A,B --workers 2

Exits 1 with the smallest form of the first history that fails. --help says what else there is.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from tests.conftest import PostgresServer
from tests.support.judge.history import KINDS, parse
from tests.support.judge.judge import judge
from tests.support.judge.run import Asked, Failure, Tally, shrunk, spread
from tests.support.judge.shapes import SHAPES, chosen
from tests.support.judge.stage import open_stage, running_postgres


def main() -> int:
    options = _options()
    asked = _asked(options)
    with running_postgres() as postgres:
        if options.replay is not None:
            return asyncio.run(_replay(postgres, asked, options.replay))
        return _run(postgres, asked, options)


def _options() -> argparse.Namespace:
    shapes = "\n".join(f"  {s.name:<4} {s.said}" for s in SHAPES.values())
    kinds = "\n".join(f"  {name:<20} {kind.said}" for name, kind in KINDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.judge",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"shapes:\n{shapes}\n\nactions:\n{kinds}",
    )
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--shapes", default=",".join(SHAPES), help="A,E: A and all that begin with E"
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="kinds of actions, and no others")
    parser.add_argument("--without", default="", help="kinds of actions that are left out")
    parser.add_argument("--rules", default="", help="only breaks of these rules count")
    parser.add_argument("--said", default="", help="only failures whose text matches this count")
    parser.add_argument("--allow", default="", help="rules of the end that may be broken")
    parser.add_argument("--calm", action="store_true", help="all is quiet before each action")
    parser.add_argument("--keep-going", action="store_true", help="one failure of each rule")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--replay", help="a history in words: 'trigger 0 9; claim 8 1; reorg 5 5'")
    return parser.parse_args()


def _asked(options: argparse.Namespace) -> Asked:
    return Asked(
        shapes=tuple(shape.name for shape in chosen(options.shapes)),
        seed=options.seed,
        histories=options.histories,
        only=_names(options.only),
        without=_names(options.without),
        rules=frozenset(_names(options.rules)),
        allowed=frozenset(_names(options.allow)),
        said=options.said,
        calm=options.calm,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


async def _replay(postgres: PostgresServer, asked: Asked, text: str) -> int:
    async with open_stage(postgres) as stage:
        shape = SHAPES[asked.shapes[0]]
        verdict = await judge(stage, shape, parse(text), asked.allowed, calm=asked.calm)
    print("\n".join(verdict.lines))
    print(verdict.found or "as it should be")
    return 1 if verdict.found else 0


def _run(postgres: PostgresServer, asked: Asked, options: argparse.Namespace) -> int:
    began, total, seen = time.monotonic(), Tally(), set[tuple[str, str]]()
    with spread(postgres, asked, options.workers) as reports:
        for report in reports:
            if isinstance(report, Tally):
                total = total.with_more(report)
                _show_progress(total, time.monotonic() - began)
            elif (report.shape, report.rule) not in seen:
                seen.add((report.shape, report.rule))
                _show_failure(postgres, asked, report, shrinks=not options.no_shrink)
                if not options.keep_going:
                    break
    print(f"{_rate(total, time.monotonic() - began)}; {len(seen)} kinds of failures")
    return 1 if seen else 0


def _show_failure(
    postgres: PostgresServer, asked: Asked, failure: Failure, *, shrinks: bool
) -> None:
    print(f"\nhistory {failure.number} failed: {failure.rule}", flush=True)
    if shrinks:
        failure = asyncio.run(_shrunk(postgres, asked, failure))
    print(f"{failure}\n", flush=True)


async def _shrunk(postgres: PostgresServer, asked: Asked, failure: Failure) -> Failure:
    async with open_stage(postgres) as stage:
        return await shrunk(stage, asked, failure)


def _show_progress(total: Tally, seconds: float) -> None:
    end = "\r" if sys.stdout.isatty() else "\n"
    if sys.stdout.isatty() or total.played // 100 != (total.played - total.last) // 100:
        print(_rate(total, seconds), end=end, flush=True)


def _rate(total: Tally, seconds: float) -> str:
    found = ", ".join(f"{rule} {n}" for rule, n in sorted(total.rules.items()))
    return (
        f"{total.played} histories, {total.played / seconds:.1f} per second; {found or 'all well'}"
    )


if __name__ == "__main__":
    sys.exit(main())
