"""Datasets for those who query: the list, and all of one on a page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.integration.dispatcher.datasets.test_datasets import AGED, DESCRIBED
from tests.integration.dispatcher.datasets.test_resolve_datasets import compacted
from tests.support.chain_data import READER, fill, finish, rebuilt, take, version_of
from tests.support.control_plane import SECRETS, ControlPlane
from tests.support.staged_rows import stage_rows
from trace_platform.dispatcher.datasets.dataset_page import dataset_page, summarize_datasets
from trace_platform.dispatcher.datasets.list_partitions import list_files
from trace_platform.dispatcher.datasets.show_dataset import show_dataset
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.domain.errors import BadInput, UnknownDataset
from trace_platform.domain.prefix import delivery_key
from trace_platform.wire.dataset import PartitionFiles
from trace_platform.wire.invalidation import InvalidateRequest
from trace_platform.wire.query import DatasetPage, DatasetSummary, QueryColumn

pytestmark = pytest.mark.anyio

SERVICE = {"X-Trace-Service-Token": SECRETS.service_token}


async def summaries(plane: ControlPlane) -> dict[str, DatasetSummary]:
    found = await summarize_datasets(
        plane.dispatcher.state, plane.dispatcher.data, plane.dispatcher.org_id
    )
    return {each.name: each for each in found.datasets}


async def page(plane: ControlPlane, named: str) -> DatasetPage:
    return await dataset_page(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.grants.bucket,
        plane.dispatcher.org_id,
        named,
    )


async def with_columns(plane: ControlPlane) -> None:
    """One partition of blocks with two columns."""
    await plane.trigger(0, 9)
    (split,) = await take(plane)
    await finish(plane, split)
    (claimed,) = await take(plane)
    rows = pa.table({"block_number": pa.array([1, 2]), "author": pa.array([b"x", b"y"])})
    await plane.complete(claimed, outputs=[stage_rows(plane.dispatcher.store, claimed, rows)])
    await plane.settle()


async def test_the_list_says_what_each_is_and_holds(plane: ControlPlane) -> None:
    await plane.deploy(DESCRIBED)
    await with_columns(plane)
    found = await summaries(plane)
    assert list(found) == ["blocks", "logs", "transactions"]
    blocks, logs = found["blocks"], found["logs"]
    assert blocks.columns == [
        QueryColumn(name="block_number", type="BIGINT"), QueryColumn(name="author", type="BLOB"),
    ]  # fmt: skip
    assert (blocks.row_count, blocks.description, blocks.pii) == (2, "Every block.", ["author"])
    assert (blocks.state, blocks.dataset_version) == ("fresh", version_of(plane, "blocks"))
    assert blocks.newest_at is not None
    assert (logs.columns, logs.row_count, logs.description, logs.pii) == (None, 0, None, [])
    assert logs.newest_at is None


async def test_the_list_says_what_is_not_up_to_date(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await plane.trigger(10, 19)
    await plane.settle()
    assert {each.state for each in (await summaries(plane)).values()} == {"stale"}


async def test_a_page_has_all_of_a_dataset(plane: ControlPlane) -> None:
    await plane.deploy(DESCRIBED)
    await with_columns(plane)
    old = version_of(plane, "blocks")
    await plane.deploy(READER)
    await rebuilt(plane, AGED.replace("chain_id: 31337", "chain_id: 1"))
    found = await page(plane, "blocks")
    assert found.detail.dataset == "blocks"
    assert found.columns is None, "the new generation was written without saying its columns"
    assert [each.dataset_version for each in found.versions] == [version_of(plane, "blocks"), old]
    assert [each.partition_key for each in found.partitions.partitions] == ["0-9"]
    assert found.partitions.dataset_version == version_of(plane, "blocks")
    logs = await page(plane, "logs")
    nodes = [node.id for node in logs.lineage.nodes]
    assert nodes[0] == "logs"
    assert {"chain.ingest", "chain.split.0", "reader.decode", "transfers"} <= set(nodes)


async def test_a_page_has_the_first_hundred_partitions(plane: ControlPlane) -> None:
    await plane.deploy()
    plane.sql(
        "INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key, location,"
        " files, row_count, byte_count, schema_hash) SELECT uuid, current_version, 'k' || 1000 + n,"
        " 's3://x/', '[]', 1, 1, 'h' FROM datasets, generate_series(1, 120) n"
        " WHERE name = 'blocks'"
    )
    found = (await page(plane, "blocks")).partitions
    # No task wrote them: they are deliveries, whose ids were keys once.
    shown = [delivery_key(f"k{1000 + n}") for n in range(1, 101)]
    assert [each.partition_key for each in found.partitions] == shown
    assert found.next == f"key:{shown[-1]}"


async def test_the_neighbours_of_a_page_are_three_datasets_away_at_most(
    plane: ControlPlane,
) -> None:
    jobs = "".join(
        f"  - {{ name: j{n}, activation: reactive, runtime: ecs_platform, operator: no_op,"
        f" inputs: [{{ from: {{ job: {f'j{n - 1}' if n else 'source'} }} }}], outputs: [rows] }}\n"
        for n in range(6)
    )
    source = "  - { name: source, activation: source, source: { kind: manual } }\n"
    await plane.deploy(f"name: d\njobs:\n{source}{jobs}publish:\n  x: {{ from: {{ job: j0 }} }}\n")
    lineage = (await page(plane, "x")).lineage
    assert lineage.truncated
    ids = {node.id for node in lineage.nodes if node.kind == "dataset"}
    assert ids == {"x", "d.source.0", "d.j1.0", "d.j2.0", "d.j3.0"}


async def test_a_page_is_found_by_uuid_and_by_who_makes_it(plane: ControlPlane) -> None:
    await plane.deploy()
    blocks = await page(plane, "blocks")
    for named in (str(blocks.detail.dataset_uuid), "chain.ingest", "chain.ingest.0"):
        found = await page(plane, named)
        assert (found.detail.dataset, found.lineage.subject) == ("blocks", "blocks")
    with pytest.raises(UnknownDataset) as unknown:
        await page(plane, "blcks")
    assert "did you mean blocks?" in (unknown.value.hint or "")


async def test_a_table_has_its_rows_and_the_columns_of_its_cold_part(plane: ControlPlane) -> None:
    await compacted(plane)
    plane.sql(
        "UPDATE dataset_versions v SET columns = %s FROM datasets d"
        " WHERE d.uuid = v.dataset_uuid AND d.job_name = 'compact'",
        '[{"name": "block_number", "type": "uint64", "nullable": false}]',
    )
    columns = [QueryColumn(name="block_number", type="UBIGINT")]
    blocks = (await summaries(plane))["blocks"]
    assert (blocks.columns, blocks.row_count) == (columns, 19)
    found = await page(plane, "blocks")
    assert found.columns == columns
    assert (found.detail.table, found.detail.location) == (None, ""), "where it is, is no answer"


async def test_a_table_and_its_cold_part_are_counted_together(plane: ControlPlane) -> None:
    """Blocks 5 to 19 are in the table, 0 to 9 in files: what is in both is counted once."""
    await compacted(plane)
    plane.sql(
        "UPDATE dataset_versions SET table_start = 5, row_count = 15, table_columns = %s"
        " WHERE location IS NOT NULL",
        '[{"name": "block_number", "type": "int64", "nullable": false}]',
    )
    columns = [QueryColumn(name="block_number", type="BIGINT")]
    blocks, (cold,) = (await summaries(plane))["blocks"], await files_of(plane, "blocks")
    assert (blocks.columns, blocks.rows_estimated) == (columns, True), "a file reaches into it"
    plane.sql("UPDATE dataset_versions SET table_start = 10, row_count = 10 WHERE cursor = 19")
    blocks = (await summaries(plane))["blocks"]
    assert (blocks.row_count, blocks.rows_estimated) == (10 + cold.rows, False)
    found = await page(plane, "blocks")
    assert found.columns == columns
    assert [each.partition_key for each in found.partitions.partitions] == ["0-9"]
    detail = found.detail
    assert (detail.partitions, detail.rows, detail.bytes) == (1, 10 + cold.rows, cold.bytes)
    assert (detail.first_block, detail.last_block, detail.gap_count) == (0, 19, 0)
    assert detail.columns == {
        "block_number": {
            "type": "int64", "declared": None, "committed": "int64", "nullable": False,
        },
    }  # fmt: skip
    assert detail.cold is not None
    assert (detail.cold.partitions, detail.cold.rows) == (1, cold.rows)
    assert [(each.rows, each.partitions) for each in found.versions] == [(10 + cold.rows, 1)]
    plane.sql("UPDATE dataset_versions SET table_start = 15 WHERE cursor = 19")
    (gap,) = (await page(plane, "blocks")).detail.gaps
    assert (gap.start, gap.end) == (10, 14)


async def files_of(plane: ControlPlane, named: str) -> list[PartitionFiles]:
    found = await list_files(plane.dispatcher.state, plane.dispatcher.org_id, named, None, None, 10)
    return found.partitions


async def test_the_files_of_a_table_are_those_of_its_cold_part(plane: ControlPlane) -> None:
    await compacted(plane)
    dispatcher = plane.dispatcher
    found = await list_files(dispatcher.state, dispatcher.org_id, "blocks", None, None, 10)
    detail = await show_dataset(
        dispatcher.state, dispatcher.data, dispatcher.grants.bucket, dispatcher.org_id, "blocks"
    )
    assert detail.cold is not None
    assert detail.table == f"postgres_table:dataset_{version_of(plane, 'blocks').hex}"
    assert (found.dataset, found.dataset_version) == (
        detail.cold.dataset, detail.cold.dataset_version,
    )  # fmt: skip
    assert (found.cold_of, found.current) == ("blocks", True)
    assert [each.partition_key for each in found.partitions] == ["0-9"]
    same = await list_files(dispatcher.state, dispatcher.org_id, found.dataset, None, None, 10)
    assert (same.partitions, same.cold_of) == (found.partitions, None)


async def test_a_table_without_a_cold_part_has_no_files_to_look_at(plane: ControlPlane) -> None:
    await plane.deploy()
    plane.sql("UPDATE dataset_versions SET location = 'postgres_table:any', cursor = 9")
    with pytest.raises(BadInput, match="'blocks' is a table in Postgres: it has no files"):
        await files_of(plane, "blocks")


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_services_see_the_list_and_the_pages_and_no_files(
    plane: ControlPlane, http: httpx.AsyncClient
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))

    async def get(path: str, **fields: Any) -> httpx.Response:
        return await http.get(path, **{"headers": SERVICE} | fields)

    answer = await get("/internal/datasets")
    assert [each["name"] for each in answer.json()["datasets"]] == [
        "blocks", "logs", "transactions",
    ]  # fmt: skip
    assert "s3://" not in answer.text
    answer = await get("/internal/datasets/blocks")
    told, found = DatasetPage.model_validate(answer.json()), await page(plane, "blocks")
    assert (told.versions, told.lineage) == (found.versions, found.lineage)
    assert told.detail.dataset_version == version_of(plane, "blocks")
    answer = await get("/internal/datasets/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_dataset")
    for path in ("/internal/datasets", "/internal/datasets/blocks"):
        assert (await get(path, headers={})).status_code == 401


SECRET = "ann@example.com"


async def test_a_page_does_not_repeat_what_errors_and_invalidations_say(
    plane: ControlPlane,
) -> None:
    """DuckDB's texts repeat values of rows, also of columns that are masked for those who query."""
    await plane.deploy()
    await fill(plane, (0, 9))
    request = InvalidateRequest(
        dataset="blocks", scope="partition", partition_key="0-9", reason=f"{SECRET} is wrong"
    )
    await invalidate(plane.dispatcher.state, plane.dispatcher.org_id, request)
    found = await page(plane, "blocks")
    assert "known to be wrong" in found.detail.answer
    assert SECRET not in found.model_dump_json()
    await plane.trigger(10, 19)
    (split,) = await take(plane)
    await finish(plane, split)
    (ingest,) = await take(plane)
    await plane.complete(
        ingest,
        status="Failed", error_code="invalid_query", error_message=SECRET, retryable=False,
    )  # fmt: skip
    found = await page(plane, "blocks")
    assert found.detail.state == "blocked"
    assert f"task {ingest.task.task_id} of chain.ingest failed for good" in found.detail.answer
    assert "[invalid_query]" in found.detail.answer
    assert SECRET not in found.model_dump_json()
    # Its owner is told.
    dispatcher = plane.dispatcher
    shown = await show_dataset(
        dispatcher.state,
        dispatcher.data,
        dispatcher.grants.bucket,
        dispatcher.org_id,
        "blocks",
        messages=True,
    )
    assert f"[invalid_query] {SECRET}" in shown.answer
