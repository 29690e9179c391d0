"""Columns that are added flow on; any other change needs a new generation, and says so."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.support.control_plane import stage
from tests.support.pipeline import Job, Pipeline
from tests.support.staged_rows import stage_rows
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.datasets.show_dataset import show_dataset
from trace_platform.domain.errors import IncompatibleSchema
from trace_platform.wire.manifest import Manifest, ManifestColumn
from trace_platform.wire.merge_columns import merge_columns
from trace_platform.wire.query import DatasetRef, ResolveRequest
from trace_platform.wire.task import Claimed

pytestmark = pytest.mark.anyio


def field(name: str, kind: Any = None, *, required: bool = False) -> pa.Field:
    return pa.field(name, kind or pa.int64(), nullable=not required)


N, NOTE = field("n", required=True), field("note", pa.string())


def rows(*fields: pa.Field) -> pa.Table:
    values = {"int64": 1, "string": "x", "double": 1.0}
    columns = [pa.array([values[str(each.type)]], each.type) for each in fields]
    return pa.table(columns, schema=pa.schema(list(fields)))


async def commit(pipe: Pipeline, start: int, *fields: pa.Field) -> Claimed:
    claimed = await started(pipe, start)
    await pipe.plane.complete(
        claimed, outputs=[stage_rows(pipe.plane.dispatcher.store, claimed, rows(*fields))]
    )
    return claimed


async def started(pipe: Pipeline, start: int) -> Claimed:
    await pipe.trigger((start, start + 9))
    (claimed,) = await pipe.claim()
    return claimed


async def columns(pipe: Pipeline) -> list[str]:
    dispatcher = pipe.plane.dispatcher
    shown = await show_dataset(
        dispatcher.state, dispatcher.data, dispatcher.grants.bucket, dispatcher.org_id, "p_a"
    )
    return [f"{name} {said['type']}" for name, said in (shown.columns or {}).items()]


def committed(pipe: Pipeline) -> list[str]:
    found = pipe.plane.sql("SELECT partition_key FROM partition_versions ORDER BY range_start")
    return [row["partition_key"] for row in found]


async def test_nullable_columns_that_come_and_are_missing_flow_on(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    await commit(pipe, 0, N)
    assert await columns(pipe) == ["n int64"]
    await commit(pipe, 10, NOTE, N, field("x", pa.float64()))
    # Staged by an older operator: without the new columns.
    await commit(pipe, 20, N)
    assert await columns(pipe) == ["n int64", "note string", "x double"]
    assert committed(pipe) == ["0-9", "10-19", "20-29"]
    dispatcher, request = pipe.plane.dispatcher, ResolveRequest(datasets=[DatasetRef(name="p_a")])
    (resolved,) = (await resolve_datasets(dispatcher.state, dispatcher.org_id, request)).datasets
    assert [(c.name, c.type) for c in resolved.columns or []] == [
        ("n", "BIGINT"),
        ("note", "VARCHAR"),
        ("x", "DOUBLE"),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((field("n", pa.string(), required=True), NOTE), ["'n'", "string", "int64"]),
        ((NOTE,), ["'n'", "required and missing"]),
        ((N, NOTE, field("m", required=True)), ["'m'", "new and required"]),
        ((N, NOTE, field("Note", pa.string())), ["'note'", "'Note'", "case"]),
    ],
    ids=["type", "dropped", "new and required", "case"],
)
async def test_any_other_change_is_refused_and_commits_nothing(
    pipe: Pipeline, change: tuple[pa.Field, ...], words: list[str]
) -> None:
    await pipe.deploy({"a": Job()})
    await commit(pipe, 0, N, NOTE)
    with pytest.raises(IncompatibleSchema) as refused:
        await commit(pipe, 10, *change)
    assert all(word in refused.value.message for word in words), refused.value.message
    assert "new generation" in str(refused.value.hint)
    assert "trace plan" in str(refused.value.hint)
    assert (refused.value.code, refused.value.retryable) == ("incompatible_schema", False)
    assert committed(pipe) == ["0-9"]
    assert await columns(pipe) == ["n int64", "note string"]


@pytest.mark.parametrize("first", ["required", "optional"])
async def test_a_column_is_nullable_once_any_commit_says_so(pipe: Pipeline, first: str) -> None:
    await pipe.deploy({"a": Job()})
    said = [(N,), (field("n"),)]
    for start, change in enumerate(said if first == "required" else reversed(said)):
        await commit(pipe, 10 * start, *change)
    (row,) = pipe.plane.sql("SELECT columns FROM dataset_versions WHERE columns IS NOT NULL")
    assert row["columns"] == [{"name": "n", "type": "int64", "nullable": True}]


async def test_a_new_generation_may_have_any_columns(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    await commit(pipe, 0, N)
    await pipe.deploy({"a": Job(revision=2)})
    (claimed,) = await pipe.claim()
    table = rows(field("n", pa.string(), required=True))
    await pipe.plane.complete(
        claimed, outputs=[stage_rows(pipe.plane.dispatcher.store, claimed, table)]
    )
    await pipe.settle()
    assert await columns(pipe) == ["n string"]


async def test_who_does_not_say_his_columns_is_known_by_his_hash(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()})
    store = pipe.plane.dispatcher.store
    for start in (0, 10):
        claimed = await started(pipe, start)
        await pipe.plane.complete(claimed, outputs=[stage(store, claimed, 0, start, start + 9)])
    with pytest.raises(IncompatibleSchema, match="does not say its columns"):
        await commit(pipe, 20, N)
    assert committed(pipe) == ["0-9", "10-19"]


async def test_a_manifest_from_before_columns_is_read(pipe: Pipeline) -> None:
    old = (
        b'{"partition_key":"0-9","start":0,"end":9,"files":[],"rows":0,"bytes":0,'
        b'"schema_hash":"' + b"0" * 64 + b'"}'
    )
    assert Manifest.model_validate_json(old).columns == []


def test_names_that_differ_in_case_alone_clash_in_the_first_commit_too() -> None:
    given = [ManifestColumn(name=name, type="int64", nullable=True) for name in ("a", "A")]
    with pytest.raises(IncompatibleSchema, match="case"):
        merge_columns([], given)
