"""What wakes each operator: what lint says of every way to wake it, and that what lint accepts is
never refused by the operator for its shape, nor the other way round."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.support.corpus import corpus
from tests.support.frame_task import output
from tests.support.operator_task import operator_task
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.event_operators import registry as in_process
from trace_platform.dag.read.dag_yaml import DagErrors
from trace_platform.dispatcher.operators import registry as running
from trace_platform.dispatcher.operators.contract import EventTask
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, Unavailable
from trace_platform.domain.runtimes import Runtimes
from trace_platform.operators import accepts, registry
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.state.coverage import Extent
from trace_platform.wire.task import JobRef, TaskInput

CHAIN = {"chain_id": 1, "rpc_pool": "mainnet"}


class Row(NamedTuple):
    """What an operator takes, as its page in docs/operators.md says."""

    takes: str
    several: bool
    is_source: bool = False
    config: dict[str, Any] = {}


# `takes`: r(anges), p(artitions of another kind), t(icks); nothing of an operator that is a source.
EXPECTED: dict[str, Row] = {
    "range_splitter": Row("r", several=True, config={"chunk_blocks": 10}),
    "cryo_ingest": Row("r", several=False, config=CHAIN),
    "parquet_compact": Row("r", several=False),
    "log_decode": Row("r", several=True, config={"abis": ["weth.Deposit"]}),
    "call_decode": Row("r", several=True, config={"abis": ["weth.deposit"]}),
    "query_export": Row("rpt", several=True, config={"sql": "select 1"}),
    "sql_transform": Row("r", several=True, config={"mode": "map", "sql": "select 1 as x"}),
    "sql_transform of everything": Row(
        "rpt", several=True, config={"mode": "full", "sql": "select 1 as x"}
    ),
    "integrity_check": Row("rpt", several=True, config=CHAIN),
    "no_op": Row("rpt", several=True, is_source=True, config={"emit": True}),
    "rpc_integrity_check": Row(
        "rpt", several=True, is_source=True, config={"chain_id": 1, "rpc_pools": ["mainnet"]}
    ),
    "block_follower": Row("", several=False, is_source=True, config=CHAIN),
    "liveliness_monitor": Row(
        "", several=False, is_source=True, config={**CHAIN, "head_max_age_seconds": 9}
    ),
    "ticker": Row("", several=False, is_source=True, config={"every_seconds": 1}),
    "file_watch": Row("", several=False, is_source=True, config={"folder": "s3://inbox/a/"}),
    "file_ingest": Row(
        "p",
        several=False,
        config={"folder": "s3://inbox/a/", "format": "csv", "types": {"a": "int64"}},
    ),
    "http_ingest": Row(
        "t",
        several=True,
        config={
            "url": "https://127.0.0.1/",
            "types": {"a": "int64"},
            "auth": {"type": "bearer", "secret": "key"},
        },
    ),
    "address_labels": Row("p", several=False, config={"folder": "s3://inbox/a/"}),
    "aggregator": Row("rpt", several=True),
    "aggregator by cursor": Row("t", several=True, config={"by": "cursor"}),
    "aggregator by partition": Row("rp", several=True, config={"by": "partition"}),
    "range_aggregator": Row("r", several=True, config={"chunk_blocks": 10}),
    "wire_tap": Row("rpt", several=True),
}
IN_DISPATCHER = ("aggregator", "range_aggregator", "wire_tap")
OUTPUTS = {"cryo_ingest": 3, "block_follower": 3, "log_decode": 2, "call_decode": 2}
OUTPUTS |= {"file_ingest": 2, "address_labels": 2, "http_ingest": 2}

WORKER = {"activation": "source", "source": {"kind": "always_on"}, "runtime": "ecs_platform"}
# What a source emits, and the source.
SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "manual": ("r", {"activation": "source", "source": {"kind": "manual"}}),
    "cron": ("t", {"activation": "source", "source": {"kind": "cron", "schedule": "0 3 * * *"}}),
    "webhook": ("p", {"activation": "source", "source": {"kind": "webhook", "secret": "key"}}),
    "block_follower": (
        "r",
        {**WORKER, "operator": "block_follower", "config": CHAIN, "outputs": 3},
    ),
    "ticker": ("t", {**WORKER, "operator": "ticker", "config": {"every_seconds": 1}}),
    "an operator of one's own": ("?", {**WORKER, "runtime": "own", "operator": "mine"}),
}
STRATEGIES = ("PerUpdate", "PerPartition", "Bulk")
MODES = (None, "pause", "coalesce", "drop_oldest")


class Way(NamedTuple):
    """One way to wake a job."""

    source: str
    strategy: str
    mode: str | None


WAYS = [Way(*each) for each in product(SOURCES, STRATEGIES, MODES)]


def operator_of(row: str) -> str:
    return row.split()[0]


def job_of(row: str, **fields: Any) -> dict[str, Any]:
    operator = operator_of(row)
    return {
        "name": "work",
        "runtime": "dispatcher" if operator in IN_DISPATCHER else "ecs_platform",
        "operator": operator,
        "config": EXPECTED[row].config,
        "outputs": OUTPUTS.get(operator, 1),
        **fields,
    }


def lint(*jobs: dict[str, Any], runtimes: Runtimes) -> set[str]:
    """The fields of the last job that are wrong."""
    try:
        check_dag(json.dumps({"name": "d", "jobs": jobs}), runtimes)
    except DagErrors as found:
        return {error.field.removeprefix(f"jobs[{len(jobs) - 1}].") for error in found.errors}
    return set()


@pytest.fixture(scope="module")
def runtimes() -> Runtimes:
    known = Runtimes.default()
    own = replace(known.get("ecs_platform"), name="own", queue="own")
    return Runtimes([*known, own])


def lint_woken(row: str, way: Way, runtimes: Runtimes) -> set[str]:
    fields: dict[str, Any] = {
        "activation": "reactive",
        "inputs": [{"from": {"job": "feed"}}],
        "execution_strategy": way.strategy,
    }
    if way.mode is not None:
        fields["backpressure"] = {"max_queue_depth": 9, "mode": way.mode}
    feed = {"name": "feed", **SOURCES[way.source][1]}
    return lint(feed, job_of(row, **fields), runtimes=runtimes)


def expected(row: str, way: Way) -> set[str]:
    """What is wrong with it, by the table above."""
    takes, several, *_ = EXPECTED[row]
    if not takes:
        return {"operator"}
    emits, in_dispatcher = SOURCES[way.source][0], operator_of(row) in IN_DISPATCHER
    wrong = set()
    if way.strategy == "Bulk" and not several:
        wrong.add("execution_strategy")
    if way.mode == "coalesce" and (in_dispatcher or not several):
        wrong.add("backpressure.mode")
    if emits not in takes and emits != "?":
        wrong.add("inputs[0].from")
    # A tick is no partition; and the dispatcher's operators see every event.
    if way.strategy == "PerPartition" and (in_dispatcher or (emits == "t" and "t" in takes)):
        wrong.add("execution_strategy")
    return wrong


def test_every_operator_is_in_the_table() -> None:
    every = {*registry.OPERATORS, *in_process.OPERATORS}
    # It takes what `sql_transform` takes, by the same rule, and needs a file that is not here.
    assert {operator_of(row) for row in EXPECTED} == every - {"python_transform"}


@corpus("row", EXPECTED)
def test_lint_says_what_cannot_wake_it(row: str, runtimes: Runtimes) -> None:
    said = {way: lint_woken(row, way, runtimes) for way in WAYS}
    assert said == {way: expected(row, way) for way in WAYS}


@corpus("row", EXPECTED)
def test_lint_says_what_is_no_source(row: str, runtimes: Runtimes) -> None:
    job = job_of(row, activation="source", source={"kind": "always_on"})
    wrong = "runtime" if operator_of(row) in IN_DISPATCHER else "operator"
    assert lint(job, runtimes=runtimes) == (set() if EXPECTED[row].is_source else {wrong})


# What the tasks of a job can be made of, by what its source emits and how many come together.
UPDATES: dict[str, list[dict[str, Any]]] = {
    "r": [{"partition_key": f"{n}-{n + 9}", "start": n, "end": n + 9} for n in (0, 30, 10)],
    "p": [{"partition_key": f"msg_{n}"} for n in range(3)],
    "t": [{"cursor": 1_700_000_000 + n} for n in range(3)],
}


class Reached(Exception):
    """The operator took the task, and asks for something that this test does not have."""


def reached(*_: Any, **__: Any) -> Any:
    raise Reached


def takes(row: str, updates: list[dict[str, Any]], store: Path) -> bool:
    """Whether the operator takes a task of this shape."""
    inputs = tuple(
        TaskInput(dataset_uuid=uuid4(), dataset_version=uuid4(), input_index=0, **each)
        for each in updates
    )
    try:
        if operator_of(row) in IN_DISPATCHER:
            _run_in_dispatcher(row, inputs)
        else:
            _run(row, inputs, store)
    except (Reached, Unavailable):
        # Around Spark's own work whatever is raised is made Unavailable.
        return True
    except InvalidConfig:
        return False
    return True


def _run(row: str, inputs: tuple[TaskInput, ...], store: Path) -> None:
    operator = registry.load(operator_of(row))
    config = operator.Config.model_validate(EXPECTED[row].config)
    task = operator_task(config, BlockRange(0, 9), store)
    if operator.name == "parquet_compact":
        inputs += tuple(
            each.model_copy(update={"input_index": 1 + n, "trigger": False, "table": True})
            for n, each in enumerate(task.inputs * 3)
        )
    if operator.name in ("log_decode", "call_decode"):
        task = replace(task, outputs=tuple(output(n) for n in range(OUTPUTS[operator.name])))
        inputs = tuple(each.model_copy(update={"table": True}) for each in inputs)
    if operator.name in ("file_ingest", "address_labels"):
        task.store.put("s3://inbox/a/a.csv", b"a\n")
        is_file = {"partition_key": "a.csv"}
        inputs = tuple(
            each.model_copy(update=is_file if each.partition_key and each.start is None else {})
            for each in inputs
        )
    asked = replace(
        task,
        inputs=inputs,
        spark=reached,
        rpc=reached,
        data=reached,
        query=reached,
        emit=reached,
        secret=reached,
    )
    operator().run(asked)


def _run_in_dispatcher(row: str, inputs: tuple[TaskInput, ...]) -> None:
    operator = running.load(operator_of(row))
    task = EventTask(
        task_id=uuid4(),
        job_id=uuid4(),
        generation_id=uuid4(),
        job=JobRef(dag_name="d", name="work"),
        config=operator.Config.model_validate(EXPECTED[row].config),
        inputs=inputs,
        outputs=((uuid4(), uuid4()),),
    )
    tx: Any = None
    asyncio.run(operator().run(tx, task))  # type: ignore[arg-type]


def shapes(way: Way) -> Iterator[list[dict[str, Any]]]:
    """The tasks that this way makes."""
    emits = SOURCES[way.source][0]
    if emits == "?" or (way.strategy == "PerPartition" and emits == "t"):
        return
    yield UPDATES[emits][:1]
    if way.strategy == "Bulk" or way.mode == "coalesce":
        yield UPDATES[emits]


@pytest.fixture(autouse=True)
def _no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators of the dispatcher end where they ask Postgres, having looked at what woke them."""
    from trace_platform.dispatcher.operators import aggregator, range_aggregator

    async def extents(*_: Any) -> list[Extent]:
        return [Extent(dataset_version=uuid4(), first_end=0, last=1_000)]

    monkeypatch.setattr(range_aggregator.coverage, "extents", extents)
    monkeypatch.setattr(range_aggregator, "_whole", reached)
    monkeypatch.setattr(aggregator, "_completes", reached)


@pytest.mark.parametrize("row", [row for row in EXPECTED if EXPECTED[row].takes])
def test_what_lint_accepts_the_operator_takes_and_what_it_takes_lint_accepts(
    row: str, runtimes: Runtimes, tmp_path: Path
) -> None:
    shape_fields = {"execution_strategy", "backpressure.mode", "inputs[0].from"}
    for way in WAYS:
        # Of the dispatcher's operators the engine refuses some strategies, whatever wakes them.
        in_dispatcher = operator_of(row) in IN_DISPATCHER
        if in_dispatcher and (way.strategy == "PerPartition" or way.mode == "coalesce"):
            continue
        made = list(shapes(way))
        if not made:
            continue
        accepted = not lint_woken(row, way, runtimes) & shape_fields
        assert accepted == all(takes(row, each, tmp_path) for each in made), way


class Undeclared:
    name = "undeclared"
    Config = OperatorConfig
    output_names = None

    def run(self, task: TaskContext) -> Result:
        return Result()


def test_an_operator_that_does_not_say_what_it_accepts_is_accepted(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = registry.load
    monkeypatch.setattr(
        registry, "load", lambda name: Undeclared if name == "undeclared" else load(name)
    )
    monkeypatch.setitem(registry.OPERATORS, "undeclared", "")
    monkeypatch.setitem(EXPECTED, "undeclared", Row("rpt", several=True))
    said = {way: lint_woken("undeclared", way, runtimes) for way in WAYS}
    assert said == {way: expected("undeclared", way) for way in WAYS}
    source = job_of("undeclared", activation="source", source={"kind": "always_on"})
    assert lint(source, runtimes=runtimes) == set()


@corpus(
    ("found", "said"),
    [
        (accepts.ONE_RANGE, "one block range"),
        (accepts.RANGES, "block ranges"),
        (accepts.Accepts(accepts.PARTITION), "one partition"),
        (accepts.ANYTHING, "any updates"),
        (accepts.Accepts(accepts.ANY), "one update"),
        (accepts.Accepts(frozenset({"partition", "tick"})), "one partition or tick"),
        (accepts.Accepts(accepts.RANGE | accepts.TICK, several=True), "block ranges or ticks"),
    ],
)
def test_what_is_accepted_is_said_in_words(found: accepts.Accepts, said: str) -> None:
    assert str(found) == said
