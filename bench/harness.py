"""What a measurement is, how its runs are taken, and how its results are shown and kept."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


class BenchError(Exception):
    """Why a measurement has no result, in one line."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit of the value, or with `of_peer` of value / peer value."""

    limit: float
    what: str  # "wall", "latency p50"
    at_most: bool = True
    of_peer: str | None = None

    def text(self, unit: str) -> str:
        limit = f"{self.limit}x {self.of_peer}" if self.of_peer else f"{self.limit:g} {unit}"
        return f"{self.what} {'<=' if self.at_most else '>='} {limit}"

    def met(self, value: float, ratio: float | None) -> bool | None:
        """None when there is no peer to compare with."""
        measured = ratio if self.of_peer else value
        if measured is None:
            return None
        return measured <= self.limit if self.at_most else measured >= self.limit


@dataclass(frozen=True, slots=True)
class Result:
    """One figure: medians of ours and, where there is one, of the peer in the same run."""

    name: str  # the measurement's, or the measurement's with .figure
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    goal: Goal | None = None
    note: str = ""  # for people: spreads, counts, why there is no peer

    @property
    def ratio(self) -> float | None:
        return self.value / self.peer_value if self.peer_value else None

    @property
    def met(self) -> bool | None:
        return self.goal.met(self.value, self.ratio) if self.goal else None

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": _rounded(self.value),
            "unit": self.unit,
            "peer": self.peer,
            "peer_value": _rounded(self.peer_value),
            "ratio": _rounded(self.ratio),
            "goal": self.goal.text(self.unit) if self.goal else None,
            "met": self.met,
        }

    def line(self) -> str:
        parts = [f"{self.name:<34}{_shown(self.value, self.unit):>16}"]
        if self.peer is not None and self.peer_value is not None:
            parts.append(f"{self.peer} {_shown(self.peer_value, self.unit)}")
            if self.ratio is not None:
                parts.append(f"{self.ratio:.2f}x")
        if self.goal is not None:
            verdict = {True: "met", False: "MISSED", None: "not compared"}[self.met]
            parts.append(f"goal {self.goal.text(self.unit)}: {verdict}")
        return "  ".join([*parts, *([f"({self.note})"] if self.note else [])])


@dataclass(frozen=True, slots=True)
class Bench:
    """What a measurement is given."""

    runs: int  # that count, after one that does not
    workspace: Path  # its own, removed afterwards
    # Of what a measurement with a size of its own is about, in place of that.
    size: int | None = None


Measure: TypeAlias = Callable[[Bench], Iterable[Result]]


@dataclass(frozen=True, slots=True)
class Measurement:
    name: str
    about: str
    measure: Measure


MEASUREMENTS: dict[str, Measurement] = {}


def measurement(name: str, about: str) -> Callable[[Measure], Measure]:
    """Register a function under the name that `--only` takes."""

    def register(measure: Measure) -> Measure:
        MEASUREMENTS[name] = Measurement(name, about, measure)
        return measure

    return register


def interleaved(
    sides: Mapping[str, Callable[[], T]], runs: int, warm_ups: int = 1
) -> dict[str, list[T]]:
    """Runs of every side in turns, so that a noisy minute hits all of them; warm-ups are not
    kept. Every second round goes the other way: no side always runs after the same one."""
    kept: dict[str, list[T]] = {side: [] for side in sides}
    for turn in range(warm_ups + runs):
        for side in list(sides)[:: -1 if turn % 2 else 1]:
            sample = sides[side]()
            if turn >= warm_ups:
                kept[side].append(sample)
    return kept


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> str:
    return f"{_number(min(values))} to {_number(max(values))}"


def read_records(file: Path) -> list[dict[str, Any]]:
    """What was kept before; nothing when it cannot be read."""
    try:
        records = json.loads(file.read_text())
    except (OSError, ValueError):
        return []
    return [r for r in records if isinstance(r, dict)] if isinstance(records, list) else []


def keep_records(
    file: Path, before: Iterable[dict[str, Any]], ran: Iterable[str], results: Iterable[Result]
) -> None:
    """Replace what the measurements that `ran` had left, also those that failed: an old figure
    must not pass for one of this run."""
    ran = set(ran)
    others = [r for r in before if str(r.get("name")).partition(".")[0] not in ran]
    records = [*others, *(result.record() for result in results)]
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(records, indent=2) + "\n")
    fresh.replace(file)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def _shown(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}"
