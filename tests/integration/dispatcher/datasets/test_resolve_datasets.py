"""What a query reads: a name as it is now, at a generation, or as it was at a moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pyarrow as pa
import pytest

from tests.integration.dispatcher.commits.test_shared_datasets import DAG as SHARED
from tests.integration.dispatcher.freshness.test_reads import FOLLOW, follow, table_of
from tests.support.chain_data import CHANGED, fill, finish, rebuilt, take, version_of, work
from tests.support.control_plane import (
    DAG,
    SECRETS,
    ControlPlane,
    fence_fields,
    range_event,
)
from tests.support.staged_rows import stage_rows
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.storage.purge_generation import purge_generations
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import (
    BadInput,
    GenerationPurged,
    InvalidDag,
    NotFound,
    TraceError,
    UnknownDataset,
)
from trace_platform.wire.invalidation import InvalidateRequest
from trace_platform.wire.plan import RollbackRequest
from trace_platform.wire.query import DatasetRef, ResolvedDataset, ResolveRequest
from trace_platform.wire.task import EventsRequest

pytestmark = pytest.mark.anyio

SERVICE = {"X-Trace-Service-Token": SECRETS.service_token}
MOVED = DAG.replace(
    "publish:",
    "  - { name: clean, activation: reactive, runtime: ecs_platform, operator: no_op,"
    " inputs: [{ from: { job: ingest, output: logs } }], outputs: [logs] }\npublish:",
).replace("logs: { from: { job: ingest, output: logs } }", "logs: { from: { job: clean } }")


async def resolve(plane: ControlPlane, *refs: DatasetRef, files: bool = True) -> list[Any]:
    request = ResolveRequest(datasets=list(refs), files=files)
    return list(
        (await resolve_datasets(plane.dispatcher.state, plane.dispatcher.org_id, request)).datasets
    )


async def one(plane: ControlPlane, name: str = "blocks", **pin: Any) -> ResolvedDataset:
    """What it is and holds, whichever way it was asked for."""
    (found,) = await resolve(plane, DatasetRef(name=name, **pin))
    assert isinstance(found, ResolvedDataset)
    return found.model_copy(update={"at": None})


async def refused(plane: ControlPlane, kind: type[TraceError], **ref: Any) -> TraceError:
    with pytest.raises(kind) as caught:
        await resolve(plane, DatasetRef(**ref))
    assert type(caught.value) is kind
    return caught.value


def ends(found: ResolvedDataset) -> list[str]:
    return [uri.rpartition("/")[2] for uri in found.files]


def now(plane: ControlPlane) -> str:
    (row,) = plane.sql("SELECT clock_timestamp() AS now")
    moment: datetime = row["now"]
    return moment.isoformat()


def deploys(plane: ControlPlane, dag: str = "chain") -> list[dict[str, Any]]:
    return plane.sql(
        "SELECT id, status, to_version, ended_at FROM deploys WHERE dag_name = %s ORDER BY id", dag
    )


async def purge(plane: ControlPlane, version: UUID, dataset: str = "blocks") -> None:
    dispatcher = plane.dispatcher
    place = dispatcher.state, dispatcher.data, dispatcher.store, dispatcher.grants.bucket
    await purge_generations(*place, dispatcher.org_id, dataset, [version])


# --- by name


async def test_a_name_is_its_current_generation_with_all_its_files(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (10, 19), (0, 9))
    found = await one(plane)
    (row,) = plane.sql("SELECT uuid, current_version FROM datasets WHERE name = 'blocks'")
    assert (found.name, found.dataset_uuid, found.dataset_version) == (
        "blocks", row["uuid"], row["current_version"],
    )  # fmt: skip
    assert ends(found) == ["blocks_0_9.parquet", "blocks_10_19.parquet"]
    assert all(plane.dispatcher.store.get(uri) == b"rows" for uri in found.files)
    assert (found.row_count, found.table, found.mixed, found.pii) == (10, False, False, [])


async def test_answers_come_in_order_also_of_one_that_is_named_twice(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    names = ["logs", "blocks", "logs"]
    found = await resolve(plane, *(DatasetRef(name=name) for name in names))
    assert [each.name for each in found] == names
    assert ends(found[0]) == ends(found[2]) == ["logs_0_9.parquet"]
    assert await resolve(plane) == []


async def test_a_partition_with_several_files_has_all_of_them(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    plane.sql(
        'UPDATE partition_versions SET files = \'[{"name": "b"}, {"name": "a"}]\'::jsonb,'
        " row_count = 7 WHERE dataset_version = %s",
        version_of(plane, "blocks"),
    )
    found = await one(plane)
    assert (ends(found), found.row_count) == (["b", "a"], 7)


async def test_without_files_there_is_all_but_the_files(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    (found,) = await resolve(plane, DatasetRef(name="blocks"), files=False)
    assert found == (await one(plane)).model_copy(update={"files": []})


async def test_an_unknown_name_suggests_those_that_are_alike(plane: ControlPlane) -> None:
    await plane.deploy()
    error = await refused(plane, UnknownDataset, name="Block")
    assert error.facts == {"name": "Block", "suggestions": ["blocks"]}
    assert error.hint == "did you mean blocks? published: blocks, logs, transactions"
    error = await refused(plane, UnknownDataset, name="zzz")
    assert error.facts == {"name": "zzz", "suggestions": []}
    assert error.hint == "published: blocks, logs, transactions"


async def test_an_output_that_is_not_published_has_no_name(plane: ControlPlane) -> None:
    await plane.deploy()
    await refused(plane, UnknownDataset, name="chain.split.0")


@pytest.mark.parametrize(
    "ref",
    [
        {},
        {"version": "abcd"},
        {"name": "blocks", "version": "abcd", "at": "2020-01-01T00:00:00Z"},
        {"name": "blocks", "dataset_version": UUID(int=1)},
        {"dataset_version": UUID(int=1), "at": "2020-01-01T00:00:00Z"},
    ],
)
async def test_a_reference_that_says_too_little_or_too_much_is_refused(
    plane: ControlPlane, ref: dict[str, Any]
) -> None:
    await refused(plane, BadInput, **ref)


# --- by generation


async def test_a_pin_is_the_same_before_and_after_a_deploy_and_a_rollback(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9), (10, 19))
    before = await one(plane)
    old = str(before.dataset_version)
    pinned = await one(plane, version=old)
    assert pinned == before
    await rebuilt(plane, CHANGED)
    after = await one(plane)
    assert after.dataset_version != before.dataset_version
    assert set(after.files).isdisjoint(before.files)
    assert await one(plane, version=old) == pinned
    newer = await one(plane, version=str(after.dataset_version))
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "chain")
    assert await one(plane) == before
    assert await one(plane, version=old) == pinned
    assert await one(plane, version=str(after.dataset_version)) == newer == after


async def test_a_pin_may_be_the_beginning_or_the_generation_of_its_job(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    old = await one(plane)
    (row,) = plane.sql(
        "SELECT generation_id FROM dataset_versions WHERE version = %s", old.dataset_version
    )
    await rebuilt(plane, CHANGED)
    for pin in (str(old.dataset_version)[:12].upper(), str(row["generation_id"])):
        assert await one(plane, version=pin) == old


async def test_a_beginning_of_several_generations_is_refused(plane: ControlPlane) -> None:
    await plane.deploy()
    plane.sql(
        "INSERT INTO dataset_versions (version, dataset_uuid, generation_id)"
        " SELECT ('abcdef00-0000-4000-8000-00000000000' || n)::uuid, d.uuid, g.id FROM datasets d,"
        " generate_series(1, 2) n, LATERAL (SELECT id FROM generations WHERE job_name ="
        " CASE n WHEN 1 THEN 'split' ELSE 'request' END) g WHERE d.name = 'blocks'"
    )
    error = await refused(plane, BadInput, name="blocks", version="abcdef")
    assert "2 generations of 'blocks' begin with abcdef" in error.message


async def test_a_pin_that_is_no_generation_of_the_dataset_is_unknown(plane: ControlPlane) -> None:
    await plane.deploy()
    other = str(version_of(plane, "logs"))
    error = await refused(plane, UnknownDataset, name="blocks", version=other)
    assert error.hint is not None
    for place in ("`trace datasets versions blocks`", r"\d blocks", "Client.dataset('blocks')"):
        assert place in error.hint
    assert error.facts["name"] == "blocks"
    await refused(plane, UnknownDataset, name="nothing", version=other)


async def test_a_purged_generation_says_so(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    old, then = version_of(plane, "blocks"), now(plane)
    await rebuilt(plane, CHANGED)
    await purge(plane, old)
    for ref in (
        {"name": "blocks", "version": str(old)},
        {"name": "blocks", "at": then},
        {"dataset_version": old},
    ):
        error = await refused(plane, GenerationPurged, **ref)
        assert "trace datasets versions blocks" in (error.hint or "")


async def test_a_pin_outlives_the_name_of_its_dataset(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    before = await one(plane, "logs")
    await rebuilt(plane, MOVED)
    after = await one(plane, "logs")
    assert after.dataset_uuid != before.dataset_uuid
    assert await one(plane, "logs", version=str(before.dataset_version)) == nameless(before)
    await plane.deploy(DAG.replace("  logs: {", "  evm_logs: {"))
    await refused(plane, UnknownDataset, name="logs")
    for name in ("logs", "evm_logs"):
        found = await one(plane, name, version=str(before.dataset_version))
        assert (found.name, found.files) == (name, before.files)
        assert (found.published_as, found.label) == ("evm_logs", "evm_logs")


def nameless(dataset: ResolvedDataset) -> ResolvedDataset:
    """The logs of `ingest`, when they are not published any more."""
    return dataset.model_copy(update={"published_as": None, "label": "chain.ingest.2"})


async def test_a_grant_is_a_generation_of_ours_published_or_not(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    (split,) = plane.sql("SELECT current_version FROM datasets WHERE job_name = 'split'")
    published, other = await resolve(
        plane,
        DatasetRef(dataset_version=version_of(plane, "blocks")),
        DatasetRef(dataset_version=split["current_version"]),
    )
    assert published == await one(plane)
    assert (other.name, other.files) == (None, [])
    await refused(plane, NotFound, dataset_version=uuid4())


async def test_nothing_of_another_organisation_is_there(plane: ControlPlane) -> None:
    await plane.deploy()
    version, then = version_of(plane, "blocks"), now(plane)
    (org,) = plane.sql("INSERT INTO orgs (slug, name) VALUES ('b', 'B') RETURNING id")
    for ref, kind in (
        (DatasetRef(name="blocks"), UnknownDataset),
        (DatasetRef(name="blocks", version=str(version)), UnknownDataset),
        (DatasetRef(name="blocks", at=then), UnknownDataset),
        (DatasetRef(name="blocks", at=str(deploys(plane)[0]["id"])), NotFound),
        (DatasetRef(dataset_version=version), NotFound),
    ):
        with pytest.raises(kind) as caught:
            await resolve_datasets(
                plane.dispatcher.state, org["id"], ResolveRequest(datasets=[ref])
            )
        assert "blocks, " not in (caught.value.hint or "")


# --- as of a moment


async def test_a_moment_shows_the_partitions_that_were_current_then(plane: ControlPlane) -> None:
    await plane.deploy()
    empty = now(plane)
    await fill(plane, (0, 9))
    first = now(plane)
    await fill(plane, (10, 19))
    second = now(plane)
    original = await one(plane)
    request = InvalidateRequest(
        dataset="chain.split", scope="row_range", start=10, end=19, reason="it was wrong"
    )
    await invalidate(plane.dispatcher.state, plane.dispatcher.org_id, request)
    await route_invalidations(plane.dispatcher.state)
    await work(plane)
    replaced = await one(plane)
    assert replaced.files[0] == original.files[0]
    assert replaced.files[1] != original.files[1]
    assert (await one(plane, at=empty)).files == []
    assert (await one(plane, at=first)).files == original.files[:1]
    assert await one(plane, at=second) == original
    assert await one(plane, at=now(plane)) == replaced


async def test_a_moment_is_exact_to_the_commit(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    plane.sql(
        "INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key, range_start,"
        " range_end, location, files, row_count, byte_count, schema_hash, committed_at,"
        " superseded_at)"
        " SELECT dataset_uuid, dataset_version, partition_key, range_start, range_end, 's3://x/',"
        " '[{\"name\": \"before\"}]', 1, 1, schema_hash, committed_at - interval '2 ms',"
        " committed_at FROM partition_versions WHERE dataset_version = %s",
        version_of(plane, "blocks"),
    )
    (deployed,) = deploys(plane)
    plane.sql("UPDATE deploys SET ended_at = ended_at - interval '1 hour'")
    plane.sql("UPDATE generations SET created_at = created_at - interval '1 hour'")
    (row,) = plane.sql(
        "SELECT committed_at, committed_at - interval '1 us' AS just_before,"
        " committed_at - interval '3 ms' AS long_before FROM partition_versions"
        " WHERE dataset_version = %s AND superseded_at IS NULL",
        version_of(plane, "blocks"),
    )
    assert deployed["status"] == "CutOver"
    seen = {at: ends(await one(plane, at=moment.isoformat())) for at, moment in row.items()}
    assert seen == {
        "committed_at": ["blocks_0_9.parquet"], "just_before": ["before"], "long_before": [],
    }  # fmt: skip


async def test_a_moment_shows_the_version_that_was_active_then(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    before, first = await one(plane), now(plane)
    await plane.deploy(CHANGED)
    while claims := await take(plane):
        for claimed in claims:
            await finish(plane, claimed)
    building = now(plane)
    assert await advance_deploys(plane.dispatcher.state) == 1
    second = now(plane)
    after = await one(plane)
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "chain")
    third = now(plane)
    expected = {first: before, building: before, second: after, third: before}
    assert before.dataset_version != after.dataset_version
    for at, found in expected.items():
        assert await one(plane, at=at) == found, at


async def test_a_deploy_stands_for_the_moment_it_took_over(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await rebuilt(plane, CHANGED)
    after = await one(plane)
    await fill(plane, (10, 19))
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "chain")
    first, second, third = deploys(plane)
    assert (await one(plane, at=str(first["id"]))).files == []
    assert await one(plane, at=str(second["id"])) == after
    rolled_back = await one(plane, at=str(third["id"]))
    assert rolled_back.dataset_version == version_of(plane, "blocks") != after.dataset_version


async def test_a_deploy_that_did_not_take_over_is_no_moment(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await plane.deploy(CHANGED)
    building = deploys(plane)[-1]
    assert building["status"] == "Building"
    error = await refused(plane, BadInput, name="blocks", at=str(building["id"]))
    assert "never took over: it is Building" in error.message
    await refused(plane, NotFound, name="blocks", at=str(uuid4()))


async def test_a_version_of_a_dag_stands_for_the_last_time_it_took_over(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    before = await one(plane)
    await rebuilt(plane, CHANGED)
    after = await one(plane)
    first, second = deploys(plane)
    for at in (str(second["to_version"]), str(second["to_version"])[:8].upper()):
        assert await one(plane, at=at) == after
    assert (await one(plane, at=str(first["to_version"]))).files == []
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "chain")
    assert await one(plane, at=str(first["to_version"])) == before
    assert (await one(plane, at=str(first["id"]))).files == []
    # As `trace deploys` shows it: enough to tell what began in the same minute.
    assert await one(plane, at=str(deploys(plane)[-1]["id"])[:13]) == before


async def test_an_id_that_several_deploys_begin_with_is_refused(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await rebuilt(plane, CHANGED)
    beginning = str(deploys(plane)[0]["id"])[:4]
    error = await refused(plane, BadInput, name="blocks", at=beginning)
    assert error.message == f"2 deploys begin with {beginning}"


async def test_a_generation_is_no_moment_but_reads_what_it_holds(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    before = await one(plane)
    await rebuilt(plane, CHANGED)
    (row,) = plane.sql(
        "SELECT generation_id FROM dataset_versions WHERE version = %s", before.dataset_version
    )
    assert await one(plane, at=str(before.dataset_version)[:8]) == before
    # The outputs of a job share it.
    at = str(row["generation_id"])
    found = await resolve(plane, *(DatasetRef(name=name, at=at) for name in ("blocks", "logs")))
    assert (found[0], found[1].at) == (before, None)
    other = str(before.dataset_version)
    error = await refused(plane, NotFound, name="logs", at=other)
    assert f"{other} is no deploy" in error.message
    assert "trace datasets versions logs" in (error.hint or "")


async def test_what_was_read_says_at_which_moment(plane: ControlPlane) -> None:
    await plane.deploy()
    then, (deployed,) = now(plane), deploys(plane)
    pin = str(version_of(plane, "blocks"))
    refs: list[dict[str, str]] = [{}, {"at": then}, {"at": str(deployed["id"])}, {"version": pin}]
    found = await resolve(plane, *(DatasetRef(name="blocks", **ref) for ref in refs))
    moments = [each.at for each in found]
    assert moments == [None, datetime.fromisoformat(then), deployed["ended_at"], None]


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("yesterday", "is no moment"),
        ("2026-13-01T00:00:00Z", "is no moment"),
        ("2026-01-01T00:00:00", "says no time zone"),
        ("2026-01-01", "says no time zone"),
        ("9999-12-31T23:59:59-12:00", "is in the future"),
    ],
)
async def test_what_is_no_moment_of_the_past_is_refused(
    plane: ControlPlane, at: str, said: str
) -> None:
    await plane.deploy()
    error = await refused(plane, BadInput, name="blocks", at=at)
    assert said in error.message
    assert error.hint


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "2020-02-29T12:00:00Z"])
async def test_before_it_was_published_there_is_no_dataset(plane: ControlPlane, at: str) -> None:
    await plane.deploy()
    error = await refused(plane, UnknownDataset, name="blocks", at=at)
    assert "was not published at" in error.message
    assert deploys(plane)[0]["ended_at"].isoformat() in (error.hint or "")


async def test_a_name_is_whoever_had_it_at_the_moment(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    first, mine = now(plane), await one(plane, "logs")
    await rebuilt(plane, MOVED)
    second, moved = now(plane), await one(plane, "logs")
    await plane.deploy(MOVED.replace("  logs: { from: { job: clean } }\n", ""))
    unpublished = now(plane)
    other = DAG.replace("name: chain", "name: other").split("publish:")[0]
    await plane.deploy(other + "publish:\n  logs: { from: { job: ingest, output: logs } }\n")
    last, others = now(plane), await one(plane, "logs")
    assert len({mine.dataset_uuid, moved.dataset_uuid, others.dataset_uuid}) == 3
    assert await one(plane, "logs", at=first) == nameless(mine)
    found = await one(plane, "logs", at=second)
    assert found.dataset_version == moved.dataset_version
    assert (found.published_as, found.label) == (None, "chain.clean.0")
    assert await one(plane, "logs", at=last) == others
    await refused(plane, UnknownDataset, name="logs", at=unpublished)


async def test_a_dataset_of_several_producers_has_a_past_too(plane: ControlPlane) -> None:
    await plane.deploy(SHARED)
    first = now(plane)
    plane.sql(
        "INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key, location,"
        " files, row_count, byte_count, schema_hash) SELECT uuid, current_version, 'k', 's3://x/',"
        " '[{\"name\": \"a\"}]', 1, 1, 'h' FROM datasets WHERE name = 'alerts'"
    )
    changed = SHARED.replace("name: one\n", "name: one\n    priority: high\n")
    await plane.deploy(changed)
    found = await one(plane, "alerts", at=now(plane))
    assert (found.dataset_version, found.files) == (version_of(plane, "alerts"), ["s3://x/a"])
    assert (await one(plane, "alerts", at=first)).files == []


async def test_a_version_that_was_built_anew_does_not_stand_in_for_what_was_purged(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    old, then = version_of(plane, "blocks"), now(plane)
    await rebuilt(plane, CHANGED)
    between = now(plane)
    await purge(plane, old)
    await rebuilt(plane, DAG)
    assert version_of(plane, "blocks") != old
    await refused(plane, GenerationPurged, name="blocks", at=then)
    assert ends(await one(plane, at=between)) == ["blocks_0_9.parquet"]
    assert await one(plane, at=now(plane)) == await one(plane)


# --- columns, and what they tell

N, NOTE = pa.field("n", pa.int64(), nullable=False), pa.field("Note", pa.string())
OTHER = pa.field("other", pa.string())
NARROW = pa.table([pa.array([1])], schema=pa.schema([N]))
WIDE = pa.table([pa.array([1]), pa.array(["x"])], schema=pa.schema([N, NOTE]))
ELSE = pa.table([pa.array([1]), pa.array(["x"])], schema=pa.schema([N, OTHER]))


async def commit(plane: ControlPlane, start: int, rows: pa.Table) -> None:
    """Ten blocks of the first output of `ingest`."""
    await plane.trigger(start, start + 9)
    await stage(plane, rows)


async def redo(plane: ControlPlane, start: int, rows: pa.Table) -> None:
    request = InvalidateRequest(
        dataset="chain.split", scope="row_range", start=start, end=start + 9, reason="wrong"
    )
    await invalidate(plane.dispatcher.state, plane.dispatcher.org_id, request)
    await route_invalidations(plane.dispatcher.state)
    await stage(plane, rows)


async def stage(plane: ControlPlane, rows: pa.Table) -> None:
    while claims := await take(plane):
        for claimed in claims:
            if claimed.task.job.name == "ingest":
                staged = [stage_rows(plane.dispatcher.store, claimed, rows)]
                await plane.complete(claimed, outputs=staged)
            else:
                await finish(plane, claimed)


async def test_columns_are_named_as_queries_see_them_and_mixed_when_they_differ(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    moments = []
    for start, rows in ((0, NARROW), (10, NARROW), (20, WIDE)):
        await commit(plane, start, rows)
        moments.append((await one(plane)).mixed)
    found = await one(plane)
    assert [(c.name, c.type) for c in found.columns or ()] == [("n", "BIGINT"), ("Note", "VARCHAR")]
    assert moments == [False, False, True]
    assert (await one(plane, "logs")).columns is None


@pytest.mark.parametrize("grown", [[WIDE], [ELSE, WIDE]], ids=["one", "several"])
async def test_files_that_are_alike_and_lack_what_came_later_are_mixed(
    plane: ControlPlane, grown: list[pa.Table]
) -> None:
    """The generation has the columns of all its commits, also where no file of it has them all."""
    await plane.deploy()
    await commit(plane, 0, NARROW)
    narrow = now(plane)
    await commit(plane, 10, grown[0])
    found = await one(plane, at=narrow)
    assert (found.mixed, len(found.files)) == (True, 1)
    await redo(plane, 0, grown[-1])
    await redo(plane, 10, grown[-1])
    assert (await one(plane)).mixed == (len(grown) > 1)
    await redo(plane, 0, NARROW)
    await redo(plane, 10, NARROW)
    found = await one(plane)
    assert (found.mixed, len(found.files)) == (True, 2)


PII = DAG.replace(
    "  blocks: { from: { job: ingest, output: blocks } }\n",
    "  blocks: { from: { job: ingest, output: blocks }, pii: [miner] }\n",
)


async def test_columns_about_persons_are_named_also_of_older_generations(
    plane: ControlPlane,
) -> None:
    await plane.deploy(PII)
    await fill(plane, (0, 9))
    old, then = str(version_of(plane, "blocks")), now(plane)
    assert (await one(plane)).pii == ["miner"]
    await rebuilt(plane, CHANGED.replace("output: blocks } }", "output: blocks }, pii: [who] }"))
    assert (await one(plane)).pii == ["who"]
    assert (await one(plane, version=old)).pii == ["miner", "who"]
    assert (await one(plane, at=then)).pii == ["miner", "who"]
    (granted,) = await resolve(plane, DatasetRef(dataset_version=UUID(old)))
    assert granted.pii == ["miner", "who"]


async def test_a_personal_column_that_is_none_is_found_out(plane: ControlPlane) -> None:
    def personal(column: str) -> str:
        return PII.replace("[miner]", f"[{column}]")

    await plane.deploy(personal("nota"))
    assert (await one(plane)).pii_missing == [], "nobody knows its columns yet"
    await commit(plane, 0, WIDE)
    assert (await one(plane)).pii_missing == ["nota"]
    with pytest.raises(InvalidDag, match="`pii` of 'blocks' names 'notes'") as refused:
        await plane.deploy(personal("notes"))
    assert refused.value.hint == "did you mean Note?"
    await plane.deploy(personal("NOTE"))
    found = await one(plane)
    assert (found.pii, found.pii_missing) == (["NOTE"], [])
    # An older generation never had to have the columns of the next.
    old = str(found.dataset_version)
    await plane.deploy(CHANGED.replace("output: blocks } }", "output: blocks }, pii: [nota] }"))
    await stage(plane, WIDE)
    await advance_deploys(plane.dispatcher.state)
    assert (await one(plane)).pii_missing == ["nota"]
    found = await one(plane, version=old)
    assert (found.pii, found.pii_missing) == (["NOTE", "nota"], [])
    assert found.not_personal == [], "what names a column that is not there says nothing of others"
    await plane.deploy(CHANGED.replace("output: blocks } }", "output: blocks }, pii: [note] }"))
    assert (await one(plane, version=old)).not_personal == ["n"]
    assert (await one(plane)).not_personal == []


async def test_what_is_no_longer_said_to_be_personal_is_shown(plane: ControlPlane) -> None:
    """By the version of the DAG, with the data as it is."""
    await plane.deploy(PII)
    await plane.deploy(DAG)
    assert (await one(plane)).pii == []


async def test_a_dataset_that_is_not_published_any_more_keeps_its_personal_columns(
    plane: ControlPlane,
) -> None:
    await plane.deploy(PII)
    version = version_of(plane, "blocks")
    await plane.deploy(DAG.replace("  blocks: { from: { job: ingest, output: blocks } }\n", ""))
    (granted,) = await resolve(plane, DatasetRef(dataset_version=version))
    assert (granted.name, granted.pii) == (None, ["miner"])


# --- tables


async def compacted(plane: ControlPlane) -> None:
    """A followed table with blocks up to 19, of which 0 to 9 are in its cold part too."""
    source = await follow(plane)
    await record_events(
        plane.dispatcher.state,
        EventsRequest(
            **fence_fields(source),
            tables=[table_of(source, 19)],
            events=[range_event(source, 0, 19)],
        ),
        plane.dispatcher.grants.trusts,
    )
    await cut(plane)


async def cut(plane: ControlPlane) -> None:
    """Every chunk is 0 to 9, and becomes a file."""
    while claims := await take(plane):
        for claimed in claims:
            if claimed.task.job.name == "chunks":
                await plane.complete(claimed, events=[range_event(claimed, 0, 9)])
            elif claimed.task.job.name == "compact":
                await finish(plane, claimed)


async def test_a_table_has_the_files_of_its_cold_part(plane: ControlPlane) -> None:
    await compacted(plane)
    found = await one(plane)
    (cold,) = plane.sql("SELECT current_version FROM datasets WHERE job_name = 'compact'")
    assert found.table
    assert found.dataset_version == version_of(plane, "blocks")
    assert ends(found) == ["blocks_0_9.parquet"]
    assert str(cold["current_version"]) in found.files[0]
    assert found.row_count == 19
    (granted,) = await resolve(plane, DatasetRef(dataset_version=found.dataset_version))
    assert granted == found


async def test_a_table_without_a_cold_part_has_no_files(plane: ControlPlane) -> None:
    await compacted(plane)
    await plane.deploy(FOLLOW.replace(", cold: { job: compact, output: blocks }", ""))
    found = await one(plane)
    assert (found.table, found.files, found.columns) == (True, [], None)


async def test_a_personal_column_that_a_table_lacks_is_found_out_once_its_columns_are_said(
    plane: ControlPlane,
) -> None:
    await compacted(plane)
    await plane.deploy(FOLLOW.replace("cold: {", "pii: [NOTE, nota], cold: {"))
    assert (await one(plane)).pii_missing == []
    plane.sql(
        "UPDATE dataset_versions SET table_columns ="
        ' \'[{"name": "note", "type": "string", "nullable": true}]\' WHERE version = %s',
        version_of(plane, "blocks"),
    )
    assert (await one(plane)).pii_missing == ["nota"]


async def test_a_table_has_no_past(plane: ControlPlane) -> None:
    await compacted(plane)
    error = await refused(plane, BadInput, name="blocks", at=now(plane))
    assert "a table has no past" in error.message
    assert "cold" in (error.hint or "")


async def test_a_table_that_is_pinned_has_the_cold_part_of_its_own_version(
    plane: ControlPlane,
) -> None:
    await compacted(plane)
    before = await one(plane)
    # Another table and, below it, another cold part: nothing is in either yet.
    anew = "operator: ticker\n    bootstrap: { reset_outputs: true }"
    await plane.deploy(FOLLOW.replace("operator: ticker", anew))
    await cut(plane)
    await advance_deploys(plane.dispatcher.state)
    after = await one(plane)
    assert (after.dataset_version != before.dataset_version, after.files) == (True, [])
    assert await one(plane, version=str(before.dataset_version)) == before


async def test_a_table_whose_cold_part_alone_is_new_has_the_new_files(plane: ControlPlane) -> None:
    await compacted(plane)
    before = await one(plane)
    only_read = "trigger: false }]\n    outputs: [blocks"
    changed = FOLLOW.replace(only_read, f"{only_read}, more")
    assert changed != FOLLOW
    await plane.deploy(changed)
    assert await one(plane) == before, "what is being built is not read"
    await cut(plane)
    assert await advance_deploys(plane.dispatcher.state) == 1
    after = await one(plane)
    assert after.dataset_version == before.dataset_version
    assert ends(after) == ends(before)
    assert after.files != before.files
    first = deploys(plane)[0]["to_version"]
    back = RollbackRequest(to_version=first)
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "chain", back)
    assert await one(plane) == before


async def test_a_table_whose_cold_part_is_gone_is_not_read_without_it(plane: ControlPlane) -> None:
    await compacted(plane)
    plane.sql("UPDATE generations SET purged_at = clock_timestamp() WHERE job_name = 'compact'")
    await refused(plane, GenerationPurged, name="blocks")


# --- over HTTP


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_services_resolve_and_errors_have_their_status(
    plane: ControlPlane, http: httpx.AsyncClient
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))

    async def ask(ref: dict[str, Any]) -> httpx.Response:
        body = {"datasets": [ref]}
        return await http.post("/internal/datasets/resolve", json=body, headers=SERVICE)

    answer = await ask({"name": "blocks"})
    (found,) = answer.json()["datasets"]
    assert ResolvedDataset.model_validate(found) == await one(plane)
    old = version_of(plane, "blocks")
    await rebuilt(plane, CHANGED)
    await purge(plane, old)
    refusals = {
        (404, "unknown_dataset"): {"name": "nothing"},
        (404, "not_found"): {"dataset_version": str(uuid4())},
        (409, "generation_purged"): {"name": "blocks", "version": str(old)},
        (422, "bad_input"): {"name": "blocks", "at": "never"},
    }
    for (status, code), ref in refusals.items():
        answer = await ask(ref)
        assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_only_services_resolve_and_not_too_much(http: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {"datasets": []}
    path = "/internal/datasets/resolve"
    for headers in ({}, {"Authorization": f"Bearer {SECRETS.user_token}"}):
        assert (await http.post(path, json=body, headers=headers)).status_code == 401
    assert (await http.post(path, json=body, headers=SERVICE)).json() == {"datasets": []}
    body = {"datasets": [{"name": "blocks"}] * 65}
    assert (await http.post(path, json=body, headers=SERVICE)).status_code == 422
