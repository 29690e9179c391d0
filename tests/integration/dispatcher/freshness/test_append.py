"""What appends adds to what is there: no row is ever lost, whoever was faster."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.dispatcher.sources.test_hooks import DAG as HOOK_DAG
from tests.integration.dispatcher.sources.test_hooks import deliver
from tests.support.control_plane import ControlPlane
from tests.support.pipeline import Job, Pipeline
from tests.support.staged_rows import stage_rows
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.domain.errors import CommitOvertaken, Forbidden
from trace_platform.domain.prefix import delivery_key
from trace_platform.state import invalidations
from trace_platform.state.invalidations import NewInvalidation
from trace_platform.wire.task import Claimed

pytestmark = pytest.mark.anyio

APPENDS = Job(fields=(("update_strategy", "append"), ("unique_key", ["block_hash"])))
SCHEMA = pa.schema([pa.field("block_hash", pa.string(), nullable=False)])


def read(pipe: Pipeline, files: list[str]) -> set[str]:
    found: set[str] = set()
    for uri in files:
        filesystem, path = pipe.plane.dispatcher.store.filesystem(uri)
        found |= set(pq.read_table(path, filesystem=filesystem)["block_hash"].to_pylist())
    return found


async def append_rows(pipe: Pipeline, claimed: Claimed, *hashes: str) -> None:
    """As an operator would: what is there, and its own, each once."""
    (output,) = claimed.task.outputs
    assert output.append == ["block_hash"]
    every = sorted(read(pipe, output.files) | set(hashes))
    staged = stage_rows(pipe.plane.dispatcher.store, claimed, pa.table([every], schema=SCHEMA))
    await pipe.plane.complete(claimed, outputs=[staged])


async def failed(pipe: Pipeline, claimed: Claimed) -> Claimed:
    """The next attempt of one whose completion was refused."""
    await pipe.plane.complete(claimed, status="Failed", error_code="commit_overtaken")
    pipe.plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE status = 'Failed'")
    (again,) = await pipe.claim()
    return again


async def again(pipe: Pipeline, start: int, end: int) -> None:
    """The input's range is said to be invalid: whoever read it reads it again."""
    (source,) = pipe.plane.sql(
        "SELECT uuid, current_version FROM datasets WHERE job_name = 'source'"
    )
    async with pipe.plane.dispatcher.state.transaction() as tx:
        await invalidations.record(tx, [_invalid(pipe, source, start, end)])
    await route_invalidations(pipe.plane.dispatcher.state)


def _invalid(pipe: Pipeline, source: dict[str, Any], start: int, end: int) -> NewInvalidation:
    return NewInvalidation(
        id=uuid4(),
        org_id=pipe.plane.dispatcher.org_id,
        dataset_uuid=source["uuid"],
        dataset_version=source["current_version"],
        scope="row_range",
        partition_key=f"{start}-{end}",
        start=start,
        end=end,
        remade=True,
        reason="a reorg",
    )


def current(pipe: Pipeline) -> dict[str, set[str]]:
    found = pipe.plane.sql(
        "SELECT partition_key, location, files FROM partition_versions"
        " WHERE superseded_at IS NULL ORDER BY range_start"
    )
    return {
        row["partition_key"]: read(pipe, [row["location"] + f["name"] for f in row["files"]])
        for row in found
    }


async def test_an_attempt_is_given_what_is_there_in_its_range(pipe: Pipeline) -> None:
    await pipe.deploy({"a": APPENDS})
    await pipe.trigger((0, 9), (10, 19))
    first, second = await pipe.claim()
    assert [claimed.task.outputs[0].files for claimed in (first, second)] == [[], []]
    await append_rows(pipe, first, "a")
    await append_rows(pipe, second, "b")
    await pipe.trigger((0, 19), (40, 49))
    both, neither = await pipe.claim()
    assert read(pipe, both.task.outputs[0].files) == {"a", "b"}
    assert neither.task.outputs[0].files == []
    await append_rows(pipe, both, "c")
    assert current(pipe) == {"0-19": {"a", "b", "c"}}


async def test_of_two_that_append_to_one_range_the_later_tries_again_and_both_stay(
    pipe: Pipeline,
) -> None:
    await pipe.deploy({"a": APPENDS})
    await pipe.trigger((0, 9))
    (one,) = await pipe.claim()
    await again(pipe, 0, 9)
    (other,) = await pipe.claim()
    await append_rows(pipe, other, "other")
    with pytest.raises(CommitOvertaken) as refused:
        await append_rows(pipe, one, "one")
    assert refused.value.retryable
    assert current(pipe) == {"0-9": {"other"}}
    await append_rows(pipe, await failed(pipe, one), "one")
    assert current(pipe) == {"0-9": {"one", "other"}}


async def test_rows_of_a_dropped_fork_stay_and_the_new_ones_are_told(pipe: Pipeline) -> None:
    await pipe.deploy({"a": APPENDS})
    await pipe.trigger((0, 9))
    (claimed,) = await pipe.claim()
    await append_rows(pipe, claimed, "old fork", "both")
    await again(pipe, 0, 9)
    (claimed,) = await pipe.claim()
    await append_rows(pipe, claimed, "new fork", "both")
    assert current(pipe) == {"0-9": {"old fork", "new fork", "both"}}
    told = pipe.plane.sql("SELECT partition_key FROM events WHERE materialisation IS NOT NULL")
    assert [row["partition_key"] for row in told] == ["0-9", "0-9"]
    said = pipe.plane.sql("SELECT reason, processed_at FROM data_invalidations")
    assert [(row["reason"], row["processed_at"] is not None) for row in said] == [("a reorg", True)]


async def test_what_reaches_beyond_the_range_is_never_given_up(pipe: Pipeline) -> None:
    await pipe.deploy({"a": APPENDS})
    await pipe.trigger((0, 19))
    (whole,) = await pipe.claim()
    await append_rows(pipe, whole, "a")
    await pipe.trigger((10, 19))
    (part,) = await pipe.claim()
    await append_rows(pipe, part, "b")
    assert current(pipe) == {"0-19": {"a", "b"}}


async def test_a_partition_that_is_no_range_is_known_by_its_key(plane: ControlPlane) -> None:
    append = "    update_strategy: append\n    unique_key: [block_hash]\n    outputs: [rows]\n"
    await plane.deploy(HOOK_DAG + append)
    pipe = Pipeline(plane)
    await deliver(plane, "msg_1")
    await deliver(plane, "msg_2")
    one, two = sorted(await pipe.claim(), key=lambda c: str(c.task.inputs[0].partition_key))
    await append_rows(pipe, one, "a")
    others = str(one.task.inputs[0].partition_key)
    foreign = stage_rows(plane.dispatcher.store, two, pa.table([["b"]], schema=SCHEMA), others)
    with pytest.raises(Forbidden):
        await plane.complete(two, outputs=[foreign])
    await append_rows(pipe, two, "b")
    rows = plane.sql(
        "SELECT p.partition_key FROM partition_versions p"
        " JOIN datasets d ON d.uuid = p.dataset_uuid"
        " WHERE d.job_name = 'react' AND p.range_start IS NULL ORDER BY 1"
    )
    keys = sorted(map(delivery_key, ("msg_1", "msg_2")))
    assert [row["partition_key"] for row in rows] == keys
    told = plane.sql("SELECT count(*) AS n FROM events WHERE materialisation IS NOT NULL")
    assert told == [{"n": 4}], "two deliveries, two commits"


async def test_what_replaces_is_given_nothing_to_add_to(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    await pipe.trigger((0, 9))
    assert await pipe.work() == ["p.a"]
    await pipe.trigger((0, 9))
    await pipe.plane.settle()
    shown = pipe.plane.sql("SELECT outputs FROM tasks")
    assert all("base" not in output for row in shown for output in row["outputs"] or ())
