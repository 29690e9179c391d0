"""Transforms through the dispatcher's verbs: whatever is rewritten or comes late, their rows are
those that a rebuild would make, and what nobody touched does not run again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.dispatcher.redo.test_invalidations import take
from tests.support.control_plane import ControlPlane
from tests.support.transform_chain import TransformChain
from trace_platform.operators.spark.session import SparkRuntime

pytestmark = [pytest.mark.anyio, pytest.mark.spark]

SOURCES = """
name: flow
jobs:
  - { name: chain, activation: source, source: { kind: manual } }
  - { name: market, activation: source, source: { kind: manual } }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: chain } }]
    outputs: [transfers]
  - name: fetch
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: market } }]
    outputs: [prices]
"""
JOIN = """
  - name: priced
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs:
      - { from: { job: ingest, output: transfers } }
      - { from: { job: fetch, output: prices } }
    outputs: [priced]
    config:
      mode: map
      sql: |
        select block_number, value * price as worth
          from transfers join prices using (block_number)
"""
BUCKETS = """
  - name: buckets
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: ingest, output: transfers } }]
    outputs: [buckets]
    config:
      mode: window
      window: { every_blocks: 10 }
      sql: |
        select block_bucket(block_number, 10) as bucket, count(*) as n, sum(value) as total
          from transfers group by all
"""
AROUND = """
  - name: moving
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: ingest, output: transfers } }]
    outputs: [moving]
    config:
      mode: window
      window: { every_blocks: 10, before: 3, after: 2 }
      sql: |
        select block_number,
               sum(value) over (order by block_number range between 3 preceding and 2 following)
                 as near
          from transfers
"""
HOURS = """
  - name: hours
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs:
      - { from: { job: ingest, output: transfers } }
      - { from: { job: fetch, output: prices } }
    outputs: [hours]
    config:
      mode: window
      window: { every: 1m, most_blocks: 8 }
      sql: |
        select coalesce(t.timestamp, p.timestamp) div 60 as minute, count(t.value) as n,
               sum(t.value) as total, count(p.price) as priced
          from transfers t full join prices p using (block_number)
         group by 1
"""
LAST_TWO = """
  - name: last_two
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: ingest, output: transfers } }]
    outputs: [last_two]
    config:
      mode: window
      window: { every: 1m, most_blocks: 8, before: 2m, time: at }
      steps:
        - name: minutes
          sql: select timestamp div 60 * 60 as at, count(*) as n from transfers group by 1
        - name: last_two
          sql: |
            select at, n,
                   sum(n) over (order by at range between 120 preceding and 1 preceding) as before
              from minutes
"""
FULL = """
  - name: totals
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    execution_strategy: Bulk
    inputs:
      - { from: { job: ingest, output: transfers } }
      - { from: { job: fetch, output: prices } }
    outputs: [totals]
    config:
      mode: full
      steps:
        - name: priced
          sql: select t.value * p.price as worth from ingest t join prices p using (block_number)
        - name: totals
          sql: select count(*) as n, sum(worth) as worth from priced
"""


class Chain(TransformChain):
    """One transfer in each block, and a price of most."""

    def __init__(self, plane: ControlPlane, runtime: SparkRuntime) -> None:
        super().__init__(plane, runtime)
        self.values = {n: 7 * n % 11 for n in range(100)}
        self.prices = {n: 1 + n % 3 for n in range(100) if n % 5}
        self.staged = {"ingest": self._transfers, "fetch": self._prices}
        # A block each twelve seconds, and three that are of one second.
        self.times = {n: 1_700_000_000 + 12 * (n - 2 * (n > 50)) for n in range(100)}
        self.there: set[int] = set()
        self.priced: set[int] = set()

    def _transfers(self, start: int, end: int) -> pa.Table:
        self.there |= set(range(start, end + 1))
        numbers = [n for n in range(start, end + 1) if n in self.values]
        times = [self.times[n] for n in numbers]
        return _table(numbers, value=[self.values[n] for n in numbers], timestamp=times)

    def _prices(self, start: int, end: int) -> pa.Table:
        self.priced |= set(range(start, end + 1))
        numbers = [n for n in range(start, end + 1) if n in self.prices]
        times = [self.times[n] for n in numbers]
        return _table(numbers, price=[self.prices[n] for n in numbers], timestamp=times)

    def expected_priced(self) -> list[dict[str, Any]]:
        both = self.there & self.priced & self.values.keys() & self.prices.keys()
        return _sorted({"block_number": n, "worth": self.values[n] * self.prices[n]} for n in both)

    def expected_buckets(self) -> list[dict[str, Any]]:
        there = self.there & self.values.keys()
        counts: Counter[int] = Counter()
        sums: Counter[int] = Counter()
        for n in there:
            counts[n // 10 * 10] += 1
            sums[n // 10 * 10] += self.values[n]
        return _sorted({"bucket": b, "n": counts[b], "total": sums[b]} for b in counts)

    def expected_hours(self) -> list[dict[str, Any]]:
        there, priced = self.there & self.values.keys(), self.priced & self.prices.keys()
        found: dict[int, list[int]] = {}
        for n in there | priced:
            found.setdefault(self.times[n] // 60, []).append(n)
        return _sorted(
            {
                "minute": minute,
                "n": len(there.intersection(blocks)),
                "total": sum(self.values[n] for n in there.intersection(blocks))
                if there.intersection(blocks)
                else None,
                "priced": len(priced.intersection(blocks)),
            }
            for minute, blocks in found.items()
        )

    def expected_last_two(self) -> list[dict[str, Any]]:
        minutes: Counter[int] = Counter(
            self.times[n] // 60 * 60 for n in self.there & self.values.keys()
        )
        return _sorted(
            {"at": at, "n": n, "before": minutes[at - 60] + minutes[at - 120] or None}
            for at, n in minutes.items()
        )

    def expected_moving(self) -> list[dict[str, Any]]:
        there = self.there & self.values.keys()
        return _sorted(
            {
                "block_number": n,
                "near": sum(self.values[m] for m in range(n - 3, n + 3) if m in there),
            }
            for n in there
        )

    def expected_totals(self) -> list[dict[str, Any]]:
        worth = [each["worth"] for each in self.expected_priced()]
        return [{"n": len(worth), "worth": sum(worth)}]


def _table(numbers: list[int], **columns: list[int]) -> pa.Table:
    every = {"block_number": numbers, **columns}
    return pa.table({name: pa.array(each, pa.int64()) for name, each in every.items()})


def _sorted(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


@pytest.fixture
def chain(plane: ControlPlane, spark_runtime: SparkRuntime) -> Chain:
    return Chain(plane, spark_runtime)


async def both_begin(chain: Chain) -> None:
    """Something was committed to both inputs before a transform reads either."""
    for source in ("chain", "market"):
        await chain.plane.trigger(0, 1 if source == "chain" else 2, "flow", source)
    await chain.plane.settle()
    for claimed in await take(chain.plane):
        await chain.run(claimed)
    await chain.run_all()


async def test_a_window_holds_whole_buckets_whatever_is_rewritten_or_comes_late(
    chain: Chain,
) -> None:
    await chain.plane.deploy(SOURCES + BUCKETS + AROUND)
    await chain.trigger("chain", (0, 24), (25, 31))
    await chain.trigger("chain", (40, 44))
    assert chain.partitions("buckets") == ["0-9", "10-19", "20-29", "30-39", "40-49"]
    assert chain.rows("buckets") == chain.expected_buckets()
    assert chain.rows("moving") == chain.expected_moving()
    # Late: blocks below and beside those that are there.
    await chain.trigger("chain", (32, 39))
    assert chain.rows("buckets") == chain.expected_buckets()
    assert chain.rows("moving") == chain.expected_moving()
    # A reorg: other values, and blocks that have nothing any more.
    chain.values |= {n: 100 + n for n in (19, 20, 21)}
    del chain.values[22]
    chain.ran.clear()
    await chain.rewritten("chain", 19, 22)
    assert chain.rows("buckets") == chain.expected_buckets()
    assert chain.rows("moving") == chain.expected_moving()
    # It reads partition 0-24, which is replaced as a whole: buckets above 29 are left alone.
    assert {part for job, part in chain.ran if job == "buckets"} == {"0-9", "10-19", "20-29"}
    assert {part for job, part in chain.ran if job == "moving"} == {"0-9", "10-19", "20-29"}


async def test_buckets_of_time_are_whole_whatever_moves_over_their_borders(chain: Chain) -> None:
    await chain.plane.deploy(SOURCES + HOURS + LAST_TWO)
    await both_begin(chain)
    await chain.trigger("chain", (2, 14), (15, 24), (40, 44), (45, 59), (60, 79))
    await chain.trigger("market", (3, 24), (40, 79))
    assert chain.rows("hours") == chain.expected_hours()
    assert chain.rows("last_two") == chain.expected_last_two()
    # Late, in the gap between buckets that are there.
    await chain.trigger("chain", (25, 39))
    assert chain.rows("hours") == chain.expected_hours()
    assert chain.rows("last_two") == chain.expected_last_two()
    # A reorg: other blocks are the first of their minute, and some of them have nothing.
    chain.times |= {n: chain.times[n] + 9 for n in range(45, 60)}
    for n in (47, 50):
        del chain.values[n]
    chain.ran.clear()
    await chain.rewritten("chain", 45, 59)
    await chain.rewritten("market", 45, 59)
    assert chain.rows("hours") == chain.expected_hours()
    assert chain.rows("last_two") == chain.expected_last_two()
    # Of the market partition 40-79 is replaced as a whole.
    assert {part for job, part in chain.ran if job == "hours"} == {"32-63", "64-95"}


async def test_a_map_of_two_inputs_has_the_rows_of_both_whichever_comes_later(
    chain: Chain,
) -> None:
    await chain.plane.deploy(SOURCES + JOIN)
    await both_begin(chain)
    await chain.trigger("market", (3, 49))
    await chain.trigger("chain", (2, 9), (10, 19))
    assert chain.rows("priced") == chain.expected_priced() != []
    chain.prices |= dict.fromkeys(range(5, 12), 50)
    await chain.rewritten("market", 5, 11)
    assert chain.rows("priced") == chain.expected_priced()
    chain.values[3] = 1_000
    await chain.rewritten("chain", 3, 3)
    assert chain.rows("priced") == chain.expected_priced()


async def test_full_is_one_partition_of_all_that_the_inputs_hold(chain: Chain) -> None:
    await chain.plane.deploy(SOURCES + FULL)
    await both_begin(chain)
    await chain.trigger("market", (3, 49))
    await chain.trigger("chain", (2, 9), (10, 19), (30, 39))
    assert chain.partitions("totals") == ["all"]
    assert chain.rows("totals") == chain.expected_totals()
    chain.values[12] = 5_000
    del chain.values[33]
    await chain.rewritten("chain", 12, 33)
    assert chain.partitions("totals") == ["all"]
    assert chain.rows("totals") == chain.expected_totals()
