"""What nobody committed is deleted; what anybody committed never is, nor what may still be."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.integration.dispatcher.sources.test_hooks import DAG as HOOK_DAG
from tests.integration.dispatcher.sources.test_hooks import deliver
from tests.support.control_plane import ControlPlane, fence_fields
from tests.support.pipeline import Job, Pipeline
from trace_platform.dispatcher.events.publish_buffer import publish_buffer
from trace_platform.dispatcher.storage.collect_garbage import (
    Collecting,
    collect_after,
    collect_garbage,
    sweep_attempts,
)
from trace_platform.dispatcher.storage.prune_history import prune_history
from trace_platform.dispatcher.storage.purge_generation import purge_generations
from trace_platform.dispatcher.tasks.complete_task import complete_task
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.domain.errors import DatasetInUse, StaleFence, TraceError
from trace_platform.domain.prefix import generation_prefix, log_uri, scratch_prefix
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators import registry
from trace_platform.wire.dataset import GarbageItem
from trace_platform.wire.task import BufferPublishRequest, Claimed, CompleteRequest

pytestmark = pytest.mark.anyio

BUCKET, SCRATCH = "trace-data", "trace-scratch"


def collecting(plane: ControlPlane, grace_s: float = 0.0) -> Collecting:
    return Collecting(plane.dispatcher.state, plane.dispatcher.store, BUCKET, SCRATCH, grace_s)


async def collected(
    plane: ControlPlane, grace_s: float = 0.0, pieces: int = 2
) -> list[GarbageItem]:
    """All of the store, a few places at a time."""
    plane.sql("UPDATE garbage_walk SET position = '', taken_until = '-infinity'")
    found: list[GarbageItem] = []
    while True:
        found += await collect_garbage(collecting(plane, grace_s), every_s=0, limit=pieces)
        if plane.sql("SELECT position FROM garbage_walk") == [{"position": ""}]:
            return found


def stored(plane: ControlPlane) -> set[str]:
    """Every file, also half-written ones."""
    root = Path(plane.dispatcher.store.root)
    return {
        f"s3://{path.relative_to(root)}"
        for bucket in (BUCKET, SCRATCH)
        for path in (root / bucket).rglob("*")
        if path.is_file()
    }


def committed(plane: ControlPlane) -> set[str]:
    found = plane.sql("SELECT location, files, task_id FROM partition_versions")
    return {
        row["location"] + name
        for row in found
        for name in [
            *(file["name"] for file in row["files"]),
            *(("_manifest.json", "_SUCCESS") if row["task_id"] else ()),
        ]
    }


async def started(pipe: Pipeline, start: int = 0) -> Claimed:
    await pipe.trigger((start, start + 9))
    (claimed,) = await pipe.claim()
    return claimed


def write(pipe: Pipeline, claimed: Claimed, name: str = "half.parquet") -> str:
    uri = claimed.task.outputs[0].prefix + name
    pipe.plane.dispatcher.store.put(uri, b"half a file")
    return uri


async def reaped(plane: ControlPlane) -> None:
    plane.sql(
        "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
        " WHERE status = 'Running'"
    )
    await reap_leases(plane.dispatcher.state)


async def test_what_a_failed_attempt_staged_goes_and_what_its_retry_committed_stays(
    pipe: Pipeline,
) -> None:
    await pipe.deploy({"a": Job()})
    first = await started(pipe)
    write(pipe, first)
    await pipe.plane.complete(first, status="Failed", retryable=True)
    pipe.plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp()")
    (second,) = await pipe.claim()
    await pipe.run(second)
    # By the attempts table alone.
    (item,) = await sweep_attempts(collecting(pipe.plane))
    assert (item.place, item.why, item.objects) == (
        first.task.outputs[0].prefix,
        "not_committed",
        1,
    )
    assert stored(pipe.plane) == committed(pipe.plane) != set()
    assert pipe.plane.sql("SELECT * FROM leftovers") == []
    assert await sweep_attempts(collecting(pipe.plane)) == []


async def test_nothing_goes_before_the_grace_is_over(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    claimed = await started(pipe)
    write(pipe, claimed)
    await pipe.plane.complete(claimed, status="Failed")
    assert await collected(pipe.plane, grace_s=3600) == []
    assert len(await collected(pipe.plane)) == 1


async def test_an_attempt_that_may_still_answer_keeps_its_files(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    claimed = await started(pipe)
    write(pipe, claimed)
    assert await collected(pipe.plane) == []
    await reaped(pipe.plane)
    assert await collected(pipe.plane) == [], "nobody took its place"
    # Its late answer counts.
    await pipe.run(claimed)
    assert committed(pipe.plane) <= stored(pipe.plane)
    (stray,) = await collected(pipe.plane)
    assert (stray.why, stray.objects) == ("stray", 1)
    assert stored(pipe.plane) == committed(pipe.plane)


async def test_who_was_silent_for_too_long_loses_his_files_and_his_say(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job(fields=(("max_attempts", 1),))})
    claimed = await started(pipe)
    write(pipe, claimed)
    await reaped(pipe.plane)
    assert await collected(pipe.plane) == [], "its time-out is not over"
    pipe.plane.sql("UPDATE tasks SET started_at = started_at - interval '30 days'")
    assert len(await collected(pipe.plane)) == 1
    with pytest.raises(StaleFence):
        await pipe.run(claimed)
    assert committed(pipe.plane) == set()


async def test_a_zombie_that_writes_after_the_sweep_is_found_by_the_walk(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    zombie = await started(pipe)
    await reaped(pipe.plane)
    pipe.plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp()")
    (second,) = await pipe.claim()
    await pipe.run(second)
    await collected(pipe.plane)
    write(pipe, zombie)
    (item,) = await collected(pipe.plane)
    assert item.place == zombie.task.outputs[0].prefix
    assert stored(pipe.plane) == committed(pipe.plane)


async def test_a_commit_that_was_not_needed_any_more_leaves_nothing(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    early = await started(pipe)
    await pipe.trigger((0, 19))
    (late,) = await pipe.claim()
    await pipe.run(late)
    await pipe.run(early)
    assert len(committed(pipe.plane)) == 3
    (item,) = await collected(pipe.plane)
    assert (item.place, item.objects) == (early.task.outputs[0].prefix, 3)
    assert stored(pipe.plane) == committed(pipe.plane)


async def test_superseded_partitions_stay_until_their_generation_is_purged(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    for end in (9, 19):
        await pipe.trigger((0, end))
        await pipe.work()
    assert await collected(pipe.plane) == []
    assert stored(pipe.plane) == committed(pipe.plane)
    assert len(committed(pipe.plane)) == 6


async def test_losers_of_deliveries_and_those_nobody_committed_go(plane: ControlPlane) -> None:
    await plane.deploy(HOOK_DAG)
    bodies = [b'{"n": %d}' % n for n in range(4)]
    await asyncio.gather(*(deliver(plane, "msg_1", body) for body in bodies))
    (row,) = plane.sql("SELECT location FROM partition_versions")
    never = row["location"].rstrip("/")[:-4] + "0000/"
    plane.dispatcher.store.put(never + "crashed.parquet", b"x")
    plane.dispatcher.store.put(row["location"] + "loser.parquet", b"x")
    assert await collected(plane, grace_s=3600) == []
    found = await collected(plane)
    assert {item.why for item in found} == {"delivery"}
    assert stored(plane) == committed(plane)


async def test_batches_that_nobody_published_go_and_those_no_sink_took_stay(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    first, second = await started(pipe), await started(pipe, 10)
    for claimed in (first, second):
        dataset = claimed.task.outputs[0].dataset_uuid
        place = scratch_prefix(SCRATCH, dataset, claimed.task.task_id, 1)
        pipe.plane.dispatcher.store.put(f"{place}batch", b"x")
    request = BufferPublishRequest(
        **fence_fields(second),
        dataset_uuid=dataset,
        dataset_version=second.task.outputs[0].dataset_version,
        batch_uri=f"{place}batch",
        record_count=1,
    )
    await publish_buffer(pipe.plane.dispatcher.state, SCRATCH, request)
    for claimed in (first, second):
        await pipe.plane.complete(claimed)
    (item,) = await collected(pipe.plane)
    assert (item.why, str(first.task.task_id) in item.place) == ("not_published", True)
    assert stored(pipe.plane) == {f"{place}batch"}
    # No sink has taken it: it outlives all other history, until one has.
    await prune_history(pipe.plane.dispatcher.state, keep_days=0)
    assert await collected(pipe.plane) == []
    assert stored(pipe.plane) == {f"{place}batch"}
    pipe.plane.sql("UPDATE buffer_publishes SET taken_at = clock_timestamp()")
    await prune_history(pipe.plane.dispatcher.state, keep_days=0)
    assert [item.why for item in await collected(pipe.plane)] == ["not_published"]


async def test_what_a_forgotten_task_left_goes_with_its_log(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    claimed = await started(pipe)
    name = write(pipe, claimed)
    said = log_uri(BUCKET, pipe.plane.dispatcher.org_id, claimed.task.task_id, 1)
    pipe.plane.dispatcher.store.put(said, b"{}\n")
    await pipe.plane.complete(claimed, status="Failed", retryable=False)
    await collected(pipe.plane)
    assert stored(pipe.plane) == {said}
    write(pipe, claimed)
    # Nothing that counts is with it any more.
    pipe.plane.sql("DELETE FROM task_inputs")
    await prune_history(pipe.plane.dispatcher.state, keep_days=0)
    found = await collected(pipe.plane)
    assert {(item.why, item.objects) for item in found} == {("not_committed", 1), ("log", 1)}
    assert stored(pipe.plane) == set(), name


async def test_a_database_from_a_backup_deletes_nothing_that_was_committed_since(
    pipe: Pipeline,
) -> None:
    await pipe.deploy({"a": Job()})
    await pipe.plane.complete(await started(pipe), status="Failed", retryable=False)
    await prune_history(pipe.plane.dispatcher.state, keep_days=0)
    later = await started(pipe, 10)
    name = write(pipe, later)
    await pipe.plane.complete(later)
    pipe.plane.sql("DELETE FROM task_attempts")
    pipe.plane.sql("DELETE FROM tasks")
    found = await collect_after(collecting(pipe.plane), "")
    assert (found.items, found.unknown) == ([], [later.task.outputs[0].prefix])
    assert stored(pipe.plane) == {name}


async def test_no_transaction_waits_for_the_object_store(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    claimed = await started(pipe)
    write(pipe, claimed)
    await pipe.plane.complete(claimed, status="Failed", retryable=False)
    free: list[bool] = []

    class Watched(LocalStore):
        def delete_prefix(self, prefix: str) -> int:
            # It would be refused while anybody who looked still has the row.
            free.append(bool(pipe.plane.sql("SELECT task_id FROM leftovers FOR UPDATE NOWAIT")))
            return super().delete_prefix(prefix)

    store = Watched(str(pipe.plane.dispatcher.store.root))
    (found,) = await sweep_attempts(replace(collecting(pipe.plane), store=store))
    assert (free, found.objects) == ([True], 1)
    assert pipe.plane.sql("SELECT task_id FROM leftovers") == []


async def test_what_belongs_to_nobody_is_left_alone_and_reported(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    claimed = await started(pipe)
    await pipe.plane.complete(claimed, status="Failed", retryable=False)
    output = claimed.task.outputs[0]
    org, store = pipe.plane.dispatcher.org_id, pipe.plane.dispatcher.store
    unknown = generation_prefix(BUCKET, org, output.dataset_uuid, uuid4())
    known = generation_prefix(BUCKET, org, output.dataset_uuid, output.dataset_version)
    strange = ("notes/a", "readme", "hooks/notes/a", f"{claimed.task.task_id}/1.jsonl")
    for uri in (f"{unknown}{uuid4()}/1/a", *(known + name for name in strange)):
        store.put(uri, b"x")
    before = stored(pipe.plane)
    found = await collect_after(collecting(pipe.plane), "")
    assert found.items == []
    reported = ("notes/", "readme", "hooks/notes/", f"{claimed.task.task_id}/1.jsonl")
    assert set(found.unknown) == {unknown, *(known + name for name in reported)}
    assert stored(pipe.plane) == before


async def test_a_dry_run_says_what_would_go_and_deletes_nothing(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    claimed = await started(pipe)
    write(pipe, claimed)
    await pipe.plane.complete(claimed, status="Failed")
    before = stored(pipe.plane)
    found = await collect_after(collecting(pipe.plane), "", dry_run=True)
    assert [item.place for item in found.items] == [claimed.task.outputs[0].prefix]
    assert stored(pipe.plane) == before


async def test_several_dispatchers_at_once_delete_each_thing_once(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    await pipe.trigger(*((10 * n, 10 * n + 9) for n in range(20)))
    for claimed in await pipe.claim():
        write(pipe, claimed)
        await pipe.plane.complete(claimed, status="Failed")
    rounds = await asyncio.gather(*(sweep_attempts(collecting(pipe.plane)) for _ in range(4)))
    places = [item.place for found in rounds for item in found]
    assert (len(places), len(set(places))) == (20, 20)
    assert stored(pipe.plane) == set()


def live(plane: ControlPlane) -> list[str]:
    """The folders of attempts whose fence holds."""
    found = plane.sql(
        "SELECT id, attempt FROM tasks WHERE status = 'Running' OR reaped_at IS NOT NULL"
    )
    return [f"/{row['id']}/{row['attempt']}/" for row in found]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("histories", [5, pytest.param(60, marks=pytest.mark.long)])
def test_after_any_history_every_committed_file_is_there_and_no_other(
    state_dsns: Any,
    janitor_dsn: str,
    tmp_path: Path,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    histories: int,
) -> None:
    monkeypatch.setitem(registry.OPERATORS, "lineage", "tests.support.lineage_operator.Lineage")
    opening = ControlPlane.open(state_dsns, tmp_path, janitor_dsn)
    plane = loop.run_until_complete(opening)
    pipe = Pipeline(plane)
    names = (f"p{n}" for n in itertools.count())

    def do(work: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(work)

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            # Its own DAG: nothing of the histories before plays a part.
            self.dag, self.job = next(names), Job()
            do(self._deploy())
            self.claims: list[Claimed] = []

        async def _deploy(self) -> None:
            await pipe.deploy({"a": self.job}, dag=self.dag)
            await pipe.settle()

        @rule(slot=st.integers(0, 2), blocks=st.sampled_from([10, 20]))
        def ask(self, slot: int, blocks: int) -> None:
            do(pipe.trigger((slot * 20, slot * 20 + blocks - 1), dag=self.dag))
            self.claim()

        @rule()
        def claim(self) -> None:
            self.claims += do(pipe.claim(1))

        @rule(data=st.data(), name=st.sampled_from(["half.parquet", "rows.1.parquet"]))
        def write(self, data: st.DataObject, name: str) -> None:
            for claimed in self._somebody(data):
                write(pipe, claimed, name)

        @rule(data=st.data(), first=st.sampled_from([None, "rows.1.parquet"]))
        def finish(self, data: st.DataObject, first: str | None) -> None:
            for claimed in self._somebody(data):
                if first is not None:
                    write(pipe, claimed, first)
                with contextlib.suppress(TraceError):
                    do(pipe.run(claimed))

        @rule(data=st.data(), retryable=st.booleans())
        def fail(self, data: st.DataObject, retryable: bool) -> None:
            for claimed in self._somebody(data):
                end = CompleteRequest(**fence_fields(claimed), status="Failed", retryable=retryable)
                with contextlib.suppress(TraceError):
                    do(complete_task(plane.dispatcher.completing, end))

        @rule()
        def crash(self) -> None:
            do(reaped(plane))

        @rule()
        def retry(self) -> None:
            plane.sql("UPDATE tasks SET next_retry_at = now() WHERE next_retry_at IS NOT NULL")
            do(requeue_failed(plane.dispatcher.state))

        @rule()
        def redeploy(self) -> None:
            self.job = replace(self.job, revision=self.job.revision + 1)
            with contextlib.suppress(TraceError):
                do(self._deploy())

        @rule()
        def purge(self) -> None:
            for row in plane.sql(
                "SELECT v.version FROM dataset_versions v"
                " JOIN datasets d ON d.uuid = v.dataset_uuid"
                " WHERE d.dag_name = %s AND d.job_name = 'a' AND v.version <> d.current_version"
                " ORDER BY v.created_at",
                self.dag,
            ):
                with contextlib.suppress(DatasetInUse):
                    place = (
                        plane.dispatcher.state,
                        plane.dispatcher.data,
                        plane.dispatcher.store,
                        BUCKET,
                    )
                    named = (plane.dispatcher.org_id, f"{self.dag}_a", [row["version"]])
                    do(purge_generations(*place, *named))

        @rule()
        def forget(self) -> None:
            do(prune_history(plane.dispatcher.state, keep_days=0))

        @rule()
        def collect(self) -> None:
            before = {uri: plane.dispatcher.store.get(uri) for uri in committed(plane)}
            alive = live(plane)
            staged = {uri for uri in stored(plane) if any(place in uri for place in alive)}
            do(collected(plane, pieces=100))
            assert before == {uri: plane.dispatcher.store.get(uri) for uri in committed(plane)}
            assert stored(plane) == set(before) | staged

        def teardown(self) -> None:
            plane.sql("DELETE FROM outbox")
            do(reaped(plane))
            plane.sql(
                "UPDATE tasks SET status = 'Canceled', reaped_at = NULL, next_retry_at = NULL"
                " WHERE status <> 'Completed'"
            )
            self.collect()
            assert stored(plane) == committed(plane)

        def _somebody(self, data: st.DataObject) -> list[Claimed]:
            return [data.draw(st.sampled_from(self.claims))] if self.claims else []

    try:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=histories,
                stateful_step_count=25,
                derandomize=True,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        loop.run_until_complete(plane.close())
