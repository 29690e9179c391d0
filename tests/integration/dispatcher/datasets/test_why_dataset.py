"""Why a dataset is not up to date: every cause, the first one before what follows of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chain_data import CHANGED, READER, fill, finish, outputs, take, work
from tests.support.control_plane import DAG, ControlPlane
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.wire.control import PauseRequest, Why
from trace_platform.wire.dataset import DatasetWhy

pytestmark = pytest.mark.anyio

AGED = DAG.replace("logs: { from: { job: ingest, output: logs } }",
                   "logs: { from: { job: ingest, output: logs }, max_age: 1h }")  # fmt: skip


async def why(plane: ControlPlane, subject: Any) -> DatasetWhy:
    answer = await explain(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
        str(subject),
    )
    assert isinstance(answer, DatasetWhy)
    assert answer.reasons[0].text in answer.answer
    return answer


def codes(answer: DatasetWhy) -> list[str]:
    return [reason.code for reason in answer.reasons]


async def failed_ingest(plane: ControlPlane) -> Any:
    """Blocks 0-9 are there; the task of 10-19 failed for good. Its id."""
    await plane.deploy()
    await plane.deploy(READER)
    await fill(plane, (0, 9))
    await plane.trigger(10, 19)
    (split,) = await take(plane)
    await finish(plane, split)
    (ingest,) = await take(plane)
    await plane.complete(
        ingest,
        status="Failed", error_code="wrong_chain", error_message="chain 5", retryable=False,
    )  # fmt: skip
    return ingest.task.task_id


async def test_a_dataset_whose_inputs_are_worked_through_is_fresh(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("fresh", ["fresh"])
    assert answer.age_s is not None


async def test_a_dataset_without_any_input_yet_is_fresh_and_says_so(plane: ControlPlane) -> None:
    await plane.deploy()
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("fresh", ["no_events"])


async def test_a_dataset_can_be_asked_for_by_name_uuid_and_output(plane: ControlPlane) -> None:
    await plane.deploy()
    (row,) = plane.sql("SELECT uuid FROM datasets WHERE name = 'logs'")
    for subject in ("logs", row["uuid"], "chain.ingest.2"):
        assert (await why(plane, subject)).dataset == "logs"
    answer = await explain(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
        "chain.ingest",
    )
    assert isinstance(answer, Why), "DAG.JOB is the job"


async def test_an_event_that_is_not_routed_yet_is_why(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.trigger(0, 9)
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("stale", ["not_routed"])
    assert "1 event for chain.split" in answer.answer


async def test_tasks_that_wait_run_or_retry_upstream_are_why(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await plane.trigger(0, 9)
    await plane.settle()
    answer = await why(plane, "transfers")
    assert (answer.state, codes(answer)) == ("stale", ["ready"])
    assert (answer.reasons[0].at, answer.reasons[0].steps) == ("chain.split", 2)
    (claimed,) = await take(plane)
    assert codes(await why(plane, "transfers")) == ["running"]
    await plane.complete(claimed, status="Failed", error_code="x", error_message="y")
    assert codes(await why(plane, "transfers")) == ["retrying"]


async def test_a_task_that_failed_for_good_blocks_everything_below_it(plane: ControlPlane) -> None:
    task_id = await failed_ingest(plane)
    for dataset in ("logs", "transfers"):
        answer = await why(plane, dataset)
        assert (answer.state, codes(answer)) == ("blocked", ["failed"])
        assert answer.reasons[0].at == "chain.ingest"
        assert f"task {task_id} of chain.ingest (10-19) failed for good" in answer.answer
        assert "[wrong_chain] chain 5" in answer.answer
        assert f"trace tasks retry {task_id}" in (answer.reasons[0].cure or "")
    assert (await why(plane, "chain.split.0")).state == "fresh"


async def test_what_was_made_in_spite_of_a_failure_is_not_blocked_by_it(
    plane: ControlPlane,
) -> None:
    task_id = await failed_ingest(plane)
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, task_id)
    await work(plane)
    assert (await why(plane, "transfers")).state == "fresh"


async def test_a_failure_whose_input_was_replaced_since_blocks_nothing(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await plane.trigger(0, 9)
    (split,) = await take(plane)
    await finish(plane, split)
    (ingest,) = await take(plane)
    await finish(plane, ingest)
    (decode,) = await take(plane)
    await plane.complete(decode, status="Failed", error_code="x", retryable=False)
    assert (await why(plane, "transfers")).state == "blocked"
    # The whole range at once takes the place of what the failed task read.
    plane.sql("UPDATE partition_versions SET made_of = '[]'")
    await fill(plane, (0, 19))
    assert (await why(plane, "transfers")).state == "fresh"


async def test_a_canceled_task_blocks_too(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.trigger(0, 9)
    await plane.settle()
    (task,) = plane.sql("SELECT id FROM tasks")
    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, task["id"])
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("blocked", ["canceled"])


async def test_of_many_failures_three_are_named_and_all_are_counted(plane: ControlPlane) -> None:
    await plane.deploy()
    for n in range(5):
        await plane.trigger(n * 10, n * 10 + 9)
    for claimed in await take(plane):
        await plane.complete(claimed, status="Failed", error_code="x", retryable=False)
    answer = await why(plane, "logs")
    assert codes(answer) == ["failed"] * 3
    assert "so did 2 tasks more" in answer.reasons[2].text


async def test_a_paused_job_with_work_blocks_and_without_is_only_mentioned(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    state, org_id = plane.dispatcher.state, plane.dispatcher.org_id
    await pause_job(state, org_id, "chain", "split", PauseRequest(reason="upgrade"))
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("fresh", ["fresh", "paused"])
    await plane.trigger(10, 19)
    await plane.settle()
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("blocked", ["paused", "ready"])
    assert "upgrade" in answer.answer
    assert answer.reasons[0].cure == "trace resume chain.split"


async def test_a_paused_source_blocks(plane: ControlPlane) -> None:
    await plane.deploy()
    state, org_id = plane.dispatcher.state, plane.dispatcher.org_id
    await pause_job(state, org_id, "chain", "request", PauseRequest())
    assert (await why(plane, "logs")).state == "blocked"


async def test_a_job_that_is_held_for_a_consumer_is_stale(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.trigger(0, 9)
    await plane.settle()
    plane.sql(
        "INSERT INTO job_holds (org_id, dag_name, job_name, cause, from_rank, reason)"
        " SELECT org_id, dag_name, 'split', id::text, 0, 'too many' FROM jobs WHERE name = 'ingest'"
    )
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("stale", ["held_for_consumer", "ready"])
    assert "until chain.ingest catches up" in answer.answer


async def test_events_that_wait_for_a_deploy_say_so(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await plane.deploy(CHANGED)
    assert (await why(plane, "logs")).state == "fresh", "what is active has all it needs"
    await plane.trigger(10, 19)
    (split,) = [c for c in await take(plane) if c.task.job.name == "split"]
    await finish(plane, split)
    await plane.settle()
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("stale", ["building"])
    assert answer.reasons[0].cure == "trace deploys chain shows how far it is"


async def test_an_event_that_was_never_given_says_so(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    plane.sql(
        "DELETE FROM task_inputs WHERE event_id = (SELECT id FROM events WHERE materialisation IS"
        " NULL ORDER BY id DESC LIMIT 1)"
    )
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer)) == ("stale", ["not_given"])


async def test_a_part_that_is_known_to_be_wrong_makes_it_and_its_readers_stale(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await fill(plane, (0, 9))
    plane.sql(
        "INSERT INTO data_invalidations (org_id, dataset_uuid, dataset_version, scope, range_start,"
        " range_end, remade, reason) SELECT org_id, uuid, current_version, 'row_range', 0, 5,"
        " false, 'a reorg' FROM datasets WHERE name = 'logs'"
    )
    for dataset, steps in (("logs", 0), ("transfers", 1)):
        answer = await why(plane, dataset)
        assert (answer.state, codes(answer)) == ("stale", ["invalid"])
        assert "a reorg" in answer.answer
        assert (answer.reasons[0].at, answer.reasons[0].steps) == ("logs", steps)
    assert (await why(plane, "blocks")).state == "fresh", "another output of the same job"
    plane.sql("UPDATE data_invalidations SET processed_at = now()")
    assert (await why(plane, "transfers")).state == "fresh"


async def test_older_than_it_may_be_is_stale(plane: ControlPlane) -> None:
    await plane.deploy(AGED)
    await fill(plane, (0, 9))
    plane.sql("UPDATE events SET recorded_at = recorded_at - interval '2h'")
    answer = await why(plane, "logs")
    assert (answer.state, codes(answer), answer.max_age_s) == ("stale", ["too_old"], 3600)
    assert "did not change for 2h" in answer.answer


SOURCE = """
name: live
jobs:
  - { name: follow, activation: source, source: { kind: always_on }, runtime: ecs_platform,
      operator: no_op, outputs: [heads] }
  - { name: read, activation: reactive, runtime: ecs_platform, operator: no_op,
      inputs: [{ from: { job: follow } }] }
publish:
  heads_read: { from: { job: read } }
"""


async def test_a_source_that_does_not_run_is_why(plane: ControlPlane) -> None:
    await plane.deploy(SOURCE)
    answer = await why(plane, "heads_read")
    assert (answer.state, codes(answer)) == ("stale", ["source_down"])
    plane.sql(
        "INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs,"
        " status, lease_token, lease_expires_at) SELECT j.org_id, j.id, v.generation_id, 'run',"
        " j.runtime, 1, '[]', 'Running', gen_random_uuid(), now() + interval '1 m'"
        " FROM jobs j JOIN dag_version_jobs v ON v.job_id = j.id WHERE j.name = 'follow'"
    )
    assert (await why(plane, "heads_read")).state == "fresh"
    plane.sql("UPDATE tasks SET lease_expires_at = now() - interval '10 m'")
    answer = await why(plane, "heads_read")
    assert (answer.state, codes(answer)) == ("stale", ["silent"])
    plane.sql("UPDATE tasks SET status = 'Canceled', lease_expires_at = NULL")
    answer = await why(plane, "heads_read")
    assert (answer.state, codes(answer)) == ("blocked", ["source_down"])


async def test_the_first_cause_comes_before_what_follows_of_it(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await fill(plane, (0, 9))
    # A task of the reader is left over, and further up one failed.
    await plane.trigger(10, 19)
    (split,) = await take(plane)
    await finish(plane, split)
    (ingest,) = await take(plane)
    await plane.complete(ingest, outputs=outputs(plane, ingest, 10, 19))
    await plane.trigger(20, 29)
    await plane.settle()
    answer = await why(plane, "transfers")
    assert [(r.code, r.at) for r in answer.reasons] == [
        ("ready", "chain.split"),
        ("ready", "reader.decode"),
    ]
    (split, _) = sorted(await take(plane), key=lambda c: c.task.job.name, reverse=True)
    await plane.complete(split, status="Failed", error_code="x", retryable=False)
    answer = await why(plane, "transfers")
    assert [(r.level, r.code) for r in answer.reasons] == [
        ("blocked", "failed"),
        ("stale", "running"),
    ]
