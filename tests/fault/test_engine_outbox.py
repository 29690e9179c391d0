"""Fifty writers that commit in any order, two publishers: every event becomes exactly one task.

What is written first may be committed last. A publisher that remembers how far it has read would
pass over such a row for ever; one that takes whatever is there finds it. Each writer has a dataset
of its own: events of one dataset are committed in the order in which they are written.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.support.engine_stack import Engine, engine
from tests.support.stack import wait_for
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import events
from trace_platform.state.events import NewEvent

pytestmark = pytest.mark.timeout(300)

SEED = 50
WRITERS = 50
AT_ONCE = 10
_INPUTS = ", ".join(f"{{ from: {{ job: source, output: {n} }} }}" for n in range(WRITERS + 1))
DAG = f"""name: flood
jobs:
  - {{ name: source, activation: source, source: {{ kind: manual }}, outputs: {WRITERS + 1} }}
  - name: work
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{_INPUTS}]
"""


@pytest.mark.parametrize("rows", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_rows_that_are_committed_out_of_order_are_all_published(
    state_dsns: Any, tmp_path: Path, rows: int
) -> None:
    with engine(tmp_path, state_dsns) as stack:
        first, second = stack.dispatcher(), stack.dispatcher()
        stack.await_ready()
        stack.deploy(first.port, DAG)
        began = time.monotonic()
        late = asyncio.run(write_all(stack, state_dsns.dispatcher, rows))
        wait_for("an empty outbox", lambda: stack.value("SELECT count(*) FROM outbox") == 0)
        took_s = time.monotonic() - began
        print(f"{rows} rows in {took_s:.1f} s, {late} of them committed after a younger one")

        assert late > rows / 2, "the writers were too orderly to prove anything"
        assert_one_task_per_event(stack, rows)
        assert first.says("loop_failed") == second.says("loop_failed") == []


def assert_one_task_per_event(stack: Engine, rows: int) -> None:
    (counts,) = stack.sql(
        "SELECT count(*) AS events, count(routed_at) AS routed,"
        " (SELECT count(*) FROM tasks) AS tasks,"
        " (SELECT count(*) FROM tasks t JOIN events e"
        "   ON t.dedupe_key = e.dataset_version || ':' || e.identity) AS pairs,"
        " (SELECT count(DISTINCT body->>'task_id') FROM queue.messages) AS announced"
        " FROM events"
    )
    assert counts == dict.fromkeys(("events", "routed", "tasks", "pairs", "announced"), rows)


async def write_all(stack: Engine, dsn: str, number: int) -> int:
    """How many of the rows were committed after one that was written later.

    The writers act at random, some at once: one whose transaction is open commits it, one that has
    none writes the next row. The oldest row of all stays open until all others are routed.
    """
    chance = random.Random(SEED)
    *rows, eldest = events_of(stack)
    committed: list[int] = []
    async with connected(dsn, WRITERS + 1) as (oldest, *writers):
        open_rows: dict[int, int] = {}
        left = iter(range(1, number))
        await events.record(oldest, [replace(eldest, cursor=0)])

        async def act(writer: int) -> None:
            if writer in open_rows:
                await writers[writer].commit()
                committed.append(open_rows.pop(writer))
            elif (cursor := next(left, None)) is not None:
                open_rows[writer] = cursor
                await events.record(writers[writer], [replace(rows[writer], cursor=cursor)])

        while len(committed) < number - 1:
            await asyncio.gather(*map(act, chance.sample(range(WRITERS), AT_ONCE)))
        routed = "SELECT count(*) FROM events WHERE routed_at IS NOT NULL"
        await asyncio.to_thread(
            wait_for, "the others to be routed", lambda: stack.value(routed) == number - 1
        )
        await oldest.commit()
        committed.append(0)
    newest = accumulate(committed, max)
    return sum(cursor < youngest for cursor, youngest in zip(committed, newest, strict=True))


def events_of(stack: Engine) -> list[NewEvent]:
    """By output of the source: what all its events have in common."""
    outputs = stack.sql("SELECT * FROM datasets WHERE job_name = 'source' ORDER BY output_index")
    return [
        NewEvent(
            org_id=output["org_id"],
            dataset_uuid=output["uuid"],
            dataset_version=output["current_version"],
        )
        for output in outputs
    ]


@asynccontextmanager
async def connected(dsn: str, number: int) -> AsyncIterator[list[Tx]]:
    async with AsyncExitStack() as all_of_them:
        yield [
            await all_of_them.enter_async_context(
                await psycopg.AsyncConnection.connect(
                    dsn,
                    row_factory=dict_row,
                    # The server would end a transaction that is idle for a minute.
                    options="-c idle_in_transaction_session_timeout=0",
                )
            )
            for _ in range(number)
        ]
