"""kill -9 at each step of a write to hot tables: before and after its commit, between the commit
and its announcement, before the announcement is marked as sent, and in a trim. Every snapshot is of
one chain, nothing is owed for ever, and every fork is told once."""

from __future__ import annotations

import multiprocessing
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.crash_points import HOT_POINTS, MARKED_SENT, ROWS_NOT_COMMITTED, CrashPoints
from tests.support.crash_stack import CrashEngine, HotData, crash_engine
from tests.support.follower_chain import ForkingChain
from tests.support.hot_chain import LOGS_PER_BLOCK, HotChain, hashes
from tests.support.hot_witness import HotWitness
from tests.support.scripted_rpc import scripted_rpc
from tests.support.shared_data import shared_data
from tests.support.stack import wait_for
from trace_platform.data import hot_tables
from trace_platform.data.database import DataDatabase

pytestmark = pytest.mark.timeout(600)

HOT_DAG = """
name: hot
defaults: { max_attempts: 3 }
jobs:
  - name: follow
    activation: source
    source: { kind: always_on }
    runtime: ecs_platform
    operator: block_follower
    outputs: [blocks, transactions, logs]
    config: { chain_id: 31337, rpc_pool: test, start_block: 0, poll_seconds: 0.02 }
  - name: after
    activation: reactive
    runtime: ecs_platform
    operator: lineage
    inputs: [{ from: { job: follow, output: blocks } }]
    config: { job: after, revision: 1 }
"""


@pytest.mark.long
@pytest.mark.parametrize("change", ["grows", "forks"])
def test_a_follower_killed_at_each_point_of_a_rewrite(
    change: str, state_dsns: Any, postgres: Any, tmp_path: Path
) -> None:
    chain = ForkingChain(5)
    with (
        shared_data(postgres) as data,
        crash_engine(tmp_path, state_dsns, HotData(data.writer, postgres.home.secrets)) as stack,
        scripted_rpc(chain.answer) as node,
    ):
        dispatcher = stack.committer()
        worker = stack.killable_worker(dispatcher.port)
        worker.serve_node(node.url)
        dispatcher.await_ready()
        worker.await_ready()
        stack.deploy(dispatcher.port, HOT_DAG)
        wait_for("what is written first", lambda: worker.points.count(MARKED_SENT), 60)
        versions = [
            row["current_version"]
            for row in stack.sql(
                "SELECT current_version FROM datasets WHERE job_name = 'follow'"
                " ORDER BY output_index"
            )
        ]
        with closing(HotWitness(data.owner, chain, versions)) as witness:
            for point in HOT_POINTS:
                print(point, flush=True)
                pid = worker.pid
                worker.points.arm(point)
                before = witness.look()
                if change == "grows":
                    chain.grow(2)
                else:
                    chain.reorg(3, fork=point, length=5)
                worker.await_ready(pid)
                assert not worker.points.is_armed
                # Committed with all that it owes, or not at all.
                assert (witness.look() == before) == (point == ROWS_NOT_COMMITTED)
                stack.expire_leases_of(pid)
                stack.heal()
                wait_for("all of the chain", lambda: witness.look() == chain.hashes(), 60)
                wait_for("nothing owed", lambda: witness.owed() == 0, 60)
            wait_for("what comes after it", lambda: covered(stack) == set(range(len(chain.blocks))))
            assert witness.looks > len(HOT_POINTS)
        invalid = stack.sql("SELECT dataset_version FROM data_invalidations")
        forks = len(HOT_POINTS) if change == "forks" else 0
        assert len([row for row in invalid if row["dataset_version"] in versions]) == 3 * forks


def covered(stack: CrashEngine) -> set[int]:
    """Blocks of which the job after the follower has made something."""
    stack.heal()
    rows = stack.sql(
        "SELECT p.range_start, p.range_end FROM partition_versions p"
        " JOIN datasets d ON d.uuid = p.dataset_uuid"
        " WHERE d.job_name = 'after' AND p.superseded_at IS NULL"
    )
    return {n for row in rows for n in range(row["range_start"], row["range_end"] + 1)}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_trim_killed_around_its_commit_takes_all_of_its_rows_or_none(
    moment: str, postgres: Any, tmp_path: Path
) -> None:
    with shared_data(postgres) as data:
        chain = HotChain(DataDatabase(data.writer))
        with chain.writer() as writer:
            writer.take_over()
            chain.write(writer, 1, 9)
        points = CrashPoints(tmp_path)
        points.arm(moment)
        child = multiprocessing.get_context("fork").Process(
            target=trim_and_crash, args=(chain, points)
        )
        child.start()
        child.join(60)
        assert (child.exitcode, points.is_armed) == (-signal.SIGKILL, False)
        trimmed = 4 * (1 + LOGS_PER_BLOCK)
        assert count_rows(data.owner, chain) == 9 * (1 + LOGS_PER_BLOCK) - (
            trimmed if moment == "after" else 0
        )
        again = hot_tables.trim(chain.database, chain.versions, 4, hashes(1, 4))
        assert again == (0 if moment == "after" else trimmed)
        assert count_rows(data.owner, chain) == 5 * (1 + LOGS_PER_BLOCK)


def trim_and_crash(chain: HotChain, points: CrashPoints) -> None:
    """In a process of its own: up to the last statement before the commit, and after it."""
    plain, tables = hot_tables._delete_up_to, iter(chain.versions[1:])

    def delete(*args: Any) -> int:
        gone = plain(*args)
        if next(tables, None) is None:
            points.reach("before")
        return gone

    hot_tables._delete_up_to = delete
    hot_tables.trim(chain.database, chain.versions, 4, hashes(1, 4))
    points.reach("after")


def count_rows(dsn: str, chain: HotChain) -> int:
    with psycopg.connect(dsn) as owner:
        counts = [
            owner.execute(f"SELECT count(*) FROM dataset_{version.hex}".encode()).fetchone()
            for version in chain.versions
        ]
    return sum(row[0] for row in counts if row is not None)
