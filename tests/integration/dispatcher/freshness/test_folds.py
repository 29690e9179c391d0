"""Folds through the dispatcher's verbs: whatever is rewritten or comes late, queries and transforms
read what all rows add up to, and only the ranges that changed are made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest

from tests.integration.dispatcher.redo.test_invalidations import route, say, take
from tests.support.control_plane import ControlPlane
from tests.support.transform_chain import TransformChain
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.storage.merge_folds import merge_folds
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.domain.errors import CommitOvertaken
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.query.child.engine import Engine
from trace_platform.query.protocol.messages import Limits, Run
from trace_platform.query.service.resolve import Resolved
from trace_platform.query.service.run_query import cold_relation
from trace_platform.sql.gate import check
from trace_platform.sql.relations import Reference
from trace_platform.wire.query import DatasetRef, ResolveRequest
from trace_platform.wire.task import Claimed

pytestmark = [pytest.mark.anyio, pytest.mark.spark]

DAG = """
name: flow
jobs:
  - { name: chain, activation: source, source: { kind: manual } }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: chain } }]
    outputs: [transfers]
  - name: balances
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: ingest, output: transfers } }]
    outputs: [balances]
    config:
      mode: fold
      fold:
        by: [holder]
        values:
          balance: sum(delta)
          mean_delta: avg(delta)
          moves: count()
          named: count(note)
          smallest: min(small)
          largest: max(small)
          total: sum(small)
          mean: avg(small)
          first_with: first(other)
          last_with: last(other)
          peers: count_distinct(other)
      sql: |
        select block_number, log_index, receiver as holder, sender as other, value as delta, small,
               case when small > 3 then 'x' end as note
          from transfers
         union all
        select block_number, log_index, sender, receiver, concat('-', value), small, null
          from transfers
  - name: supply
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: ingest, output: transfers } }]
    outputs: [supply]
    config:
      mode: fold
      fold: { values: { transfers: count(), highest: max(block_number) } }
      sql: select block_number from transfers
  - name: holders
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    execution_strategy: Bulk
    inputs: [{ from: { job: balances } }]
    outputs: [holders]
    config: { mode: full, sql: select * from balances }
publish:
  balances: { from: { job: balances } }
  supply: { from: { job: supply } }
"""
HUGE = 2**256 - 1


class Ledger(TransformChain):
    """Transfers of numbers of 256 bits, two in each block, and what they add up to."""

    def __init__(self, plane: ControlPlane, runtime: SparkRuntime, scratch: Path) -> None:
        super().__init__(plane, runtime)
        self.scratch = scratch
        self.fork = 0
        self.there: dict[int, list[dict[str, Any]]] = {}
        self.staged = {"ingest": self._transfers}
        # What a block holds when it is read now.
        self.block: Callable[[int], list[dict[str, Any]]] = lambda n: [
            {
                "block_number": n,
                "log_index": i,
                "sender": f"p{(n + self.fork) % 5}",
                "receiver": f"p{(3 * n + i + self.fork) % 7}",
                "value": str(HUGE - n if i else (n * 10**9) % 7_000_000_001),
                "small": (n * 7 + self.fork) % 11,
            }
            for i in range(2)
        ]

    def _transfers(self, start: int, end: int) -> pa.Table:
        for n in range(start, end + 1):
            self.there[n] = self.block(n)
        found = [row for n in range(start, end + 1) for row in self.there[n]]
        kinds = {"block_number": pa.int64(), "log_index": pa.int64(), "small": pa.int32()}
        names = ["block_number", "log_index", "sender", "receiver", "value", "small"]
        return pa.table(
            {
                name: pa.array([row[name] for row in found], kinds.get(name, pa.string()))
                for name in names
            }
        )

    def expected(self) -> list[dict[str, Any]]:
        moves: dict[str, list[tuple[Any, ...]]] = {}
        for row in (row for n in sorted(self.there) for row in self.there[n]):
            at, small = (row["block_number"], row["log_index"]), row["small"]
            amount, sender, receiver = int(row["value"]), row["sender"], row["receiver"]
            moves.setdefault(receiver, []).append((at, sender, amount, small, small > 3))
            moves.setdefault(sender, []).append((at, receiver, -amount, small, False))
        return [_totals(holder, moves[holder]) for holder in sorted(moves)]

    async def queried(self, sql: str, name: str = "balances") -> list[dict[str, Any]]:
        """As the query service answers."""
        asked = ResolveRequest(datasets=[DatasetRef(name=name)])
        state, org = self.plane.dispatcher.state, self.plane.dispatcher.org_id
        (dataset,) = (await resolve_datasets(state, org, asked)).datasets
        read = Resolved(Reference(view=name, name=name), dataset)
        pages: list[bytes] = []
        done = Engine(Limits(), str(self.scratch)).run(
            check(duckdb.connect(), sql),
            Run(relations=[cold_relation(read, self.plane.dispatcher.store)]),
            pages.append,
        )
        assert [c.name for c in done.columns] == [c.name for c in dataset.columns or done.columns]
        names = [column.name for column in done.columns]
        return [
            dict(zip(names, row, strict=True))
            for page in pages
            for row in msgspec.json.decode(page)
        ]


def _totals(holder: str, moves: list[tuple[Any, ...]]) -> dict[str, Any]:
    balance, smalls = sum(move[2] for move in moves), [move[3] for move in moves]
    return {
        "holder": holder,
        "balance": str(balance),
        "mean_delta": float(balance) / len(moves),
        "moves": len(moves),
        "named": sum(move[4] for move in moves),
        "smallest": min(smalls),
        "largest": max(smalls),
        "total": str(sum(smalls)),
        "mean": sum(smalls) / len(smalls),
        # Of two at one place the smaller value counts as the first.
        "first_with": min(moves)[1],
        "last_with": max(moves)[1],
        "peers": len({move[1] for move in moves}),
    }


@pytest.fixture
async def ledger(plane: ControlPlane, spark_runtime: SparkRuntime, tmp_path: Path) -> Ledger:
    return Ledger(plane, spark_runtime, tmp_path)


async def assert_balances(ledger: Ledger) -> None:
    expected = ledger.expected()
    assert await ledger.queried("select * from balances order by holder") == expected


async def assert_exact(ledger: Ledger) -> None:
    expected = ledger.expected()
    await assert_balances(ledger)
    read = ledger.rows("holders")
    assert [row | {"total": str(row["total"])} for row in read] == expected
    [supply] = await ledger.queried("select * from supply", "supply")
    rows = [row for n in ledger.there for row in ledger.there[n]]
    assert supply == {"transfers": len(rows), "highest": max(r["block_number"] for r in rows)}


async def test_a_fold_adds_up_all_ranges_whatever_is_rewritten_or_comes_late(
    ledger: Ledger,
) -> None:
    await ledger.plane.deploy(DAG)
    await ledger.trigger("chain", (0, 9), (10, 19), (30, 30), (31, 31))
    await assert_exact(ledger)
    # Late, and then a reorg that gives some blocks other rows and leaves some without any.
    await ledger.trigger("chain", (20, 29))
    await assert_exact(ledger)
    block = ledger.block
    ledger.block = lambda n: [] if n == 31 else block(n)
    ledger.fork = 3
    ledger.ran.clear()
    await ledger.rewritten("chain", 30, 31)
    await assert_exact(ledger)
    assert {key for job, key in ledger.ran if job == "balances"} == {"30-31"}
    await ledger.rewritten("chain", 12, 14)
    await assert_exact(ledger)


# The fold alone: nothing is woken by what becomes one partition.
ALONE = f"""{DAG[: DAG.index("  - name: supply")]}
    checks:
      - {{ kind: not_null, columns: [holder] }}
      - {{ name: of_rows, kind: sql, sql: select * from input_0 where value is null }}
publish:
  balances: {{ from: {{ job: balances }} }}
"""
PARTS = [(n, n + 3) for n in range(0, 32, 4)] + [(32, 160)]


async def merging(ledger: Ledger) -> Claimed:
    """The task that makes one partition of those that are old enough, claimed."""
    assert await merge_folds(ledger.plane.dispatcher.state) == 1
    assert await merge_folds(ledger.plane.dispatcher.state) == 0, "it is asked for once"
    await ledger.plane.settle()
    (claimed,) = await take(ledger.plane)
    assert claimed.task.inputs[0].files == [], "it reads what its job has made alone"
    assert [check.label for check in claimed.task.checks] == ["not_null_holder"]
    return claimed


async def tried_again(ledger: Ledger, claimed: Claimed) -> None:
    await ledger.plane.complete(claimed, status="Failed", error_code="commit_overtaken")
    ledger.plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE status = 'Failed'")
    await requeue_failed(ledger.plane.dispatcher.state)
    await ledger.run_all()


async def test_neighbours_become_one_partition_that_reads_as_they_did(ledger: Ledger) -> None:
    await ledger.plane.deploy(ALONE)
    await ledger.trigger("chain", *PARTS)
    await ledger.run(await merging(ledger))
    assert ledger.partitions("balances") == ["0-31", "32-160"]
    await assert_balances(ledger)
    assert await merge_folds(ledger.plane.dispatcher.state) == 0
    # A reorg that reaches below makes all of it anew, of the rows.
    ledger.fork = 3
    ledger.ran.clear()
    await ledger.rewritten("chain", 12, 14)
    assert {key for job, key in ledger.ran if job == "balances"} == {"0-31"}
    await assert_balances(ledger)


async def test_who_merges_does_not_take_the_place_of_what_was_rewritten_meanwhile(
    ledger: Ledger,
) -> None:
    await ledger.plane.deploy(ALONE)
    await ledger.trigger("chain", *PARTS)
    early = await merging(ledger)
    staged = ledger.result(early)
    ledger.fork = 3
    await ledger.rewritten("chain", 5, 5)
    with pytest.raises(CommitOvertaken, match="rows were committed where partition 0-31"):
        await ledger.plane.complete(early, outputs=staged.outputs)
    await tried_again(ledger, early)
    assert ledger.partitions("balances") == ["0-31", "32-160"]
    await assert_balances(ledger)


KEEP = """
INSERT INTO withheld_partitions (materialisation, org_id, dag_name, job_name, checks)
SELECT p.id, d.org_id, 'flow', 'reader', '{of_rows}'
  FROM partition_versions p JOIN datasets d ON d.uuid = p.dataset_uuid
 WHERE d.job_name = 'balances' AND p.superseded_at IS NULL AND p.partition_key = '4-7'
"""


async def test_what_is_kept_from_a_job_is_not_merged_since_it_would_have_another_name(
    ledger: Ledger,
) -> None:
    """Also where the merge was asked for before a check failed."""
    await ledger.plane.deploy(ALONE)
    await ledger.trigger("chain", *PARTS)
    assert await merge_folds(ledger.plane.dispatcher.state) == 1
    ledger.plane.sql(KEEP)
    await ledger.run_all()
    assert "4-7" in ledger.partitions("balances")
    waiting = "SELECT error_message FROM tasks WHERE error_code = 'held_by_check'"
    [task] = ledger.plane.sql(waiting)
    assert "balances 4-7 failed of_rows, which keeps it from flow.reader" in task["error_message"]
    # What takes its place is kept from nobody: the merge is tried again at once.
    await ledger.rewritten("chain", 4, 4)
    await requeue_failed(ledger.plane.dispatcher.state)
    await ledger.run_all()
    assert ledger.partitions("balances") == ["0-31", "32-160"]
    await assert_balances(ledger)


async def test_what_was_read_before_the_merge_does_not_take_its_place(ledger: Ledger) -> None:
    """Two rewrites of one block; who has read the first of them alone is late."""
    await ledger.plane.deploy(ALONE)
    await ledger.trigger("chain", *PARTS)
    merge = await merging(ledger)
    ledger.fork = 3
    await say(ledger.plane, "flow.chain", 5, 5)
    await route(ledger.plane)
    (ingest,) = await take(ledger.plane)
    await ledger.run(ingest)
    await ledger.plane.settle()
    (late,) = await take(ledger.plane)
    staged = ledger.result(late)
    # The merge knows nothing of the rewrite, and is there first.
    await ledger.run(merge)
    assert ledger.partitions("balances") == ["0-31", "32-160"]
    with pytest.raises(CommitOvertaken, match="partition 0-31 is there"):
        await ledger.plane.complete(late, outputs=staged.outputs)
    await tried_again(ledger, late)
    assert ledger.partitions("balances") == ["0-31", "32-160"]
    await assert_balances(ledger)
