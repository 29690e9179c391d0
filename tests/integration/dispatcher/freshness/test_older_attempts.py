"""An attempt that knew less never has the last word: by another input, another version, or after
its work was asked for once more. And what was to be made anew is made anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.dispatcher.freshness.test_freshness import (
    DAG,
    JOIN,
    MADE_OF,
    commit_hull,
    current,
    trigger,
)
from tests.integration.dispatcher.redo.test_invalidations import (
    commit,
    route,
    run_all,
    say,
    states,
    take,
)
from tests.support.control_plane import ControlPlane, stage
from tests.support.pipeline import Job, Pipeline, edited
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.domain.errors import CommitOvertaken, Forbidden, IncompleteOutput
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME, Manifest, ManifestFile, seal
from trace_platform.wire.task import Claimed, EventScope, OutputCommit

pytestmark = pytest.mark.anyio

TWO = """
name: flow
defaults: { max_attempts: 1 }
jobs:
  - { name: a, activation: source, source: { kind: manual } }
  - { name: b, activation: source, source: { kind: manual } }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    execution_strategy: PerUpdate
    inputs: [{ from: { job: a } }, { from: { job: b } }]
"""
SHARED = """
name: flow
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [alerts]
  - name: other
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [alerts]
publish:
  alerts: { from: [{ job: ingest }, { job: other }], storage: buffered }
"""


def stage_key(plane: ControlPlane, claimed: Claimed, key: str) -> OutputCommit:
    """A partition that is no range."""
    target, store = claimed.task.outputs[0], plane.dispatcher.store
    store.put(target.prefix + "rows.parquet", b"rows")
    file = ManifestFile(name="rows.parquet", bytes=4, rows=5, sha256="0" * 64)
    manifest = Manifest(partition_key=key, files=[file], rows=5, bytes=4, schema_hash="1" * 64)
    store.put(target.prefix + MANIFEST_NAME, manifest.to_bytes())
    store.put(target.prefix + SUCCESS_NAME, seal(manifest.to_bytes()))
    return OutputCommit(
        output_index=0,
        dataset_uuid=target.dataset_uuid,
        dataset_version=target.dataset_version,
        location=target.prefix,
        partition_key=key,
        row_count=5,
    )


def table(claimed: Claimed, cursor: int) -> OutputCommit:
    out = claimed.task.outputs[0]
    return OutputCommit(
        output_index=0,
        dataset_uuid=out.dataset_uuid,
        dataset_version=out.dataset_version,
        location=f"postgres_table:dataset_{out.dataset_uuid}",
        cursor=cursor,
        row_count=5,
    )


async def emit(plane: ControlPlane, dataset: str, **scope: Any) -> None:
    asked = EmitRequest(dataset=dataset, events=[EventScope(**scope)])
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, asked)
    await plane.settle()


async def test_what_began_before_a_reorg_of_one_input_does_not_undo_it_by_another(
    plane: ControlPlane,
) -> None:
    await plane.deploy(TWO)
    await plane.trigger(0, 9, "flow", "b")
    await plane.settle()
    (old,) = await take(plane)
    await say(plane, "flow.a", 0, 9)
    await route(plane)
    (new,) = await take(plane)
    await commit(plane, new)
    with pytest.raises(CommitOvertaken):
        await commit(plane, old)
    assert current(plane) == {"0-9": new.task.task_id}


async def test_what_one_input_had_changed_is_not_forgotten_when_another_is_read(
    plane: ControlPlane,
) -> None:
    await plane.deploy(TWO)
    await emit(plane, "flow.a", partition_key="k")
    (old,) = await take(plane)
    await say(plane, "flow.a", "k")
    await route(plane)
    (new,) = await take(plane)
    await plane.complete(new, outputs=[stage_key(plane, new, "k")])
    await emit(plane, "flow.b", partition_key="k")
    (other,) = await take(plane)
    await plane.complete(other, outputs=[stage_key(plane, other, "k")])
    with pytest.raises(CommitOvertaken):
        await plane.complete(old, outputs=[stage_key(plane, old, "k")])


async def test_of_two_that_make_something_anew_the_one_that_began_later_stays(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (0, 9))
    await run_all(plane)
    await say(plane, "flow.ingest", 0, 9)
    await route(plane)
    (one,) = await take(plane)  # reads a node that lies
    await say(plane, "flow.ingest", 0, 9, reason="the node is mended")
    await route(plane)
    (two,) = await take(plane)
    await commit(plane, two)
    with pytest.raises(CommitOvertaken):
        await commit(plane, one)
    assert current(plane) == {"0-9": two.task.task_id}


async def test_rows_of_a_version_that_is_only_read_do_not_come_back(pipe: Pipeline) -> None:
    dims = {"a": Job()}
    reads = ({"from": {"job": "source"}}, {"from": {"dataset": "p_a"}, "trigger": False})
    reader = {"x": Job(fields=(("inputs", list(reads)),))}
    await pipe.deploy(dims)
    await pipe.trigger((0, 99))
    await pipe.settle()
    await pipe.deploy(reader, "r")
    await pipe.trigger((0, 19), dag="r")
    (large,) = await pipe.claim()
    await pipe.deploy(edited(dims, "a", revision=2))
    await pipe.settle()
    await pipe.trigger((0, 9), dag="r")
    (small,) = await pipe.claim()
    await pipe.run(small)
    await pipe.run(large)
    (said,) = pipe.plane.sql(
        "SELECT error_code FROM task_attempts WHERE task_id = %s", large.task.task_id
    )
    assert said["error_code"] == CommitOvertaken.code


async def test_a_range_beside_a_cursor_replaces_what_a_cursor_made(plane: ControlPlane) -> None:
    await plane.deploy(JOIN)
    await emit(plane, "flow.b", cursor=1)
    (tick,) = await take(plane)
    await plane.complete(tick, outputs=[stage(plane.dispatcher.store, tick, 0, 0, 9)])
    await plane.trigger(0, 9, "flow", "a")
    await emit(plane, "flow.b", cursor=2)
    (both,) = await take(plane)
    assert len(both.task.inputs) == 2
    await commit_hull(plane, both)


async def test_what_a_range_woke_is_not_committed_by_name_alone(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (0, 9))
    (one,) = await take(plane)
    with pytest.raises(Forbidden):
        await plane.complete(one, outputs=[stage_key(plane, one, "0-9")])


async def test_files_of_one_producer_do_not_replace_anothers(plane: ControlPlane) -> None:
    await plane.deploy(SHARED)
    await trigger(plane, (0, 9))
    one, _ = await take(plane)
    with pytest.raises(Forbidden, match="several jobs"):
        await commit(plane, one)


async def test_an_old_reading_does_not_have_the_last_word_on_a_table(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (0, 9))
    (old,) = await take(plane)
    await say(plane, "flow.request", 0, 9)
    await route(plane)
    (new,) = await take(plane)
    await plane.complete(new, outputs=[table(new, 9)])
    with pytest.raises(CommitOvertaken):
        await plane.complete(old, outputs=[table(old, 9)])


async def test_what_was_to_be_made_anew_does_not_end_without_it(plane: ControlPlane) -> None:
    def staged(claimed: Claimed, *ends: int) -> list[OutputCommit]:
        return [stage(plane.dispatcher.store, claimed, i, 0, end) for i, end in enumerate(ends)]

    await plane.deploy(DAG.replace("outputs: [blocks]", "outputs: [blocks, logs]"))
    await trigger(plane, (0, 9))
    (first,) = await take(plane)
    await plane.complete(first, outputs=staged(first, 9, 9))
    for dataset in ("flow.request", "flow.ingest"):
        await say(plane, dataset, 0, 9)
        await route(plane)
        (again,) = await take(plane)
        for ends in ((), (9,), (9, 4)):
            with pytest.raises((IncompleteOutput, CommitOvertaken)):
                await plane.complete(again, outputs=staged(again, *ends))
        await plane.complete(again, outputs=staged(again, 9, 9))
    assert {state for state, _, _ in await states(plane)} == {"processed"}


async def keyed(plane: ControlPlane) -> list[tuple[str, list[tuple[int, str]]]]:
    return sorted(
        (row["partition_key"], sorted((read["input"], read["key"]) for read in row["made_of"]))
        for row in plane.sql(MADE_OF, "join")
    )


async def test_a_key_of_another_input_is_read_with_those_before(plane: ControlPlane) -> None:
    await plane.deploy(JOIN)
    for source in "ab":
        await emit(plane, f"flow.{source}", partition_key="k1")
        (one,) = await take(plane)
        await plane.complete(one, outputs=[stage_key(plane, one, "k1")])
    assert await keyed(plane) == [("k1", [(0, "k1"), (1, "k1")])]


@pytest.mark.parametrize("strategy", ["", "    update_strategy: append\n    unique_key: [h]\n"])
async def test_keys_that_lie_in_one_partition_stay_together(
    plane: ControlPlane, strategy: str
) -> None:
    await plane.deploy(JOIN + strategy)
    for key in ("k1", "k2"):
        await emit(plane, "flow.a", partition_key=key)
    (both,) = await take(plane)
    await plane.complete(both, outputs=[stage_key(plane, both, "k1")])
    for changed, name in (("k2", "k2"), ("k1", "k1")):
        await say(plane, "flow.a", changed)
        await route(plane)
        (again,) = await take(plane)
        await plane.complete(again, outputs=[stage_key(plane, again, name)])
        assert await keyed(plane) == [(name, [(0, "k1"), (0, "k2")])]


async def test_a_key_beside_a_range_stays_with_it(plane: ControlPlane) -> None:
    await plane.deploy(JOIN)
    await plane.trigger(0, 9, "flow", "a")
    await emit(plane, "flow.b", partition_key="k1")
    (both,) = await take(plane)
    await plane.complete(both, outputs=[stage(plane.dispatcher.store, both, 0, 0, 9)])
    await say(plane, "flow.a", 0, 9)
    await route(plane)
    (again,) = await take(plane)
    assert {given.partition_key for given in again.task.inputs} == {"0-9", "k1"}
    await plane.complete(again, outputs=[stage(plane.dispatcher.store, again, 0, 0, 9)])
