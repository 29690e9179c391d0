"""Seal a staged output: `_manifest.json`, then `_SUCCESS`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.io.parquet_columns import merge_of
from trace_platform.operators.io.parquet_file import WrittenFile
from trace_platform.wire.manifest import (
    MANIFEST_NAME,
    SUCCESS_NAME,
    Manifest,
    ManifestColumn,
    ManifestFile,
    schema_hash,
    seal,
)
from trace_platform.wire.task import OutputCommit, TaskOutput


def seal_output(
    store: ObjectStore,
    output: TaskOutput,
    blocks: BlockRange | str,
    files: Sequence[WrittenFile],
    schema: pa.Schema,
) -> OutputCommit:
    """Promise exactly these files of the prefix; others in it were left by a crash and are not
    part of the output. Each has the columns of `schema`. `_SUCCESS` comes last: a prefix without
    it is not complete. A partition that is no range of blocks is given by its key."""
    place = _place(blocks)
    columns = manifest_columns(schema)
    manifest = Manifest(
        **place,
        files=[_listed(file) for file in files],
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
        schema_hash=schema_hash(columns),
        columns=columns,
    )
    body = manifest.to_bytes()
    store.put(output.prefix + MANIFEST_NAME, body)
    store.put(output.prefix + SUCCESS_NAME, seal(body))
    return OutputCommit(
        output_index=output.output_index,
        dataset_uuid=output.dataset_uuid,
        dataset_version=output.dataset_version,
        location=output.prefix,
        **place,
        row_count=manifest.rows,
    )


def manifest_columns(schema: pa.Schema) -> list[ManifestColumn]:
    return [
        ManifestColumn(
            name=field.name,
            type=str(field.type),
            nullable=field.nullable,
            merge=merge_of(field),
        )
        for field in schema
    ]


def _place(blocks: BlockRange | str) -> dict[str, Any]:
    if isinstance(blocks, str):
        return {"partition_key": blocks}
    return {"partition_key": blocks.key, "start": blocks.start, "end": blocks.end}


def _listed(file: WrittenFile) -> ManifestFile:
    return ManifestFile(name=file.name, bytes=file.bytes, rows=file.rows, sha256=file.sha256)
