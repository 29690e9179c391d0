"""Backpressure: a queue that is too long sheds work, holds its producers, and recovers."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.support.control_plane import ControlPlane, range_event
from tests.support.corpus import corpus
from trace_platform.dispatcher.pressure.relieve_pressure import level, relieve_pressure, room
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.domain.errors import Conflict, JobOnHold, StaleFence
from trace_platform.state import events, holds
from trace_platform.state.events import NewEvent
from trace_platform.state.pressure import JobLoad
from trace_platform.wire.task import Claimed, NotClaimed

pytestmark = pytest.mark.anyio

RUNTIME = "ecs_platform"


def job(name: str, source: str, *lines: str) -> str:
    """A job of a DAG file that reads this, or several separated by a semicolon."""
    inputs = ", ".join(f"{{ from: {{ {each} }} }}" for each in source.split("; "))
    given = [
        f"  - name: {name}",
        "    activation: reactive",
        f"    runtime: {RUNTIME}",
        "    operator: range_splitter",
        f"    inputs: [{inputs}]",
        "    config: { chunk_blocks: 10 }",
        *(f"    {line}" for line in lines),
    ]
    return "\n".join(given) + "\n"


def chain(limits: str | None, *decode: str, split: str = "normal", source: str = "normal") -> str:
    """request -> split -> decode, the last with these limits."""
    backpressure = [f"backpressure: {{ {limits} }}"] if limits else []
    return (
        "name: chain\njobs:\n"
        "  - { name: request, activation: source, source: { kind: manual },"
        f" priority: {source} }}\n"
        + job("split", "job: request", f"priority: {split}")
        + job("decode", "job: split", *backpressure, *decode)
    )


class Pipeline:
    """What the tests do to a control plane, and what they look at."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.made = 0

    async def tick(self) -> int:
        return await relieve_pressure(self.plane.dispatcher.state)

    async def produce(self, count: int, of: str = "split", dag: str = "chain") -> list[int]:
        """Events of a job's output, as a task of it that still runs would emit them; routed."""
        (dataset,) = self.plane.sql(
            "SELECT org_id, uuid, current_version FROM datasets"
            " WHERE dag_name = %s AND job_name = %s",
            dag,
            of,
        )
        starts = [10 * n for n in range(self.made, self.made + count)]
        self.made += count
        emitted = [
            NewEvent(
                org_id=dataset["org_id"],
                dataset_uuid=dataset["uuid"],
                dataset_version=dataset["current_version"],
                partition_key=f"{start}-{start + 9}",
                start=start,
                end=start + 9,
            )
            for start in starts
        ]
        async with self.plane.dispatcher.state.transaction() as tx:
            await events.record(tx, emitted)
        await self.plane.settle()
        return starts

    async def work(self, count: int) -> list[int]:
        """Complete the next tasks of any job; where their inputs start."""
        done = await self.start(count)
        for claimed in done:
            await self.plane.complete(claimed)
        return [starts_at(claimed) for claimed in done]

    async def start(self, count: int) -> list[Claimed]:
        workers = [f"w{n}" for n in range(count)]
        found = await claim_tasks(
            self.plane.dispatcher.state, self.plane.dispatcher.grants, RUNTIME, workers
        )
        return [claimed for _, claimed in found]

    def tasks(self, job_name: str = "decode", **columns: Any) -> list[dict[str, Any]]:
        """Those waiting of a job, in the order in which they are claimed."""
        rows = self.plane.sql(
            "SELECT t.*, t.inputs->0->'start' AS start FROM tasks t JOIN jobs j ON j.id = t.job_id"
            " WHERE j.name = %s AND status = 'Queued' ORDER BY t.priority, t.queued_at, t.id",
            job_name,
        )
        return [r for r in rows if all(r[name] == value for name, value in columns.items())]

    def ready(self, job_name: str = "decode") -> list[int]:
        return [row["start"] for row in self.tasks(job_name, pending_backpressure=False)]

    def pending(self, job_name: str = "decode") -> list[int]:
        return [row["start"] for row in self.tasks(job_name, pending_backpressure=True)]

    def held(self) -> dict[str, int]:
        """From which rank on which jobs are held."""
        rows = self.plane.sql(
            "SELECT dag_name || '.' || job_name AS job, min(from_rank) AS rank FROM job_holds"
            " GROUP BY 1"
        )
        return {row["job"]: row["rank"] for row in rows}

    def levels(self) -> dict[str, int]:
        rows = self.plane.sql(
            "SELECT j.name, p.from_rank FROM job_pressure p JOIN jobs j ON j.id = p.job_id"
        )
        return {row["name"]: row["from_rank"] for row in rows}

    def age(self, seconds: float, job_name: str = "decode") -> None:
        """All that waits of a job has waited so much longer."""
        self.plane.sql(
            "UPDATE tasks t SET queued_at = t.queued_at - make_interval(secs => %s) FROM jobs j"
            " WHERE j.id = t.job_id AND j.name = %s AND t.status = 'Queued'",
            seconds,
            job_name,
        )


def starts_at(claimed: Claimed) -> int:
    start = claimed.task.inputs[0].start
    assert start is not None
    return start


@pytest.fixture
def pipeline(plane: ControlPlane) -> Pipeline:
    return Pipeline(plane)


# Rising


async def test_a_full_queue_holds_all_its_producers_and_says_why(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 1000"))
    await pipeline.produce(1020)
    await pipeline.tick()
    assert pipeline.held() == {"chain.request": 0, "chain.split": 0}
    with pytest.raises(JobOnHold) as refused:
        await pipeline.plane.trigger(0, 9)
    assert refused.value.code == "job_on_hold"
    assert "chain.decode has 1,020 tasks queued, its limit is 1,000" in refused.value.message


async def test_a_held_job_starts_no_tasks(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    await pipeline.plane.trigger(0, 9)
    await pipeline.produce(5)
    (split,) = pipeline.tasks("split")
    await pipeline.tick()
    assert await pipeline.plane.claim(split["id"]) == NotClaimed(reason="Held")
    assert {c.task.job.name for c in await pipeline.start(20)} == {"decode"}


async def test_what_is_beyond_the_limit_waits_the_newest_first(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    starts = await pipeline.produce(8)
    await pipeline.tick()
    assert (pipeline.ready(), pipeline.pending()) == (starts[:5], starts[5:])


async def test_of_several_tiers_the_lowest_waits_first(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    starts = await pipeline.produce(8)
    low = [row["id"] for row in pipeline.tasks()[:4]]
    pipeline.plane.sql("UPDATE tasks SET priority = 2 WHERE id = ANY(%s)", low)
    await pipeline.tick()
    assert (pipeline.ready(), pipeline.pending()) == (starts[4:] + starts[:1], starts[1:4])


async def test_a_full_queue_takes_new_tasks_only_as_pending(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    await pipeline.produce(5)
    await pipeline.tick()
    assert len(pipeline.plane.wake_ups()) == 5
    more = await pipeline.produce(3)
    assert pipeline.pending() == more
    assert pipeline.plane.wake_ups() == []
    refused = await pipeline.plane.claim(pipeline.tasks(pending_backpressure=True)[0]["id"])
    assert refused == NotClaimed(reason="Held")


async def test_the_low_tier_is_shed_first(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10", split="low"))
    await pipeline.plane.trigger(0, 9)
    await pipeline.produce(7)
    await pipeline.tick()
    assert (pipeline.levels(), pipeline.held()) == ({}, {})
    await pipeline.produce(1)
    await pipeline.tick()
    assert pipeline.levels() == {"decode": 2}
    assert pipeline.held() == {"chain.request": 2, "chain.split": 2}
    # The source and the full job are of the normal tier, split is not.
    assert await pipeline.plane.trigger(10, 19) == 1
    await pipeline.plane.settle()
    assert pipeline.pending() == []
    assert {c.task.job.name for c in await pipeline.start(20)} == {"decode"}


async def test_a_low_source_is_refused_before_others(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10", source="low"))
    await pipeline.produce(8)
    await pipeline.tick()
    with pytest.raises(JobOnHold):
        await pipeline.plane.trigger(0, 9)


async def test_a_low_job_holds_normal_producers_once_all_that_waits_reaches_the_limit(
    pipeline: Pipeline,
) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10", "priority: low"))
    await pipeline.produce(8)
    await pipeline.tick()
    await pipeline.produce(1)
    await pipeline.tick()
    assert len(pipeline.pending()) == 1
    assert pipeline.held() == {"chain.request": 2, "chain.split": 2}
    await pipeline.produce(1)
    await pipeline.tick()
    assert pipeline.held() == {"chain.request": 0, "chain.split": 0}


async def test_a_task_that_waits_too_long_is_pressure_too(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_age: 10m"))
    await pipeline.produce(2)
    pipeline.age(479)
    await pipeline.tick()
    assert pipeline.levels() == {}
    pipeline.age(1)
    await pipeline.tick()
    assert pipeline.levels() == {"decode": 2}
    pipeline.age(1300)
    await pipeline.tick()
    assert pipeline.levels() == {"decode": 0}
    with pytest.raises(JobOnHold, match=r"chain\.decode has waited 29m 4\ds, its limit is 10m 0s"):
        await pipeline.plane.trigger(0, 9)


async def test_a_queue_that_is_far_too_long_is_not_counted_to_its_end(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    await pipeline.produce(50)
    await pipeline.tick()
    assert len(pipeline.ready()) == 5
    (hold, _) = pipeline.plane.sql("SELECT reason FROM job_holds")
    assert hold["reason"] == "chain.decode has more than 20 tasks queued, its limit is 5"


# Whom it reaches


OTHER = (
    "name: other\njobs:\n"
    + job("refine", "dataset: decoded")
    + job("alert", "job: refine", "backpressure: { max_queue_depth: 5 }")
)
PUBLISH = "publish: { decoded: { from: { job: decode } } }\n"


async def test_pressure_passes_through_other_dags(pipeline: Pipeline) -> None:
    aside = job("aside", "job: split")
    await pipeline.plane.deploy(chain(None) + aside + PUBLISH)
    await pipeline.plane.deploy(OTHER)
    await pipeline.produce(5, of="refine", dag="other")
    await pipeline.tick()
    everything = ("chain.request", "chain.split", "chain.decode", "other.refine")
    assert pipeline.held() == dict.fromkeys(everything, 0)
    await pipeline.work(5)
    await pipeline.tick()
    assert pipeline.held() == {}


async def test_producers_that_are_deployed_later_are_held_too(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain(None) + PUBLISH)
    await pipeline.plane.deploy(OTHER)
    await pipeline.produce(5, of="refine", dag="other")
    await pipeline.tick()
    relay = job("relay", "job: request")
    by_relay = chain(None).replace("from: { job: split }", "from: { job: relay }") + relay + PUBLISH
    await pipeline.plane.deploy(by_relay)
    await pipeline.tick()
    expected = ("chain.request", "chain.relay", "chain.decode", "other.refine")
    assert pipeline.held() == dict.fromkeys(expected, 0)


# Falling


async def test_pending_tasks_return_in_order_as_room_appears(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10"))
    starts = await pipeline.produce(15)
    await pipeline.tick()
    starts += await pipeline.produce(10)
    pipeline.plane.wake_ups()
    assert await pipeline.work(2) == starts[:2]
    assert await pipeline.tick() == 0
    done = starts[:2] + await pipeline.work(3)
    await pipeline.tick()
    # 80 % would shed the low tier: promotion stops just below.
    assert pipeline.ready() == starts[5:12]
    await pipeline.plane.settle()
    assert len(pipeline.plane.wake_ups()) == 2
    while pipeline.ready():
        done += await pipeline.work(3)
        await pipeline.tick()
        assert len(pipeline.ready()) <= 7
    assert done == starts


async def test_higher_tiers_return_first(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 2"))
    starts = await pipeline.produce(6)
    await pipeline.tick()
    urgent = pipeline.tasks()[-1]
    pipeline.plane.sql("UPDATE tasks SET priority = 0 WHERE id = %s", urgent["id"])
    await pipeline.work(2)
    await pipeline.tick()
    assert pipeline.ready() == [starts[-1]]


async def test_pressure_ends_at_half_of_the_limit(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10"))
    await pipeline.produce(10)
    await pipeline.tick()
    await pipeline.work(4)
    await pipeline.tick()
    assert (pipeline.levels(), len(pipeline.held())) == ({"decode": 0}, 2)
    await pipeline.work(1)
    await pipeline.tick()
    assert (pipeline.levels(), pipeline.held()) == ({}, {})
    assert await pipeline.plane.trigger(0, 9) == 1


async def test_pressure_does_not_end_while_tasks_are_pending(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10"))
    await pipeline.produce(12)
    await pipeline.tick()
    await pipeline.work(10)
    await pipeline.tick()
    assert (len(pipeline.ready()), pipeline.levels()) == (2, {"decode": 0})
    await pipeline.tick()
    assert pipeline.levels() == {}


async def test_jobs_that_are_let_go_are_woken_again(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    await pipeline.plane.trigger(0, 9)
    await pipeline.produce(5)
    await pipeline.tick()
    await pipeline.work(5)
    pipeline.plane.wake_ups()
    await pipeline.tick()
    await pipeline.plane.settle()
    assert pipeline.plane.wake_ups() == [row["id"] for row in pipeline.tasks("split")]


async def test_a_thousand_tasks_and_more_are_woken_when_their_job_is_let_go(
    pipeline: Pipeline,
) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    await pipeline.produce(1200, of="request")
    await pipeline.produce(5)
    await pipeline.tick()
    while pipeline.plane.wake_ups():
        pass
    assert len(await pipeline.start(5)) == 5
    await pipeline.tick()
    await pipeline.plane.settle()
    woken: set[UUID] = set()
    while found := pipeline.plane.wake_ups():
        woken.update(found)
    assert len(woken) == 1200


async def test_a_user_s_pause_outlives_the_pressure(pipeline: Pipeline) -> None:
    plane = pipeline.plane
    await plane.deploy(chain("max_queue_depth: 5"))
    async with plane.dispatcher.state.transaction() as tx:
        await holds.pause(tx, plane.dispatcher.org_id, "chain", "split", "maintenance")
    await pipeline.produce(5)
    await pipeline.tick()
    await pipeline.work(5)
    await pipeline.tick()
    assert plane.sql("SELECT job_name, cause, reason FROM job_holds") == [
        {"job_name": "split", "cause": "user", "reason": "maintenance"}
    ]


async def test_age_counts_anew_for_what_returns(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10, max_queue_age: 10m"))
    await pipeline.produce(15)
    pipeline.age(700)
    await pipeline.tick()
    await pipeline.work(9)
    await pipeline.tick()
    # The one that is left is too old: first it has to go.
    assert (len(pipeline.ready()), len(pipeline.pending())) == (1, 5)
    await pipeline.work(1)
    await pipeline.tick()
    assert (len(pipeline.ready()), len(pipeline.pending())) == (5, 0)
    await pipeline.tick()
    assert pipeline.levels() == {}


async def test_with_a_limit_of_age_alone_a_hundred_tasks_return_at_a_time(
    pipeline: Pipeline,
) -> None:
    await pipeline.plane.deploy(chain("max_queue_age: 10m"))
    await pipeline.produce(10)
    pipeline.age(600)
    await pipeline.tick()
    await pipeline.produce(250)
    await pipeline.work(10)
    counts = []
    while pipeline.pending():
        await pipeline.tick()
        counts.append(len(pipeline.ready()))
        await pipeline.work(100)
    assert counts == [100, 100, 50]
    await pipeline.tick()
    assert pipeline.levels() == {}


async def test_a_limit_of_one_lets_one_task_through_at_a_time(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 1"))
    starts = await pipeline.produce(4)
    done: list[int] = []
    await pipeline.tick()
    while ready := pipeline.ready():
        assert len(ready) == 1
        done += await pipeline.work(9)
        await pipeline.tick()
    assert done == starts
    assert (pipeline.levels(), pipeline.held()) == ({}, {})


async def test_of_a_job_with_a_concurrency_only_so_many_are_announced(pipeline: Pipeline) -> None:
    scaling = "scaling: { max_concurrency: 3 }"
    await pipeline.plane.deploy(chain("max_queue_depth: 20", scaling))
    await pipeline.produce(40)
    await pipeline.tick()
    pipeline.plane.sql("UPDATE jobs SET max_concurrency = NULL")
    await pipeline.work(20)
    pipeline.plane.sql("UPDATE jobs SET max_concurrency = 3 WHERE name = 'decode'")
    while pipeline.plane.wake_ups():
        pass
    await pipeline.tick()
    assert len(pipeline.ready()) == 15
    await pipeline.plane.settle()
    assert len(pipeline.plane.wake_ups()) == 3


def test_a_level_does_not_flap() -> None:
    """Between two rises the queue falls to a half and grows to four fifths, whatever it does."""
    chance = random.Random(7)
    load = JobLoad(uuid4(), "chain.decode", "pause", 100, None, 0, 0.0, 0, 0.0, None)
    depth, since, rises = 0, [0], 0
    for _ in range(20_000):
        depth = max(0, min(140, depth + chance.choice([-3, -2, -1, 1, 2, 3])))
        since.append(depth)
        rank = level(_with(load, ready=depth))
        if load.from_rank is None and rank is not None:
            rises += 1
            assert depth >= 80
            assert min(since) <= 50
            since = [depth]
        elif rank is None and load.from_rank is not None:
            assert depth <= 50
        elif rank is not None and load.from_rank is not None:
            assert rank <= load.from_rank
        load = _with(load, from_rank=rank)
    assert rises > 3


@corpus("limit", [1, 2, 3, 4, 5, 7, 10, 99, 1000, 2**31 - 1])
def test_promotion_alone_never_raises_a_level(limit: int) -> None:
    load = JobLoad(uuid4(), "chain.decode", "pause", limit, None, 0, 0.0, 10**6, 0.0, 0)
    promoted = _with(load, ready=room(load), pending=0, from_rank=None)
    assert promoted.ready >= 1
    assert limit == 1 or level(promoted) is None


def _with(load: JobLoad, **changes: Any) -> JobLoad:
    fields = {name: getattr(load, name) for name in JobLoad.__slots__}
    return JobLoad(**(fields | changes))


# The other modes


async def test_drop_oldest_keeps_the_newest_and_the_higher_tiers(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 4, mode: drop_oldest"))
    starts = await pipeline.produce(9)
    (running,) = await pipeline.start(1)
    low = [row["id"] for row in pipeline.tasks()[-3:]]
    pipeline.plane.sql("UPDATE tasks SET priority = 2 WHERE id = ANY(%s)", low)
    await pipeline.tick()
    assert pipeline.ready() == starts[2:6]
    assert (pipeline.pending(), pipeline.held()) == ([], {})
    dropped = pipeline.plane.sql("SELECT * FROM tasks WHERE status = 'Canceled'")
    assert sorted(row["inputs"][0]["start"] for row in dropped) == [starts[1], *starts[6:]]
    assert {row["error_code"] for row in dropped} == {"dropped_by_backpressure"}
    assert dropped[0]["error_message"] == "chain.decode keeps 4 queued tasks: this one was older"
    assert all(row["completed_at"] for row in dropped)
    await pipeline.plane.complete(running)


async def test_a_dropped_task_can_be_retried(pipeline: Pipeline) -> None:
    plane = pipeline.plane
    await plane.deploy(chain("max_queue_depth: 2, mode: drop_oldest"))
    starts = await pipeline.produce(3)
    await pipeline.tick()
    (dropped,) = plane.sql("SELECT id FROM tasks WHERE status = 'Canceled'")
    await pipeline.work(1)
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, dropped["id"])
    await pipeline.tick()
    assert await pipeline.work(5) == [starts[2], starts[0]]


async def test_a_task_that_lost_its_worker_can_be_dropped(pipeline: Pipeline) -> None:
    plane = pipeline.plane
    await plane.deploy(chain("max_queue_depth: 2, mode: drop_oldest"))
    await pipeline.produce(1)
    (lost,) = await pipeline.start(1)
    plane.sql("UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'")
    await reap_leases(plane.dispatcher.state)
    await requeue_failed(plane.dispatcher.state)
    starts = await pipeline.produce(2)
    await pipeline.tick()
    assert pipeline.ready() == starts
    with pytest.raises(StaleFence):
        await plane.complete(lost)


async def test_a_dropped_task_absorbs_nothing(pipeline: Pipeline) -> None:
    per_partition = "execution_strategy: PerPartition"
    await pipeline.plane.deploy(chain("max_queue_depth: 1, mode: drop_oldest", per_partition))
    starts = await pipeline.produce(2)
    await pipeline.tick()
    assert pipeline.ready() == starts[1:]
    assert pipeline.plane.sql("SELECT absorbs FROM tasks WHERE status = 'Canceled'") == [
        {"absorbs": None}
    ]


async def test_coalesce_gathers_what_arrives_in_one_task(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 4, mode: coalesce"))
    starts = await pipeline.produce(4)
    await pipeline.tick()
    assert (pipeline.levels(), pipeline.held(), pipeline.pending()) == ({"decode": 0}, {}, [])
    for count in (3, 1, 2):
        starts += await pipeline.produce(count)
    await pipeline.tick()
    assert len(pipeline.ready()) == 5
    seen = [i.start for claimed in await pipeline.start(9) for i in claimed.task.inputs]
    assert seen == starts
    await pipeline.tick()
    assert pipeline.levels() == {}
    await pipeline.produce(2)
    assert len(pipeline.ready()) == 2


# Deploys


async def test_a_deploy_without_limits_frees_everything(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    await pipeline.produce(20)
    await pipeline.tick()
    await pipeline.plane.deploy(chain(None))
    await pipeline.tick()
    assert (pipeline.levels(), pipeline.held(), pipeline.pending()) == ({}, {}, [])
    await pipeline.plane.settle()
    assert len(set(pipeline.plane.wake_ups())) == 20
    assert len(await pipeline.work(30)) == 20


async def test_an_unchanged_job_stays_under_pressure_over_a_deploy(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 5"))
    await pipeline.produce(7)
    await pipeline.tick()
    await pipeline.plane.deploy(chain("max_queue_depth: 5") + job("aside", "job: split"))
    assert await pipeline.tick() == 0
    assert pipeline.held() == {"chain.request": 0, "chain.split": 0}


async def test_a_job_without_limits_is_never_looked_at(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain(None))
    await pipeline.produce(50)
    assert await pipeline.tick() == 0
    assert len(pipeline.ready()) == 50


# Users, and several dispatchers


async def test_a_pending_task_can_be_canceled_and_retried(pipeline: Pipeline) -> None:
    plane = pipeline.plane
    await plane.deploy(chain("max_queue_depth: 2"))
    starts = await pipeline.produce(5)
    await pipeline.tick()
    victim = pipeline.tasks(pending_backpressure=True)[1]
    with pytest.raises(Conflict):
        await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, victim["id"])
    assert (
        await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, victim["id"])
        == "Canceled"
    )
    assert pipeline.pending() == [starts[2], starts[4]]
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, victim["id"])
    await pipeline.tick()
    # The newest now, and beyond the limit.
    assert pipeline.pending() == [starts[2], starts[4], starts[3]]


async def test_a_pending_task_that_ran_all_the_same_is_not_forgotten(pipeline: Pipeline) -> None:
    """A claim that was under way when its task was deferred wins. Should it fail, the task is
    pending again, although nothing else reminds of the pressure."""
    plane = pipeline.plane
    await plane.deploy(chain("max_queue_depth: 5"))
    await pipeline.produce(1)
    (claimed,) = await pipeline.start(1)
    plane.sql("UPDATE tasks SET pending_backpressure = true")
    await plane.deploy(chain(None))
    await plane.complete(claimed, status="Failed")
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp()")
    await requeue_failed(plane.dispatcher.state)
    assert await pipeline.tick() == 1
    assert len(await pipeline.work(1)) == 1


async def test_dispatchers_take_turns(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10"))
    await pipeline.produce(30)
    with psycopg.connect(pipeline.plane.owner_dsn) as other:
        other.execute("LOCK TABLE locks.relieve_pressure IN EXCLUSIVE MODE")
        assert await pipeline.tick() == 0
        assert len(pipeline.ready()) == 30
    assert await pipeline.tick() > 0


async def test_ticks_at_once_do_what_one_would(pipeline: Pipeline) -> None:
    await pipeline.plane.deploy(chain("max_queue_depth: 10"))
    starts = await pipeline.produce(40)
    done: list[int] = []
    while len(done) < len(starts):
        *_, worked = await asyncio.gather(*(pipeline.tick() for _ in range(6)), pipeline.work(4))
        done += worked
        await pipeline.tick()
        assert len(pipeline.ready()) <= 10
    assert Counter(done) == Counter(starts)


# Nothing is lost


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))]
)
async def test_whatever_happens_every_event_is_done_once(pipeline: Pipeline, seed: int) -> None:
    """Sources, workers that follow wake-ups, failures, ticks in any order; then all drains."""
    await Storm(pipeline, random.Random(seed)).rage()


class Storm:
    LIMIT = 8

    def __init__(self, pipeline: Pipeline, chance: random.Random) -> None:
        self.pipeline = pipeline
        self.plane = pipeline.plane
        self.chance = chance
        self.emitted = 0
        self.running: list[Claimed] = []

    async def rage(self) -> None:
        limits = f"max_queue_depth: {self.LIMIT}, max_queue_age: 10m"
        await self.plane.deploy(chain(limits, f"priority: {self.chance.choice(['normal', 'low'])}"))
        steps = [self.emit, self.publish, self.take, self.take, self.end, self.end, self.tick]
        for _ in range(150):
            await self.chance.choice([*steps, self.tick, self.grow_old, self.lose])()
        for _ in range(500):
            if self.drained():
                break
            for step in (self.tick, self.publish, self.take, self.end):
                await step()
        self.check()

    async def emit(self) -> None:
        start = 100 * self.emitted
        try:
            await self.plane.trigger(start, start + 99)
        except JobOnHold:
            return
        self.emitted += 1

    async def publish(self) -> None:
        await self.plane.settle()

    async def take(self) -> None:
        """As a worker does: as many tasks as there were wake-ups."""
        if woken := self.plane.received.receive(RUNTIME, self.chance.randint(1, 6), 30):
            self.plane.received.ack([message.receipt for message in woken])
            self.running += await self.pipeline.start(len(woken))

    async def end(self) -> None:
        self.chance.shuffle(self.running)
        for _ in range(min(len(self.running), self.chance.randint(1, 6))):
            await self.end_one(self.running.pop())

    async def end_one(self, claimed: Claimed) -> None:
        if claimed.attempt == 1 and self.chance.random() < 0.2:
            await self.plane.complete(claimed, status="Failed")
            self.plane.sql("UPDATE tasks SET next_retry_at = now() WHERE next_retry_at IS NOT NULL")
            await requeue_failed(self.plane.dispatcher.state)
            return
        start = starts_at(claimed)
        split = claimed.task.job.name == "split"
        emitted = [range_event(claimed, s, s + 9) for s in range(start, start + 100, 10)]
        await self.plane.complete(claimed, events=emitted if split else [])

    async def lose(self) -> None:
        """The worker of one attempt dies."""
        if not self.running:
            return
        lost = self.running.pop()
        if lost.attempt > 1:
            await self.end_one(lost)
            return
        self.plane.sql(
            "UPDATE tasks SET lease_expires_at = now() - interval '1 s' WHERE id = %s",
            lost.task.task_id,
        )
        await reap_leases(self.plane.dispatcher.state)
        await requeue_failed(self.plane.dispatcher.state)

    async def grow_old(self) -> None:
        self.pipeline.age(self.chance.choice([100, 300, 600]))

    async def tick(self) -> None:
        await self.pipeline.tick()
        assert len(self.pipeline.ready()) <= self.LIMIT

    def drained(self) -> bool:
        open_ = "SELECT 1 FROM tasks WHERE status NOT IN ('Completed') UNION SELECT 1 FROM outbox"
        return not self.plane.sql(open_) and not self.pipeline.levels()

    def check(self) -> None:
        assert self.emitted > 2
        rows = self.plane.sql(
            "SELECT count(t.id) AS tasks, count(*) FILTER (WHERE t.status = 'Completed') AS done"
            " FROM events e JOIN datasets d ON d.uuid = e.dataset_uuid"
            " LEFT JOIN tasks t ON t.dedupe_key = e.dataset_version || ':' || e.identity"
            " WHERE d.job_name IN ('request', 'split') GROUP BY e.id"
        )
        assert len(rows) == self.emitted * 11
        assert {(row["tasks"], row["done"]) for row in rows} == {(1, 1)}
        assert (self.pipeline.levels(), self.pipeline.held()) == ({}, {})
