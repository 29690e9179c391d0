"""Old generations go when nobody uses them any more, whole, and whoever is interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.chain_data import (
    CHANGED,
    READER,
    fill,
    finish,
    outputs,
    rebuilt,
    take,
    version_of,
    work,
)
from tests.support.control_plane import DAG, ControlPlane
from trace_platform.dispatcher.datasets.show_dataset import list_generations
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.storage.purge_generation import (
    finish_purges,
    plan_purge,
    purge_generations,
)
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import (
    BadInput,
    Conflict,
    DatasetInUse,
    GenerationPurged,
    TraceError,
    UnknownDataset,
)
from trace_platform.domain.prefix import generation_prefix
from trace_platform.wire.dataset import PurgePlan, PurgeResponse

pytestmark = pytest.mark.anyio

BUCKET = "trace-data"


async def planned(
    plane: ControlPlane, dataset: str = "blocks", generation: Any = None, keep: int | None = None
) -> PurgePlan:
    named = str(generation) if generation else None
    return await plan_purge(plane.dispatcher.state, plane.dispatcher.org_id, dataset, named, keep)


async def purge(
    plane: ControlPlane, *versions: UUID, dataset: str = "blocks", store: Any = None
) -> PurgeResponse:
    dispatcher = plane.dispatcher
    return await purge_generations(
        dispatcher.state,
        dispatcher.data,
        store or dispatcher.store,
        BUCKET,
        dispatcher.org_id,
        dataset,
        versions,
    )


async def two_generations(plane: ControlPlane) -> UUID:
    """The version of blocks that gave way to another."""
    await plane.deploy()
    await fill(plane, (0, 9), (10, 19))
    old = version_of(plane, "blocks")
    await rebuilt(plane)
    return old


def objects(plane: ControlPlane, version: UUID) -> list[str]:
    (row,) = plane.sql("SELECT dataset_uuid FROM dataset_versions WHERE version = %s", version)
    place = generation_prefix(BUCKET, plane.dispatcher.org_id, row["dataset_uuid"], version)
    return list(plane.dispatcher.store.list(place))


def partitions(plane: ControlPlane, version: UUID) -> int:
    (row,) = plane.sql(
        "SELECT count(*) AS n FROM partition_versions WHERE dataset_version = %s", version
    )
    return int(row["n"])


def siblings(plane: ControlPlane, version: UUID) -> list[UUID]:
    rows = plane.sql(
        "SELECT version FROM dataset_versions WHERE generation_id ="
        " (SELECT generation_id FROM dataset_versions WHERE version = %s)",
        version,
    )
    return [row["version"] for row in rows]


async def test_a_plan_says_what_would_go_and_changes_nothing(plane: ControlPlane) -> None:
    old = await two_generations(plane)
    plan = await planned(plane, keep=1)
    (each,) = plan.generations
    assert (each.dataset_version, each.in_use) == (old, None)
    assert each.datasets == ["blocks", "transactions", "logs"]
    assert (each.partitions, each.rows, each.bytes, each.files) == (6, 30, 24, 6)
    assert len(each.dag_versions) == 1, "that cannot be rolled back to then"
    assert partitions(plane, old) == 2
    assert objects(plane, old)


async def test_a_purged_generation_is_gone_with_all_outputs_of_its_job(plane: ControlPlane) -> None:
    old = await two_generations(plane)
    done = await purge(plane, old)
    assert done.purged == [old]
    # Of three outputs two partitions: a file, a manifest and a seal each.
    assert done.objects == 3 * 2 * 3
    for version in siblings(plane, old):
        assert partitions(plane, version) == 0
        assert objects(plane, version) == []
    current = version_of(plane, "blocks")
    assert (partitions(plane, current), len(objects(plane, current))) == (2, 6)
    found = await list_generations(plane.dispatcher.state, plane.dispatcher.org_id, "blocks")
    assert [v.purged_at is not None for v in found.versions] == [False, True]


async def test_what_was_purged_cannot_be_rolled_back_to_and_is_built_anew(
    plane: ControlPlane,
) -> None:
    old = await two_generations(plane)
    await purge(plane, old)
    with pytest.raises(GenerationPurged, match="ingest"):
        await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "chain")
    await rebuilt(plane, DAG)
    new = version_of(plane, "blocks")
    assert new != old
    assert partitions(plane, new) == 2


async def test_purging_twice_is_purging_once(plane: ControlPlane) -> None:
    old = await two_generations(plane)
    await purge(plane, old)
    assert await purge(plane, old) == PurgeResponse(dataset="blocks", purged=[old], objects=0)
    assert (await planned(plane, keep=0)).generations[0].in_use is not None


async def test_the_newest_are_kept_and_two_unless_said_otherwise(plane: ControlPlane) -> None:
    old = await two_generations(plane)
    assert (await planned(plane)).generations == []
    await rebuilt(plane, CHANGED.replace("chain_id: 1", "chain_id: 2"))
    assert [g.dataset_version for g in (await planned(plane)).generations] == [old]
    assert len((await planned(plane, keep=1)).generations) == 2
    assert (await planned(plane, keep=3)).generations == []


# --- what stays


async def refused(plane: ControlPlane, version: UUID, dataset: str = "blocks") -> str:
    before = plane.sql("SELECT * FROM generations ORDER BY id")
    tasks = plane.sql("SELECT id, status, superseded FROM tasks ORDER BY id")
    with pytest.raises(DatasetInUse) as refusal:
        await purge(plane, version, dataset=dataset)
    assert plane.sql("SELECT * FROM generations ORDER BY id") == before
    assert plane.sql("SELECT id, status, superseded FROM tasks ORDER BY id") == tasks
    (each,) = (await planned(plane, dataset, version)).generations
    assert each.in_use is not None
    assert each.in_use in refusal.value.message
    return each.in_use


async def test_what_readers_see_stays(plane: ControlPlane) -> None:
    await two_generations(plane)
    assert "what readers of blocks see" in await refused(plane, version_of(plane, "blocks"))


async def test_the_last_generation_of_a_job_that_is_gone_stays(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(DAG.split("  - name: ingest")[0])
    (row,) = plane.sql("SELECT current_version FROM datasets WHERE job_name = 'ingest' LIMIT 1")
    assert "readers of" in await refused(plane, row["current_version"], "chain.ingest")


async def test_what_is_being_built_stays(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await plane.deploy(CHANGED)
    found = await list_generations(plane.dispatcher.state, plane.dispatcher.org_id, "blocks")
    (building,) = (v.dataset_version for v in found.versions if v.building)
    assert "a deploy of DAG 'chain'" in await refused(plane, building)


async def test_what_a_task_still_writes_stays(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    old = version_of(plane, "blocks")
    await plane.trigger(10, 19)
    (split,) = await take(plane)
    await finish(plane, split)
    (late,) = await take(plane)
    await rebuilt(plane)
    said = await refused(plane, old)
    assert str(late.task.task_id) in said
    await plane.complete(late, outputs=outputs(plane, late, 10, 19))
    await purge(plane, old)
    assert objects(plane, old) == []


async def test_what_a_task_still_reads_stays(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await fill(plane, (0, 9))
    old = version_of(plane, "logs")
    await plane.trigger(10, 19)
    (split,) = await take(plane)
    await finish(plane, split)
    (ingest,) = await take(plane)
    await finish(plane, ingest)
    (reading,) = await take(plane)
    await rebuilt_but(plane, reading.task.task_id)
    assert str(reading.task.task_id) in await refused(plane, old, "logs")
    await plane.complete(reading)
    await purge(plane, old, dataset="logs")


async def rebuilt_but(plane: ControlPlane, task_id: UUID) -> None:
    await rebuilt(plane)
    (row,) = plane.sql("SELECT status FROM tasks WHERE id = %s", task_id)
    assert row["status"] == "Running"


async def test_one_that_is_used_keeps_all_that_were_asked_for(plane: ControlPlane) -> None:
    old = await two_generations(plane)
    with pytest.raises(DatasetInUse):
        await purge(plane, old, version_of(plane, "blocks"))
    assert partitions(plane, old) == 2


async def test_a_generation_of_another_dataset_is_unknown(plane: ControlPlane) -> None:
    old = await two_generations(plane)
    for version in (uuid4(), version_of(plane, "logs")):
        with pytest.raises(UnknownDataset):
            await purge(plane, old, version)
    assert partitions(plane, old) == 2
    with pytest.raises(BadInput):
        await planned(plane, generation=old, keep=1)


# --- interrupted, and afterwards


class Broken:
    """A store that fails after the first prefix, as if the process had died there."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.left = 1

    def delete_prefix(self, prefix: str) -> int:
        if not self.left:
            raise TraceError("the store is gone")
        self.left -= 1
        found: int = self.store.delete_prefix(prefix)
        return found


async def interrupted(plane: ControlPlane) -> UUID:
    old = await two_generations(plane)
    with pytest.raises(TraceError, match="gone"):
        await purge(plane, old, store=Broken(plane.dispatcher.store))
    left = [version for version in siblings(plane, old) if objects(plane, version)]
    assert len(left) == 2
    assert all(partitions(plane, version) == 0 for version in siblings(plane, old))
    return old


async def test_an_interrupted_purge_is_finished_by_another(plane: ControlPlane) -> None:
    old = await interrupted(plane)
    assert (await purge(plane, old)).objects == 2 * 2 * 3
    assert not any(objects(plane, version) for version in siblings(plane, old))


async def test_an_interrupted_purge_is_finished_by_the_loop(plane: ControlPlane) -> None:
    old = await interrupted(plane)
    place = plane.dispatcher.state, plane.dispatcher.data, plane.dispatcher.store, BUCKET
    assert await finish_purges(*place) == 1
    assert not any(objects(plane, version) for version in siblings(plane, old))
    assert await finish_purges(*place) == 0
    assert partitions(plane, version_of(plane, "blocks")) == 2


async def test_a_task_of_a_purged_generation_cannot_be_retried(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    old = version_of(plane, "blocks")
    await plane.trigger(10, 19)
    (split,) = await take(plane)
    await finish(plane, split)
    (ingest,) = await take(plane)
    await plane.complete(ingest, status="Failed", error_code="x", retryable=False)
    await rebuilt(plane)
    await purge(plane, old)
    with pytest.raises(Conflict):
        await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, ingest.task.task_id)
    assert partitions(plane, old) == 0


async def test_a_purge_leaves_nothing_to_repair_or_route(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    (row,) = plane.sql("SELECT current_version FROM datasets WHERE job_name = 'split'")
    # The splitter too: what it emits, no partition stands for.
    await rebuilt(plane, DAG.replace("chunk_blocks: 10", "chunk_blocks: 5"))
    await purge(plane, row["current_version"], dataset="chain.split")
    left = plane.sql("SELECT 1 FROM events WHERE dataset_version = %s", row["current_version"])
    assert left == []
    assert await reconcile_partitions(plane.dispatcher.state) == 0
    assert await work(plane) == 0
    await fill(plane, (10, 19))
    assert partitions(plane, version_of(plane, "blocks")) == 2


async def test_files_of_attempts_that_were_never_committed_go_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    old = await two_generations(plane)
    (row,) = plane.sql("SELECT dataset_uuid FROM dataset_versions WHERE version = %s", old)
    place = generation_prefix(BUCKET, plane.dispatcher.org_id, row["dataset_uuid"], old)
    plane.dispatcher.store.put(f"{place}{uuid4()}/1/half.parquet", b"x")
    await purge(plane, old)
    assert objects(plane, old) == []
    assert not (tmp_path / BUCKET / place.removeprefix(f"s3://{BUCKET}/")).exists()
