"""The registry as users see it: which datasets there are, what they hold, who has which name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chain_data import CHANGED, READER, fill, rebuilt, take, version_of, work
from tests.support.control_plane import DAG, ControlPlane
from tests.support.pipeline import published_files
from trace_platform.dispatcher.datasets.list_datasets import list_datasets
from trace_platform.dispatcher.datasets.list_partitions import (
    list_partition_columns,
    list_partitions,
)
from trace_platform.dispatcher.datasets.show_dataset import list_generations, show_dataset
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.health.check_health import check_health
from trace_platform.dispatcher.health.measure import measure
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.errors import BadInput, DatasetInUse, InvalidDag, UnknownDataset
from trace_platform.state import datasets, generations, locks
from trace_platform.state.dags import Publish
from trace_platform.wire.control import HealthRule
from trace_platform.wire.dataset import DatasetDetail, DatasetEntry, PartitionColumns, Partitions

pytestmark = pytest.mark.anyio

DESCRIBED = DAG.replace(
    "  blocks: { from: { job: ingest, output: blocks } }\n",
    """\
  blocks:
    from: { job: ingest, output: blocks }
    description: Every block.
    owner: chain-team
    tags: [raw, demo]
    write_mode: replace
    schema: { block_number: int64, author: { type: binary(20), description: Who sealed it. } }
    pii: [author]
    max_age: 15m
""",
)

# Workers that are played by hand do not say columns.
AGED = DESCRIBED.replace(
    DESCRIBED[DESCRIBED.index("    schema:") : DESCRIBED.index("    max_age")], ""
)


async def entries(plane: ControlPlane, *, everything: bool = False) -> dict[str, DatasetEntry]:
    found = await list_datasets(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.org_id,
        everything=everything,
    )
    return {each.dataset: each for each in found.datasets}


async def shown(plane: ControlPlane, named: str) -> DatasetDetail:
    return await show_dataset(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.grants.bucket,
        plane.dispatcher.org_id,
        named,
    )


async def page(plane: ControlPlane, named: str, **asked: Any) -> Partitions:
    return await list_partitions(
        plane.dispatcher.state, plane.dispatcher.org_id, named,
        asked.get("first"), asked.get("last"), asked.get("at"), asked.get("after"),
        asked.get("limit", 100),
    )  # fmt: skip


async def columns(
    plane: ControlPlane, *, limit: int = 100, after: str | None = None
) -> PartitionColumns:
    return await list_partition_columns(
        plane.dispatcher.state, plane.dispatcher.org_id, "blocks", None, after, limit
    )


# --- list


async def test_published_datasets_are_listed_with_what_they_hold(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9), (10, 19))
    found = await entries(plane)
    assert list(found) == ["blocks", "logs", "transactions"]
    blocks = found["blocks"]
    assert (blocks.producer, blocks.partitions, blocks.rows, blocks.bytes) == (
        "chain.ingest", 2, 10, 8,
    )  # fmt: skip
    assert blocks.dataset_version == version_of(plane, "blocks")
    assert blocks.age_s is not None
    assert blocks.state == "fresh"


async def test_all_has_outputs_that_nobody_published_as_dag_job_output(plane: ControlPlane) -> None:
    await plane.deploy()
    found = await entries(plane, everything=True)
    assert set(found) == {
        "blocks", "logs", "transactions", "chain.request.0", "chain.split.0",
    }  # fmt: skip
    assert found["chain.split.0"].name is None
    assert found["chain.split.0"].newest_at is None


async def test_a_dataset_with_work_left_is_stale_and_so_is_what_comes_of_it(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await fill(plane, (0, 9))
    await plane.trigger(10, 19)
    await plane.settle()
    found = await entries(plane, everything=True)
    assert found["chain.request.0"].state == "fresh"
    assert {found[name].state for name in ("chain.split.0", "logs", "transfers")} == {"stale"}


# --- show


async def test_a_dataset_shows_what_its_dag_says_of_it(plane: ControlPlane) -> None:
    await plane.deploy(DESCRIBED)
    found = await shown(plane, "blocks")
    assert found.description == "Every block."
    assert (found.owner, found.tags) == ("chain-team", ["raw", "demo"])
    listed = await entries(plane)
    assert (listed["blocks"].owner, listed["blocks"].tags) == ("chain-team", ["raw", "demo"])
    assert (listed["logs"].owner, listed["logs"].tags) == (None, [])
    assert found.columns is not None
    assert found.columns["author"] == {
        "type": "binary(20)", "description": "Who sealed it.", "declared": "binary(20)",
        "committed": None, "nullable": None,
    }  # fmt: skip
    assert found.misfits == [], "nothing is committed yet"
    assert (found.pii, found.max_age_s) == (["author"], 900.0)
    assert (found.storage, found.write_mode) == ("parquet", "replace")
    assert found.location.endswith(
        f"/dataset/{found.dataset_uuid}/version/{found.dataset_version}/"
    )


async def test_a_dataset_is_found_by_name_by_uuid_and_by_who_makes_it(plane: ControlPlane) -> None:
    await plane.deploy()
    found = await shown(plane, "transactions")
    for named in (str(found.dataset_uuid), "chain.ingest.1"):
        assert (await shown(plane, named)).dataset == "transactions"
    assert (await shown(plane, "chain.ingest")).dataset == "blocks"


async def test_a_name_that_is_none_suggests_one_that_is_alike(plane: ControlPlane) -> None:
    await plane.deploy()
    with pytest.raises(UnknownDataset) as unknown:
        await shown(plane, "transaction")
    assert "did you mean transactions?" in (unknown.value.hint or "")


async def test_gaps_between_the_first_and_the_last_block_are_named(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9), (30, 39), (50, 59))
    found = await shown(plane, "blocks")
    assert (found.first_block, found.last_block) == (0, 59)
    assert [(gap.start, gap.end) for gap in found.gaps] == [(10, 29), (40, 49)]
    assert found.gap_count == 2
    await fill(plane, (10, 29), (40, 49))
    assert (await shown(plane, "blocks")).gap_count == 0


async def test_of_many_gaps_twenty_are_named_and_all_are_counted(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, *((n * 20, n * 20 + 9) for n in range(25)))
    found = await shown(plane, "blocks")
    assert (len(found.gaps), found.gap_count) == (20, 24)


async def test_neighbours_are_what_the_producer_reads_and_who_reads_it(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    found = await shown(plane, "logs")
    assert (found.upstream, found.downstream) == (["chain.split.0"], ["reader.decode"])


# --- versions


async def test_generations_say_which_versions_use_them_and_what_they_hold(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9), (10, 19))
    old = version_of(plane, "blocks")
    await rebuilt(plane, CHANGED)
    new, before = (
        await list_generations(plane.dispatcher.state, plane.dispatcher.org_id, "blocks")
    ).versions
    assert (new.dataset_version, before.dataset_version) == (version_of(plane, "blocks"), old)
    assert (new.current, new.active, before.current, before.active) == (True, True, False, False)
    assert (new.partitions, before.partitions) == (2, 2)
    assert new.built_at is not None
    assert len(new.dag_versions) == len(before.dag_versions) == 1
    assert new.dag_versions != before.dag_versions


async def test_a_generation_that_is_being_built_says_so(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await plane.deploy(CHANGED)
    new, before = (
        await list_generations(plane.dispatcher.state, plane.dispatcher.org_id, "blocks")
    ).versions
    assert (new.building, new.current, before.building, before.current) == (
        True, False, False, True,
    )  # fmt: skip


# --- partitions


async def test_partitions_come_in_order_and_a_page_at_a_time(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, *((n * 10, n * 10 + 9) for n in (11, 2, 0, 1, 10)))
    first = await page(plane, "blocks", limit=3)
    assert [p.start for p in first.partitions] == [0, 10, 20]
    assert first.next is not None
    rest = await page(plane, "blocks", limit=3, after=first.next)
    assert [p.start for p in rest.partitions] == [100, 110]
    assert rest.next is None
    made_by = rest.partitions[0].task_id
    (task,) = plane.sql("SELECT status, inputs FROM tasks WHERE id = %s", made_by)
    assert (task["status"], task["inputs"][0]["start"]) == ("Completed", 100)


async def test_partitions_of_a_range_are_those_that_reach_into_it(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, *((n * 10, n * 10 + 9) for n in range(6)))
    found = await page(plane, "blocks", first=15, last=30)
    assert [p.partition_key for p in found.partitions] == ["10-19", "20-29", "30-39"]
    assert [p.start for p in (await page(plane, "blocks", first=45)).partitions] == [40, 50]
    assert [p.start for p in (await page(plane, "blocks", last=9)).partitions] == [0]
    assert (await page(plane, "blocks", first=60)).partitions == []


async def test_partitions_of_an_older_generation_are_there_by_its_beginning(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    old = version_of(plane, "blocks")
    await rebuilt(plane, CHANGED)
    await fill(plane, (10, 19))
    found = await page(plane, "blocks", at=str(old)[:8])
    assert found.dataset_version == old
    assert [p.start for p in found.partitions] == [0]
    assert len((await page(plane, "blocks")).partitions) == 2
    with pytest.raises(UnknownDataset):
        await page(plane, "blocks", at="00000000")


async def test_partitions_without_a_range_follow_by_key(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    plane.sql(
        "INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key, location,"
        " files, row_count, byte_count, schema_hash)"
        " SELECT uuid, current_version, key, 's3://x/', '[]', 1, 1, 'h' FROM datasets,"
        " unnest(ARRAY['b', 'a', 'c']) key WHERE name = 'blocks'"
    )
    first = await page(plane, "blocks", limit=2)
    rest = await page(plane, "blocks", limit=2, after=first.next)
    keys = [p.partition_key for p in first.partitions + rest.partitions]
    assert keys == ["0-9", "a", "b", "c"]
    assert rest.partitions[0].task_id is None
    in_columns = await columns(plane, limit=3)
    assert (in_columns.start, in_columns.key) == ([0, None, None], [None, "a", "b"])
    last = await columns(plane, limit=3, after=in_columns.next)
    assert (last.key, last.task_id, last.next) == (["c"], [None], None)


async def test_partitions_in_columns_are_the_same_ones(plane: ControlPlane) -> None:
    await plane.deploy()
    assert (await columns(plane)).start == []
    await fill(plane, *((n * 10, n * 10 + 9) for n in (2, 0, 1)))
    first = await columns(plane, limit=2)
    rest = await columns(plane, limit=2, after=first.next)
    rows = (await page(plane, "blocks")).partitions
    assert rest.next is None
    for field in ("start", "end", "rows", "bytes", "files", "task_id", "attempt"):
        found = getattr(first, field) + getattr(rest, field)
        assert found == [getattr(each, field) for each in rows], field
    assert first.committed_ms[0] == int(rows[0].committed_at.timestamp() * 1000 + 0.5)


@pytest.mark.parametrize("odd", ["x", "range:", "range:-1", "range:99999999999999999999"])
async def test_a_place_that_is_none_is_refused(plane: ControlPlane, odd: str) -> None:
    await plane.deploy()
    with pytest.raises(BadInput):
        await page(plane, "blocks", after=odd)


# --- names


async def test_another_name_is_the_same_dataset_with_the_same_files(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    before = await shown(plane, "logs")
    files = (await published_files(plane))["logs"]
    await plane.deploy(DAG.replace("  logs: {", "  evm_logs: {"))
    after = await shown(plane, "evm_logs")
    same = ("dataset_uuid", "dataset_version", "location", "partitions", "rows")
    assert [getattr(after, f) for f in same] == [getattr(before, f) for f in same]
    named = await published_files(plane)
    assert named["evm_logs"] == files
    assert "logs" not in named
    with pytest.raises(UnknownDataset):
        await shown(plane, "logs")


async def test_what_other_dags_read_is_neither_renamed_nor_unpublished(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    line = "  logs: { from: { job: ingest, output: logs } }\n"
    for yaml in (DAG.replace("  logs: {", "  evm_logs: {"), DAG.replace(line, "")):
        with pytest.raises(DatasetInUse, match=r"reader\.decode"):
            await plane.deploy(yaml)
    assert (await shown(plane, "logs")).downstream == ["reader.decode"]


async def test_a_name_has_one_producer(plane: ControlPlane) -> None:
    await plane.deploy()
    with pytest.raises(InvalidDag, match="is published by the DAG 'chain'"):
        await plane.deploy(READER.replace("transfers:", "blocks:"))


async def test_a_reader_follows_a_name_that_moves_to_another_job(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await fill(plane, (0, 9))
    copy = (
        "  - { name: clean, activation: reactive, runtime: ecs_platform, operator: no_op,"
        " inputs: [{ from: { job: ingest, output: logs } }], outputs: [logs] }\npublish:"
    )
    moved = DAG.replace("publish:", copy).replace(
        "logs: { from: { job: ingest, output: logs } }", "logs: { from: { job: clean } }"
    )
    await rebuilt(plane, moved)
    logs = await shown(plane, "logs")
    assert (logs.producer, logs.downstream) == ("chain.clean", ["reader.decode"])
    # By the deploy, or at the latest by the loop that looks for what was not given.
    await reconcile_partitions(plane.dispatcher.state)
    (claimed,) = await take(plane)
    assert claimed.task.job.name == "decode"
    assert claimed.task.inputs[0].dataset_uuid == logs.dataset_uuid


async def test_a_reader_follows_a_name_that_moves_to_another_dag(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    other = DAG.replace("name: chain", "name: other").split("publish:")[0]
    await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, other, "other.yaml")
    (target,) = plane.sql(
        "SELECT uuid FROM datasets WHERE dag_name = 'other' AND job_name = 'ingest'"
        " AND output_index = 2"
    )
    # A deploy refuses to take a name from its readers, so the name moves beneath it.
    async with plane.dispatcher.state.transaction() as tx:
        await locks.routing(tx)
        await datasets.publish_as(tx, plane.dispatcher.org_id, "chain", [])
        published = Publish("logs", target["uuid"], {})
        await datasets.publish_as(tx, plane.dispatcher.org_id, "other", [published])
        await generations.subscribe(tx, plane.dispatcher.org_id)
    assert (await shown(plane, "chain.ingest.2")).downstream == []
    logs = await shown(plane, "logs")
    assert (logs.producer, logs.downstream) == ("other.ingest", ["reader.decode"])
    await plane.trigger(0, 9, "other")
    await work(plane)
    assert (await shown(plane, "transfers")).partitions == 1


# --- freshness


async def freshness(plane: ControlPlane) -> HealthRule:
    health = await check_health(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
    )
    (rule,) = (rule for rule in health.rules if rule.code == "dataset_freshness")
    return rule


def age(plane: ControlPlane, seconds: int) -> None:
    plane.sql("UPDATE events SET recorded_at = recorded_at - make_interval(secs => %s)", seconds)


async def test_a_dataset_that_is_older_than_it_may_be_fires_and_is_stale(
    plane: ControlPlane,
) -> None:
    await plane.deploy(AGED)
    await fill(plane, (0, 9))
    assert (await freshness(plane)).firing is False
    age(plane, 1000)
    rule = await freshness(plane)
    assert rule.firing
    assert rule.value > rule.limit == 900
    assert "blocks changed 16m" in rule.text
    found = await entries(plane)
    assert (found["blocks"].state, found["logs"].state) == ("stale", "fresh")
    await fill(plane, (10, 19))
    assert (await freshness(plane)).firing is False
    assert (await entries(plane))["blocks"].state == "fresh"


async def test_without_a_max_age_nothing_is_too_old(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    age(plane, 10**8)
    assert (await freshness(plane)).firing is False
    assert (await entries(plane))["blocks"].state == "fresh"


async def test_the_age_of_a_dataset_with_a_max_age_is_measured(plane: ControlPlane) -> None:
    await plane.deploy(DESCRIBED)
    await measure(plane.dispatcher.state, plane.dispatcher.org_id, plane.dispatcher.metrics)
    found = [s for s in plane.dispatcher.metrics.samples if s.name.startswith("trace_dataset_")]
    assert {(s.name, s.labels["dataset"]) for s in found} == {
        ("trace_dataset_age_seconds", "blocks"),
        ("trace_dataset_max_age_seconds", "blocks"),
    }
