"""Reads again what manifests promise: that every file is there, and is what was written."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable
from typing import Literal
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from trace_platform.app.api_client import backfill_client, dataset_client
from trace_platform.app.instance.home import Home
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.wire.column_type import stored_name
from trace_platform.wire.dataset import DatasetFiles, PartitionFiles
from trace_platform.wire.manifest import (
    MANIFEST_NAME,
    SUCCESS_NAME,
    Manifest,
    ManifestFile,
    seal,
)

_PAGE = 1_000
_CHUNK_BYTES = 1 << 20

Kind = Literal["missing", "size", "content", "rows", "schema", "unreadable", "seal", "manifest"]
Seen = Callable[[int, int], None]


class Broken(BaseModel):
    """Something that is not as it was promised."""

    partition_key: str
    uri: str
    kind: Kind
    detail: str


class Verification(BaseModel):
    dataset: str
    dataset_version: UUID
    # The table whose cold part this is, when that was asked for: Postgres looks after its own rows.
    cold_of: str | None = None
    # What was looked at.
    partitions: int
    files: int
    bytes: int
    broken: list[Broken]
    # Partitions that are made anew, and the ids of what was said of them.
    invalidated: dict[str, UUID] = {}


def verify_dataset(
    home: Home,
    named: str,
    at: str | None = None,
    sample: int | None = None,
    seen: Seen = lambda done, total: None,
) -> Verification:
    """All partitions of a generation, of a table those of its cold part, or some that are chosen
    by chance. `seen` hears how many of them are done. Raise BadInput for a table without one."""
    listed = _listing(home, named, at)
    chosen = listed.partitions
    if sample is not None and sample < len(chosen):
        chosen = random.sample(chosen, sample)
    store = LocalStore(str(home.objects))
    broken: list[Broken] = []
    for done, partition in enumerate(chosen):
        seen(done, len(chosen))
        broken += verify_partition(store, partition)
    seen(len(chosen), len(chosen))
    return Verification(
        dataset=listed.dataset,
        dataset_version=listed.dataset_version,
        cold_of=listed.cold_of,
        partitions=len(chosen),
        files=sum(len(each.files) for each in chosen),
        bytes=sum(each.bytes for each in chosen),
        broken=broken,
    )


def invalidate_broken(home: Home, found: Verification) -> Verification:
    """Say of each broken partition that it is invalid, so that it is made anew."""
    if not dataset_client.files(home, found.dataset, str(found.dataset_version), None, 1).current:
        raise BadInput(
            f"generation {found.dataset_version} is not what readers of {found.dataset} see",
            hint="only the current generation is made anew; an old one can be purged",
        )
    said: dict[str, UUID] = {}
    for each in found.broken:
        if each.partition_key not in said:
            part = {"scope": "partition", "partition_key": each.partition_key}
            reason = f"verify: {each.kind}: {each.detail}"[:2_000]
            answer = backfill_client.invalidate(home, found.dataset, part, reason)
            said[each.partition_key] = answer.invalidation_id
    return found.model_copy(update={"invalidated": said})


def verify_partition(store: ObjectStore, partition: PartitionFiles) -> list[Broken]:
    """What of it is not as promised."""
    found = _Found(partition.partition_key)
    # A webhook's delivery is one file, and has no manifest.
    manifest = None if partition.task_id is None else _check_manifest(store, partition, found)
    for file in partition.files:
        _check_file(store, partition.location + file.name, file, manifest, found)
    return found.broken


class _Found:
    def __init__(self, partition_key: str) -> None:
        self._key = partition_key
        self.broken: list[Broken] = []

    def add(self, uri: str, kind: Kind, detail: str) -> None:
        self.broken.append(Broken(partition_key=self._key, uri=uri, kind=kind, detail=detail))


def _listing(home: Home, named: str, at: str | None) -> DatasetFiles:
    """All pages as one. Of one generation, whatever becomes current meanwhile."""
    page = dataset_client.files(home, named, at, None, _PAGE)
    partitions, cold_of = list(page.partitions), page.cold_of
    while page.next is not None:
        version = str(page.dataset_version)
        page = dataset_client.files(home, page.dataset, version, page.next, _PAGE)
        partitions += page.partitions
    return page.model_copy(update={"partitions": partitions, "cold_of": cold_of})


def _check_manifest(
    store: ObjectStore, partition: PartitionFiles, found: _Found
) -> Manifest | None:
    uri, sealed = partition.location + MANIFEST_NAME, partition.location + SUCCESS_NAME
    body, said = _get(store, uri), _get(store, sealed)
    if body is None:
        found.add(uri, "missing", "there is no manifest")
        return None
    if said is None:
        found.add(sealed, "missing", "the manifest is not sealed")
    elif said != seal(body):
        found.add(sealed, "seal", "it does not seal the manifest beside it")
    try:
        manifest = Manifest.model_validate_json(body)
    except ValidationError as error:
        found.add(uri, "manifest", f"it is no manifest: {error.errors()[0]['msg']}")
        return None
    if _promised(partition) != _said(manifest):
        found.add(uri, "manifest", "it is not the one that was committed")
        return None
    return manifest


def _get(store: ObjectStore, uri: str) -> bytes | None:
    try:
        return store.get(uri)
    except NotFound:
        return None


def _promised(partition: PartitionFiles) -> tuple[object, ...]:
    return partition.partition_key, partition.files, partition.rows, partition.schema_hash


def _said(manifest: Manifest) -> tuple[object, ...]:
    return manifest.partition_key, manifest.files, manifest.rows, manifest.schema_hash


def _check_file(
    store: ObjectStore, uri: str, file: ManifestFile, manifest: Manifest | None, found: _Found
) -> None:
    size = store.size(uri)
    if size is None:
        found.add(uri, "missing", "there is no such file")
        return
    if size != file.bytes:
        found.add(uri, "size", f"it has {size:,} bytes, not {file.bytes:,}")
    elif (digest := _sha256(store, uri)) != file.sha256:
        found.add(uri, "content", f"its SHA-256 is {digest}, not {file.sha256}")
    _check_footer(store, uri, file, manifest, found)


def _check_footer(
    store: ObjectStore, uri: str, file: ManifestFile, manifest: Manifest | None, found: _Found
) -> None:
    filesystem, path = store.filesystem(uri)
    try:
        footer = pq.read_metadata(path, filesystem=filesystem)
        schema = footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        found.add(uri, "unreadable", str(error).replace(path, uri))
        return
    if footer.num_rows != file.rows:
        found.add(uri, "rows", f"it has {footer.num_rows:,} rows, not {file.rows:,}")
    there = [(field.name, stored_name(str(field.type)), field.nullable) for field in schema]
    columns = manifest.columns if manifest else []
    said = [(column.name, stored_name(column.type), column.nullable) for column in columns]
    if said and there != said:
        odd = next(b or a for a, b in itertools.zip_longest(said, there) if a != b)
        found.add(uri, "schema", f"its columns are not those of the manifest: {odd}")


def _sha256(store: ObjectStore, uri: str) -> str:
    digest = hashlib.sha256()
    filesystem, path = store.filesystem(uri)
    with filesystem.open_input_stream(path) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
