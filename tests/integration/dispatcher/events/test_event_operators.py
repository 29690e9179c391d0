"""`aggregator` and `wire_tap`: what they emit, once, whatever fails or meets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import structlog

from tests.support.control_plane import ControlPlane, stage
from tests.support.corpus import corpus
from tests.support.driven import Driven, Nobody
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.event_operators.aggregator import Config
from trace_platform.dag.read.dag_yaml import DagErrors
from trace_platform.dispatcher.events.expire_correlations import expire_correlations, new_event
from trace_platform.dispatcher.operators import registry
from trace_platform.dispatcher.operators.aggregator import Aggregator
from trace_platform.dispatcher.operators.wire_tap import WireTap
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.run_direct import _run, _run_together, run_direct
from trace_platform.domain.errors import InvalidConfig, RpcUnreachable
from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtimes
from trace_platform.state import correlations, events, tasks

pytestmark = pytest.mark.anyio

SOURCE = "  - {{ name: {name}, activation: source, source: {{ kind: manual }} }}\n"


def fan_in(config: str = "{}", inputs: str = "abc", **job: str) -> str:
    """A source per input, an aggregator that reads them all, and a tap behind it."""
    sources = "".join(SOURCE.format(name=name) for name in inputs)
    edges = ", ".join(f"{{ from: {{ job: {name} }} }}" for name in inputs)
    extra = "".join(f"    {field}: {value}\n" for field, value in job.items())
    return f"""\
name: fan
jobs:
{sources}\
  - name: join
    activation: reactive
    runtime: dispatcher
    operator: aggregator
    inputs: [{edges}]
    config: {config}
{extra}\
  - name: tap
    activation: reactive
    runtime: dispatcher
    operator: wire_tap
    inputs: [{{ from: {{ job: join }} }}]
    outputs: 2
"""


@pytest.fixture
def driven(plane: ControlPlane) -> Driven:
    return Driven(plane, Runtimes.default(), Nobody())


async def test_a_tap_passes_events_on_unchanged_to_all_its_outputs(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", 7, (0, 9), "named")
    await driven.settle()
    assert sorted(driven.events("tap", 0)) == ["0-9", "7", "named"]
    assert sorted(driven.events("tap", 1)) == ["0-9", "7", "named"]
    (ranged,) = driven.plane.sql(
        "SELECT range_start, range_end, cursor FROM events e JOIN datasets d"
        " ON d.uuid = e.dataset_uuid WHERE d.job_name = 'tap' AND d.output_index = 1"
        " AND partition_key = '0-9'"
    )
    assert ranged == {"range_start": 0, "range_end": 9, "cursor": None}
    assert driven.statuses("join") == driven.statuses("tap") == ["Completed"] * 3


async def test_an_attempt_inside_the_dispatcher_has_a_history_like_any_other(
    driven: Driven,
) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", 7)
    await driven.settle()
    assert (
        driven.plane.sql("SELECT worker_id, attempt, outcome FROM task_attempts")
        == [{"worker_id": "dispatcher", "attempt": 1, "outcome": "Completed"}] * 2
    )
    assert driven.plane.sql("SELECT * FROM outbox") == []


async def test_tasks_of_the_dispatcher_are_counted_like_all_others(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", *range(3))
    with breaking(Aggregator, InvalidConfig("never"), times=2, of=1):
        await driven.settle()
    shown = driven.plane.dispatcher.metrics.exposition().decode().splitlines()
    assert 'trace_tasks_ended_total{status="Completed"} 4.0' in shown
    assert 'trace_tasks_ended_total{status="Failed"} 1.0' in shown
    assert "trace_task_queued_to_start_seconds_count 5.0" in shown


async def test_a_tap_logs_one_line_per_event(driven: Driven) -> None:
    yaml = fan_in("{ need: 1 }", "a").replace("outputs: 2", "outputs: 2\n    config: { log: true }")
    await driven.deploy(yaml)
    await driven.emit("a", 7, (0, 9))
    with structlog.testing.capture_logs() as lines:
        await driven.settle()
    told = [line for line in lines if line["event"] == "wire_tap"]
    assert sorted(str(line.get("cursor", line.get("partition_key"))) for line in told) == [
        "0-9",
        "7",
    ]
    assert {(line["dag"], line["job"], line["input_index"]) for line in told} == {("fan", "tap", 0)}


async def test_a_tap_passes_a_partition_that_was_committed_again_on_again(
    plane: ControlPlane,
) -> None:
    """An event of every materialisation: whoever listens behind the tap has to hear of both."""
    driven = Driven(plane, Runtimes.default(), Nobody())
    yaml = """\
name: chain
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: write
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
  - name: tap
    activation: reactive
    runtime: dispatcher
    operator: wire_tap
    inputs: [{ from: { job: write } }]
"""
    await driven.deploy(yaml)
    for request in ((0, 9), (0, 19)):
        await plane.trigger(*request)
        await driven.settle()
        (task_id,) = plane.wake_ups()
        claimed = await plane.claimed(task_id)
        # Both write the same partition: the second time it is another materialisation.
        await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, 0, 9)])
        plane.sql("UPDATE partition_versions SET made_of = '[]'")
        await driven.settle()
    assert driven.events("write") == ["0-9", "0-9"]
    assert driven.events("tap") == ["0-9", "0-9"]


async def test_all_means_every_input(driven: Driven) -> None:
    await driven.deploy(fan_in())
    await driven.emit("a", (0, 9))
    await driven.emit("b", (0, 9))
    await driven.settle()
    assert (driven.events("join"), driven.correlations()) == ([], [([0, 1], None)])
    await driven.emit("c", (0, 9))
    await driven.settle()
    assert driven.events("join") == driven.events("tap") == ["0-9"]
    assert driven.correlations() == [([0, 1, 2], "Complete")]


async def test_two_of_three_are_enough_and_the_third_changes_nothing(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 2 }"))
    for job in "cab":
        await driven.emit(job, 5)
        await driven.settle()
    assert driven.events("join") == ["5"]
    assert driven.correlations() == [([0, 2], "Complete")]
    assert driven.statuses("join") == ["Completed"] * 3


async def test_keys_do_not_meet(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 2 }", "ab"))
    await driven.emit("a", 5, "5", (0, 9))
    await driven.emit("b", 6, "6", (10, 19))
    await driven.settle()
    assert driven.events("join") == []
    await driven.emit("b", "5")
    await driven.settle()
    assert driven.events("join") == ["5"]
    assert len(driven.correlations()) == 6


async def test_an_input_that_arrives_twice_counts_once(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 2 }"))
    await driven.emit("a", (0, 9))
    await driven.settle()
    # Another materialisation of the same partition is another event, and another task.
    for table, name in (("events", "identity"), ("tasks", "dedupe_key")):
        driven.plane.sql(f"UPDATE {table} SET {name} = {name} || '@earlier'")
    await driven.emit("a", (0, 9))
    await driven.settle()
    assert driven.statuses("join") == ["Completed"] * 2
    assert (driven.events("join"), driven.correlations()) == ([], [([0], None)])
    await driven.emit("b", (0, 9))
    await driven.settle()
    assert driven.events("join") == ["0-9"]


async def test_a_bulk_task_brings_all_its_arrivals(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 2 }", execution_strategy="Bulk"))
    await driven.emit("a", 1, 2, 3)
    await driven.emit("b", 3, 2)
    await driven.settle()
    assert len(driven.tasks("join")) == 1
    assert sorted(driven.events("join")) == ["2", "3"]


async def test_one_dataset_read_twice_is_one_input(driven: Driven) -> None:
    """An event wakes a job once, through the first edge: the other would never arrive."""
    await driven.deploy(fan_in(inputs="ab").replace("{ job: b }", "{ job: a }"))
    await driven.emit("a", 5)
    await driven.settle()
    assert driven.events("join") == ["5"]


async def test_a_new_generation_correlates_anew(driven: Driven) -> None:
    await driven.deploy(fan_in(inputs="a"))
    await driven.emit("a", 5)
    await driven.settle()
    # The source begins anew, and with it what it feeds.
    await driven.deploy(
        fan_in(inputs="a").replace(
            "source: { kind: manual }",
            "source: { kind: manual }, bootstrap: { reset_outputs: true }",
        )
    )
    await driven.emit("a", 5)
    await driven.settle()
    assert driven.events("join") == ["5", "5"]


async def test_events_of_the_wrong_kind_fail_for_good_and_say_why(driven: Driven) -> None:
    await driven.deploy(fan_in("{ by: partition, need: 1 }", "a"))
    await driven.emit("a", 5, (0, 9))
    await driven.settle()
    assert driven.events("join") == ["0-9"]
    failed = [task for task in driven.tasks("join") if task["status"] == "Failed"]
    assert [(task["error_code"], task["next_retry_at"]) for task in failed] == [
        ("invalid_config", None)
    ]
    assert "brought a cursor, and the job aggregates by partition" in failed[0]["error_message"]


async def test_a_key_that_waits_too_long_is_emitted(driven: Driven) -> None:
    await driven.deploy(fan_in("{ timeout: 60 }"))
    await driven.emit("a", (0, 9))
    await driven.settle()
    assert await expire_correlations(driven.plane.dispatcher.state) == 0
    (row,) = driven.plane.sql(
        "SELECT extract(epoch FROM expires_at - first_at) AS s FROM correlations"
    )
    assert 59 < row["s"] < 61
    driven.time_out()
    with structlog.testing.capture_logs() as lines:
        assert await expire_correlations(driven.plane.dispatcher.state) == 1
    assert lines == [
        {
            "event": "correlation_timed_out",
            "log_level": "warning",
            "dag": "fan",
            "job": "join",
            "key": "partition:0-9",
            "arrived": [0],
        }
    ]
    await driven.settle()
    assert driven.events("join") == driven.events("tap") == ["0-9"]
    # What comes later finds it closed.
    await driven.emit("b", (0, 9))
    await driven.emit("c", (0, 9))
    await driven.settle()
    assert (driven.events("join"), driven.correlations()) == (["0-9"], [([0], "TimedOut")])
    assert await expire_correlations(driven.plane.dispatcher.state) == 0


async def test_a_key_that_waits_too_long_can_be_dropped(driven: Driven) -> None:
    await driven.deploy(fan_in("{ timeout: 60, on_timeout: drop }"))
    await driven.emit("a", (0, 9))
    await driven.settle()
    driven.time_out()
    assert await expire_correlations(driven.plane.dispatcher.state) == 1
    await driven.settle()
    assert (driven.events("join"), driven.correlations()) == ([], [([0], "TimedOut")])


async def test_without_a_timeout_a_key_waits_for_ever(driven: Driven) -> None:
    await driven.deploy(fan_in())
    await driven.emit("a", 5)
    await driven.settle()
    assert driven.plane.sql("SELECT expires_at FROM correlations") == [{"expires_at": None}]
    driven.time_out()
    assert await expire_correlations(driven.plane.dispatcher.state) == 0


async def test_expiry_honours_its_limit(driven: Driven) -> None:
    await driven.deploy(fan_in("{ timeout: 60 }"))
    await driven.emit("a", *range(5))
    await driven.settle()
    driven.time_out()
    found = [await expire_correlations(driven.plane.dispatcher.state, limit=2) for _ in range(4)]
    assert found == [2, 2, 1, 0]


async def test_last_arrivals_and_timeouts_at_once_make_one_event_a_key(driven: Driven) -> None:
    keys = list(range(60))
    await driven.deploy(fan_in("{ timeout: 60 }", "ab"))
    await driven.emit("a", *keys)
    await driven.settle()
    await driven.emit("b", *keys)
    await driven.plane.settle()
    driven.time_out()

    async def sweep() -> None:
        while await expire_correlations(driven.plane.dispatcher.state, limit=1):
            pass

    async def arrive() -> None:
        # One task a transaction, so that many of them meet.
        while await _run_together(driven.direct(together=1), "dispatcher"):
            pass

    await asyncio.gather(sweep(), arrive(), sweep(), arrive(), arrive())
    await driven.settle()
    assert sorted(map(int, driven.events("join"))) == keys
    assert driven.statuses("join") == ["Completed"] * 120


async def test_an_arrival_that_meets_the_timeout_waits_for_it(
    driven: Driven, eventually: Callable[..., None]
) -> None:
    await driven.deploy(fan_in("{ timeout: 60 }", "ab"))
    await driven.emit("a", 5)
    await driven.settle()
    await driven.emit("b", 5)
    await driven.plane.settle()
    driven.time_out()
    async with driven.plane.dispatcher.state.transaction() as tx:
        (late,) = await correlations.expire(tx, 9)
        arriving = asyncio.create_task(run_direct(driven.direct()))
        await asyncio.to_thread(eventually, driven.is_anyone_waiting)
        await events.record(tx, [new_event(late)])
    await arriving
    assert (driven.events("join"), driven.correlations()) == (["5"], [([0], "TimedOut")])


async def test_a_key_that_something_arrives_for_does_not_time_out(driven: Driven) -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    class Waits(Aggregator):
        async def run(self, tx: Any, task: Any) -> Any:
            emitted = await super().run(tx, task)
            arrived.set()
            await go_on.wait()
            return emitted

    await driven.deploy(fan_in("{ timeout: 60 }", "ab"))
    await driven.emit("a", 5)
    await driven.settle()
    await driven.emit("b", 5)
    await driven.plane.settle()
    driven.time_out()
    with installed(Waits):
        arriving = asyncio.create_task(run_direct(driven.direct()))
        await arrived.wait()
        assert await expire_correlations(driven.plane.dispatcher.state) == 0
        go_on.set()
        await arriving
    assert await expire_correlations(driven.plane.dispatcher.state) == 0
    assert (driven.events("join"), driven.correlations()) == (["5"], [([0, 1], "Complete")])


async def test_arrivals_at_the_same_moment_make_one_event(driven: Driven) -> None:
    keys = list(range(40))
    await driven.deploy(fan_in("{ need: 2 }"))
    for job in "abc":
        await driven.emit(job, *keys)
    await driven.plane.settle()
    await asyncio.gather(*(run_direct(driven.direct(together=3), limit=1) for _ in range(6)))
    await driven.settle()
    assert sorted(map(int, driven.events("join"))) == keys
    assert driven.statuses("join") == ["Completed"] * 120


@contextmanager
def installed(operator: Any) -> Iterator[None]:
    before = registry.OPERATORS[operator.name]
    registry.OPERATORS[operator.name] = operator
    try:
        yield
    finally:
        registry.OPERATORS[operator.name] = before


@contextmanager
def breaking(operator: Any, error: Exception, times: int, of: Any = None) -> Iterator[list[UUID]]:
    """Its run writes and then raises, so many times; the tasks that it broke."""
    broken: list[UUID] = []

    class Breaks(operator):  # type: ignore[misc]
        async def run(self, tx: Any, task: Any) -> Any:
            emitted = await super().run(tx, task)
            if len(broken) < times and (of is None or task.inputs[0].cursor == of):
                broken.append(task.task_id)
                raise error
            return emitted

    with installed(Breaks):
        yield broken


async def test_a_failed_attempt_leaves_nothing_behind_and_is_tried_again(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", 5)
    # Once with the others of its batch, and once by itself.
    with breaking(Aggregator, RpcUnreachable("no luck", hint="try again"), times=2):
        await driven.settle()
    (task,) = driven.tasks("join")
    assert (task["status"], task["attempt"]) == ("Failed", 1)
    assert task["next_retry_at"] is not None
    assert (task["error_code"], task["error_message"]) == ("rpc_unreachable", "no luck (try again)")
    assert (driven.correlations(), driven.events("join")) == ([], [])
    await driven.retry_now()
    await driven.settle()
    assert [t["attempt"] for t in driven.tasks("join") if t["status"] == "Completed"] == [2]
    assert driven.events("join") == driven.events("tap") == ["5"]


async def test_an_operator_that_crashes_is_named_by_its_error(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", 5)
    error = ZeroDivisionError("by zero\nand more")
    with breaking(Aggregator, error, times=9), structlog.testing.capture_logs():
        for _ in range(3):
            await driven.settle()
            await driven.retry_now()
    (task,) = driven.tasks("join")
    assert (task["status"], task["attempt"], task["next_retry_at"]) == ("Failed", 3, None)
    assert (task["error_code"], task["error_message"]) == (
        "operator_crashed",
        "ZeroDivisionError: by zero",
    )


async def test_one_that_fails_does_not_take_the_others_down(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", *range(10))
    with breaking(Aggregator, InvalidConfig("never"), times=9, of=4) as broken:
        await driven.settle()
    assert len(broken) == 2
    assert sorted(map(int, driven.events("join"))) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    failed = [task for task in driven.tasks("join") if task["status"] == "Failed"]
    assert [(task["error_code"], task["next_retry_at"]) for task in failed] == [
        ("invalid_config", None)
    ]


async def test_an_attempt_that_was_overtaken_changes_nothing(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", 5)
    await driven.plane.settle()
    (queued,) = driven.tasks("join")
    async with driven.plane.dispatcher.state.transaction() as tx:
        late = await tasks.claim(tx, "dispatcher", ["dispatcher"], [queued["id"]])
    assert await driven.lose_leases() == 1
    await driven.settle()
    before = driven.plane.sql("SELECT * FROM task_attempts ORDER BY attempt, outcome DESC")
    assert [attempt["outcome"] for attempt in before[:2]] == ["LeaseExpired", "Completed"]
    with breaking(Aggregator, AssertionError("must not run"), times=1):
        async with driven.plane.dispatcher.state.transaction() as tx:
            await _run(tx, late)
    assert driven.plane.sql("SELECT * FROM task_attempts ORDER BY attempt, outcome DESC") == before
    assert driven.events("join") == driven.events("tap") == ["5"]


async def test_a_runtime_that_is_gone_keeps_its_tasks_waiting(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", 5)
    await driven.plane.settle()
    ours = Runtimes([replace(r, enabled=r.kind == "queue") for r in DEFAULT_RUNTIMES])
    without = Driven(driven.plane, ours, Nobody())
    with structlog.testing.capture_logs() as lines:
        assert await run_direct(without.direct()) == 1
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("tasks_wait_for_their_runtime", "dispatcher is switched off")
    ]
    assert driven.plane.sql("SELECT 1 FROM outbox") == [], "such rows do not pile up"
    driven.plane.sql("UPDATE tasks SET announce_again_at = clock_timestamp()")
    await requeue_failed(driven.plane.dispatcher.state)
    await driven.settle()
    assert driven.events("join") == ["5"]


async def test_a_limit_of_the_runtime_holds_and_nothing_is_left_behind(driven: Driven) -> None:
    own, *others = DEFAULT_RUNTIMES
    driven.runtimes = Runtimes([replace(own, max_concurrency=2), *others])
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", *range(7))
    await driven.plane.settle()
    (row,) = driven.plane.sql("SELECT payload FROM outbox")
    assert len(row["payload"]["task_ids"]) == 2
    await driven.settle()
    assert sorted(map(int, driven.events("tap"))) == list(range(7))


async def test_a_long_queue_is_run_over_several_passes(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 1 }", "a"))
    await driven.emit("a", *range(25))
    await driven.plane.settle()
    direct = driven.direct(together=2)
    assert await run_direct(direct) == 1
    assert driven.statuses("join").count("Completed") == 20
    assert await run_direct(direct) == 1
    assert driven.statuses("join").count("Completed") == 25
    assert driven.plane.sql("SELECT * FROM outbox WHERE kind = 'enqueue'") == []


async def test_many_events_are_run_whole(driven: Driven) -> None:
    await driven.deploy(fan_in("{ need: 2 }", "ab"))
    keys = list(range(1200))
    await driven.emit("a", *keys)
    await driven.emit("b", *keys)
    await driven.settle()
    assert sorted(map(int, driven.events("join"))) == keys
    assert sorted(map(int, driven.events("tap", 1))) == keys


def test_need_beyond_the_inputs_is_found_at_deploy() -> None:
    assert list(Aggregator.problems(3, Config(need=3))) == []
    assert list(Aggregator.problems(3, Config())) == []
    assert list(Aggregator.problems(3, Config(need=4))) == [
        "need is 4, and the job reads 3 datasets"
    ]
    assert list(WireTap.problems(1, WireTap.Config())) == []


@corpus(
    ("config", "said"),
    [
        ("{ need: 0 }", "need: write how many of the inputs, 1 or more, or all (found 0)"),
        ("{ need: true }", "need: write how many"),
        ("{ need: most }", "need: write how many"),
        ("{ by: block }", "by: use partition or cursor"),
        ("{ timeout: 0 }", "timeout: must be more than 0"),
        ("{ timeout: true }", "timeout: should be a number"),
        ("{ on_timeout: fail }", "on_timeout: use emit or drop"),
        ("{ ned: 2 }", "ned: unknown field; did you mean 'need'?"),
    ],
)
def test_a_wrong_config_is_found_at_deploy(config: str, said: str) -> None:
    with pytest.raises(DagErrors) as caught:
        check_dag(fan_in(config))
    (error,) = caught.value.errors
    assert f"{error.field}: {error.problem}".startswith(f"jobs[3].config.{said}")


def test_an_operator_of_the_workers_is_no_operator_of_the_dispatcher() -> None:
    with pytest.raises(InvalidConfig) as caught:
        registry.load("wiretap")
    assert caught.value.hint == "did you mean wire_tap?"
    with pytest.raises(InvalidConfig) as caught:
        registry.load("zzz")
    assert caught.value.hint == "there are aggregator, range_aggregator, wire_tap"
