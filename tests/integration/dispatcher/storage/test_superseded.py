"""Files that gave way within a live generation go by age and count; no reader loses one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.integration.dispatcher.storage.test_garbage import collecting, committed, stored
from tests.support.pipeline import Job, Pipeline
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.datasets.show_dataset import show_dataset
from trace_platform.dispatcher.storage.explain_garbage import explain_garbage
from trace_platform.dispatcher.storage.prune_history import prune_history
from trace_platform.dispatcher.storage.retire_superseded import Retention, retire_superseded
from trace_platform.domain.errors import PastForgotten
from trace_platform.wire.dataset import GarbageItem
from trace_platform.wire.query import DatasetRef, ResolvedDataset, ResolveRequest

pytestmark = pytest.mark.anyio

AT_ONCE = Retention(superseded_days=0, reader_grace_s=0)
BUCKET = "trace-data"


async def remade(pipe: Pipeline, times: int = 1) -> None:
    """A partition of ten blocks, made again so many times."""
    await pipe.deploy({"a": Job()})
    for _ in range(times + 1):
        await again(pipe)


async def again(pipe: Pipeline) -> None:
    """The same range once more: what is there counts as made of less."""
    pipe.plane.sql("DELETE FROM task_inputs")
    pipe.plane.sql("UPDATE partition_versions SET made_of = '[]', knows = '[]'")
    pipe.plane.sql("DELETE FROM task_attempts")
    pipe.plane.sql("DELETE FROM tasks")
    pipe.plane.sql("DELETE FROM events WHERE materialisation IS NULL")
    await pipe.trigger((0, 9))
    await pipe.work()


async def retired(pipe: Pipeline, keep: Retention = AT_ONCE) -> list[GarbageItem]:
    return await retire_superseded(collecting(pipe.plane), keep)


async def seen(pipe: Pipeline, at: datetime | None = None) -> ResolvedDataset:
    ref = DatasetRef(name="p_a", at=at.isoformat() if at else None)
    dispatcher = pipe.plane.dispatcher
    found = await resolve_datasets(
        dispatcher.state, dispatcher.org_id, ResolveRequest(datasets=[ref], files=True)
    )
    return found.datasets[0]


def rows(pipe: Pipeline) -> list[dict[str, Any]]:
    return pipe.plane.sql("SELECT * FROM partition_versions ORDER BY committed_at")


async def test_files_that_gave_way_go_when_they_are_old_and_readers_keep_the_new(
    pipe: Pipeline,
) -> None:
    await remade(pipe)
    now = await seen(pipe)
    old, _ = rows(pipe)
    assert await retired(pipe, Retention(superseded_days=1, reader_grace_s=0)) == []
    pipe.plane.sql(
        "UPDATE partition_versions SET superseded_at = superseded_at - interval '2 days'"
    )
    (item,) = await retired(pipe, Retention(superseded_days=1, reader_grace_s=0))
    assert (item.place, item.why, item.objects) == (old["location"], "superseded", 3)
    assert item.bytes == old["byte_count"]
    assert {uri for uri in stored(pipe.plane) if old["location"] in uri} == set()
    assert (await seen(pipe)).files == now.files
    assert all(pipe.plane.dispatcher.store.size(uri) for uri in now.files)
    assert await retired(pipe) == []


async def test_of_one_partition_only_the_newest_stay_however_young(pipe: Pipeline) -> None:
    await remade(pipe, times=4)
    locations = [row["location"] for row in rows(pipe)]
    keep = Retention(superseded_days=30, superseded_versions=2, reader_grace_s=0)
    assert {item.place for item in await retired(pipe, keep)} == set(locations[:2])
    assert await retired(pipe, keep) == []


async def test_a_query_that_was_given_a_file_before_it_was_retired_can_end(pipe: Pipeline) -> None:
    await remade(pipe)
    keep = Retention(superseded_days=0, reader_grace_s=3600)
    assert await retired(pipe, keep) == []
    assert stored(pipe.plane) == committed(pipe.plane)
    pipe.plane.sql("UPDATE partition_versions SET retired_at = retired_at - interval '2 hours'")
    assert len(await retired(pipe, keep)) == 1


async def test_what_a_running_attempt_may_read_stays_until_it_ends(pipe: Pipeline) -> None:
    jobs = {"a": Job(), "b": Job(inputs=("a",))}
    await pipe.deploy(jobs)
    await pipe.trigger((0, 9))
    (first,) = await pipe.claim()
    await pipe.run(first)
    (reader,) = await pipe.claim()
    read = [uri for given in reader.task.inputs for uri in given.files]
    assert read
    pipe.plane.sql(
        "UPDATE partition_versions SET superseded_at = clock_timestamp() WHERE location = %s",
        first.task.outputs[0].prefix,
    )
    assert await retired(pipe) == []
    kept = await explain_garbage(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, AT_ONCE)
    assert kept.oldest_reader == reader.task.task_id
    (held,) = [each for each in kept.generations if each.dataset == "p_a"]
    assert held.pinned_bytes == held.superseded_bytes == held.retired_bytes > 0
    assert all(pipe.plane.dispatcher.store.size(uri) for uri in read)
    await pipe.run(reader)
    assert [item.place for item in await retired(pipe)] == [first.task.outputs[0].prefix]


async def test_a_moment_whose_files_are_gone_is_refused_not_shown_with_fewer_rows(
    pipe: Pipeline,
) -> None:
    await remade(pipe)
    old, new = rows(pipe)
    assert (await seen(pipe, old["committed_at"])).row_count == old["row_count"]
    await retired(pipe, Retention(superseded_days=0, reader_grace_s=3600))
    with pytest.raises(PastForgotten, match="'p_a' cannot be read as it was at"):
        await seen(pipe, old["committed_at"])
    assert len((await seen(pipe, new["committed_at"])).files) == 1
    # Also when the row that said so is forgotten.
    await retired(pipe)
    await prune_history(pipe.plane.dispatcher.state, keep_days=0)
    assert [row["id"] for row in rows(pipe)] == [new["id"]]
    with pytest.raises(PastForgotten):
        await seen(pipe, old["committed_at"])
    assert len((await seen(pipe, new["committed_at"])).files) == 1


async def test_what_can_be_rolled_back_to_keeps_every_file(pipe: Pipeline) -> None:
    await remade(pipe)
    before = (await seen(pipe)).files
    await pipe.deploy({"a": Job(revision=2)})
    await pipe.settle()
    assert (await seen(pipe)).files != before
    await retired(pipe)
    assert all(pipe.plane.dispatcher.store.size(uri) for uri in before)


async def test_another_partition_in_the_same_folder_keeps_its_file(pipe: Pipeline) -> None:
    await remade(pipe)
    old, _ = rows(pipe)
    beside = old["location"] + "beside.parquet"
    pipe.plane.dispatcher.store.put(beside, b"rows")
    pipe.plane.sql(
        "INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key, location,"
        " files, row_count, byte_count, schema_hash)"
        " SELECT dataset_uuid, dataset_version, 'beside', location,"
        ' \'[{"name": "beside.parquet", "bytes": 4, "rows": 1}]\', 1, 4, schema_hash'
        " FROM partition_versions WHERE id = %s",
        old["id"],
    )
    await retired(pipe)
    left = {uri for uri in stored(pipe.plane) if old["location"] in uri}
    assert left == {
        old["location"] + name for name in ("beside.parquet", "_manifest.json", "_SUCCESS")
    }


async def test_show_says_what_is_live_and_what_is_superseded(pipe: Pipeline) -> None:
    await remade(pipe, times=2)
    *old, new = rows(pipe)
    dispatcher = pipe.plane.dispatcher
    shown = await show_dataset(dispatcher.state, dispatcher.data, BUCKET, dispatcher.org_id, "p_a")
    assert shown.files is not None
    assert shown.files.live_bytes == new["byte_count"]
    assert shown.files.superseded_bytes == sum(row["byte_count"] for row in old)
    assert shown.files.pinned_bytes == 0
    await retired(pipe)
    shown = await show_dataset(dispatcher.state, dispatcher.data, BUCKET, dispatcher.org_id, "p_a")
    assert shown.files is not None
    assert shown.files.superseded_bytes == 0
