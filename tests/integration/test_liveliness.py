"""The monitor tells that something stands still once, and once that it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from pydantic import ValidationError

from tests.conftest import DataDsns
from tests.support.cold_chain import served
from tests.support.corpus import corpus
from tests.support.operator_task import operator_task
from tests.support.scripted_rpc import Raw, ScriptedRpc
from trace_devchain import DevChain
from trace_platform.data.database import DataDatabase
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import TaskCanceled, WrongChain
from trace_platform.operators.checks.liveliness_monitor import Config, LivelinessMonitor
from trace_platform.operators.contract import TaskContext
from trace_platform.wire.task import DatasetEvent

HEAD = 50
START = 1_000.0
EVERY = 10


class Clocked(LivelinessMonitor):
    """Its database's time passes while it naps; before each round a step of the test's is done."""

    def __init__(self, steps: Sequence[Callable[[], object]], at: float = START) -> None:
        self.steps = list(steps)
        self.time = at
        self.round = at // EVERY
        self.done = 0

    def now(self, database: DataDatabase) -> float:
        self.time += 0.001
        if self.time // EVERY > self.round:
            self.round = self.time // EVERY
            self.step()
        return self.time

    def nap(self, seconds: float) -> None:
        assert seconds <= 0.1, "a directive is noticed soon"
        self.time += seconds

    def step(self) -> None:
        if self.done < len(self.steps):
            self.steps[self.done]()
        self.done += 1


@dataclass
class Watched:
    data: DataDatabase
    owner: str
    tmp_path: Path
    chain: DevChain
    node: ScriptedRpc
    table: UUID = field(default_factory=uuid4)
    events: list[DatasetEvent] = field(default_factory=list)

    def run(self, *steps: Callable[[], object], at: float = START, **config: Any) -> None:
        """A round of ten seconds before the first step, and one after each."""
        settings = {"every_seconds": EVERY, "chain_id": 31337, "rpc_pool": "test", **config}
        monitor = Clocked(steps, at)
        monitor.run(self.task(settings, lambda: monitor.done > len(steps)))

    def task(self, settings: dict[str, Any], draining: Callable[[], bool]) -> TaskContext:
        def emit(events: Sequence[DatasetEvent] = (), *_: Any, **__: Any) -> int:
            self.events.extend(events)
            return len(events)

        made = operator_task(
            Config.model_validate(settings),
            BlockRange(0, 0),
            self.tmp_path,
            outputs=("changes",),
            url=self.node.url,
        )
        return replace(made, inputs=(), data=lambda: self.data, draining=draining, emit=emit)

    def hot(self, last_block: int | None) -> None:
        """As the follower leaves the table's extent."""
        with psycopg.connect(self.owner, autocommit=True) as connection:
            connection.execute("DELETE FROM hot_tables WHERE dataset_uuid = %s", [self.table])
            connection.execute(
                "INSERT INTO hot_tables (dataset_version, dataset_uuid, columns, key, first_block,"
                " last_block) VALUES (gen_random_uuid(), %s, '[]', '{}', %s, %s)",
                [self.table, None if last_block is None else 0, last_block],
            )

    def told(self) -> list[tuple[str, str]]:
        with psycopg.connect(self.data.dsn, row_factory=dict_row) as connection:
            rows = connection.execute("SELECT * FROM alert_events ORDER BY created_at").fetchall()
        return [(row["severity"], row["code"]) for row in rows]


def nothing() -> None:
    """A round in which nothing happens."""


@pytest.fixture
def watched(data_dsns: DataDsns, tmp_path: Path) -> Iterator[Watched]:
    chain = DevChain(blocks=HEAD, txs=0)
    with served(chain) as node:
        yield Watched(DataDatabase(data_dsns.writer), data_dsns.owner, tmp_path, chain, node)


def test_a_head_that_moves_is_nothing_to_tell(watched: Watched) -> None:
    watched.run(*[watched.chain.mine] * 4, head_max_age_seconds=15)
    assert watched.told() == []
    assert watched.events == []


def test_a_head_that_stands_still_is_told_once_and_so_is_its_recovery(watched: Watched) -> None:
    steps = [nothing] * 4 + [watched.chain.mine] * 2
    watched.run(*steps, head_max_age_seconds=15)
    assert watched.told() == [("warning", "chain_stalled"), ("info", "chain_stalled_ended")]
    assert len({event.cursor for event in watched.events}) == 2


def test_another_attempt_goes_on_with_what_is_open(watched: Watched) -> None:
    watched.run(*[nothing] * 3, head_max_age_seconds=15)
    watched.run(*[nothing] * 3, head_max_age_seconds=15, at=START + 100)
    assert watched.told() == [("warning", "chain_stalled")]
    watched.run(watched.chain.mine, head_max_age_seconds=15, at=START + 200)
    assert watched.told()[1:] == [("info", "chain_stalled_ended")]


def test_a_second_standstill_at_the_same_block_is_another_incident(watched: Watched) -> None:
    def back() -> None:
        watched.chain._head -= 1

    still = [nothing] * 3
    watched.run(*still, watched.chain.mine, back, *still, head_max_age_seconds=15)
    assert [code for _, code in watched.told()] == [
        "chain_stalled",
        "chain_stalled_ended",
        "chain_stalled",
    ]


def test_a_node_that_does_not_answer_tells_of_no_progress(watched: Watched) -> None:
    def silent() -> None:
        watched.node.faults.extend([Raw(status=404)] * 100)

    watched.run(watched.chain.mine, silent, *[nothing] * 3, head_max_age_seconds=15)
    assert watched.told() == [("warning", "chain_stalled")]
    watched.node.faults.clear()


def test_a_table_that_falls_behind_is_told_until_it_has_caught_up(watched: Watched) -> None:
    watched.hot(HEAD)
    steps = [
        lambda: watched.chain.mine(5),
        lambda: watched.chain.mine(10),
        lambda: watched.hot(HEAD + 2),
        lambda: watched.hot(HEAD + 15),
    ]
    watched.run(*steps, tables=[watched.table], max_lag_blocks=8, severity="critical")
    assert watched.told() == [("critical", "table_lags"), ("info", "table_lags_ended")]
    assert len(watched.events) == 2


def test_a_table_that_is_not_there_lags_by_the_whole_chain(watched: Watched) -> None:
    watched.run(nothing, tables=[watched.table], max_lag_blocks=8)
    assert watched.told() == [("warning", "table_lags")]


def test_a_dataset_that_stands_still_is_told(watched: Watched) -> None:
    watched.hot(10)
    steps = [*[nothing] * 3, lambda: watched.hot(11)]
    watched.run(*steps, tables=[watched.table], max_age_seconds=15, chain_id=None, rpc_pool=None)
    assert watched.told() == [("warning", "dataset_stalled"), ("info", "dataset_stalled_ended")]


def test_it_stops_at_the_check_and_asks_the_right_chain(watched: Watched) -> None:
    settings = {"chain_id": 31337, "rpc_pool": "test", "head_max_age_seconds": 1}

    def canceled() -> None:
        raise TaskCanceled("canceled on request")

    task = replace(watched.task(settings, lambda: False), check=canceled)
    with pytest.raises(TaskCanceled):
        LivelinessMonitor().run(task)
    with pytest.raises(WrongChain):
        LivelinessMonitor().run(watched.task(settings | {"chain_id": 1}, lambda: False))


def test_the_time_is_the_databases(watched: Watched) -> None:
    with psycopg.connect(watched.data.dsn) as connection:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
        later = LivelinessMonitor().now(watched.data)
        after = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
    assert row is not None
    assert after is not None
    assert row[0] <= later <= after[0]


@corpus(
    "config",
    [
        {},
        {"head_max_age_seconds": 5},
        {"head_max_age_seconds": 5, "rpc_pool": "a"},
        {"max_lag_blocks": 5, "rpc_pool": "a", "chain_id": 1},
        {"tables": [str(uuid4())], "head_max_age_seconds": 5, "rpc_pool": "a", "chain_id": 1},
        {"head_max_age_seconds": 0, "rpc_pool": "a", "chain_id": 1},
    ],
)
def test_a_config_that_watches_nothing_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate(config)
