"""Whatever happened to a committed file is found, and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_platform.app.verify_dataset import verify_partition
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.io.parquet_file import ParquetFile
from trace_platform.operators.staging import seal_output
from trace_platform.wire.dataset import PartitionFiles
from trace_platform.wire.manifest import Manifest
from trace_platform.wire.task import TaskOutput

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("note", pa.string())])
PREFIX = "s3://data/rows/"
OUTPUT = TaskOutput(
    output_index=0, name="rows", dataset_uuid=uuid4(), dataset_version=uuid4(), prefix=PREFIX
)


def staged(root: Path) -> tuple[LocalStore, PartitionFiles]:
    """Two files, as an operator writes and the Dispatcher lists them."""
    store, files = LocalStore(str(root)), []
    for name, values in (("a.parquet", range(5)), ("b.parquet", range(5, 10))):
        with ParquetFile(store, PREFIX, name, SCHEMA, frozenset()) as file:
            notes = [str(n) for n in values]
            file.write(pa.record_batch([pa.array(values, pa.int64()), notes], schema=SCHEMA))
            files.append(file.close())
    seal_output(store, OUTPUT, BlockRange(0, 9), files, SCHEMA)
    return store, listed(store)


def listed(store: LocalStore) -> PartitionFiles:
    manifest = Manifest.model_validate_json(store.get(f"{PREFIX}_manifest.json"))
    return PartitionFiles(
        **manifest.model_dump(exclude={"columns"}), location=PREFIX, task_id=uuid4()
    )


def flip(folder: Path) -> None:
    body = bytearray((folder / "a.parquet").read_bytes())
    body[6] ^= 1
    (folder / "a.parquet").write_bytes(body)


def truncate(folder: Path) -> None:
    body = (folder / "a.parquet").read_bytes()
    (folder / "a.parquet").write_bytes(body[:-20])


def delete(folder: Path) -> None:
    (folder / "a.parquet").unlink()


def swap(folder: Path) -> None:
    (folder / "a.parquet").rename(folder / "c")
    (folder / "b.parquet").rename(folder / "a.parquet")
    (folder / "c").rename(folder / "b.parquet")


def rewrite(folder: Path) -> None:
    """Another, well-formed file: fewer rows, and a column of another type."""
    pq.write_table(pa.table({"n": ["1"], "note": ["x"]}), folder / "a.parquet")


def unseal(folder: Path) -> None:
    (folder / "_SUCCESS").unlink()


def reseal(folder: Path) -> None:
    (folder / "_SUCCESS").write_bytes(b"0" * 64 + b"\n")


def forge(folder: Path) -> None:
    body = (folder / "_manifest.json").read_bytes()
    (folder / "_manifest.json").write_bytes(body.replace(b'"rows":5', b'"rows":6', 1))


def lose_manifest(folder: Path) -> None:
    (folder / "_manifest.json").unlink()


def test_what_is_whole_is_as_promised(tmp_path: Path) -> None:
    assert verify_partition(*staged(tmp_path)) == []


def test_columns_that_a_file_names_otherwise_are_as_promised(tmp_path: Path) -> None:
    """Parquet counts no seconds, and calls what is in a list by a name of its own."""
    kinds = [pa.timestamp("s"), pa.time32("s"), pa.list_(pa.field("l", pa.int64()))]
    kinds += [pa.map_(pa.string(), pa.list_(pa.int32())), pa.list_(pa.float32(), 2)]
    schema = pa.schema([(f"c{n}", kind) for n, kind in enumerate(kinds)])
    store = LocalStore(str(tmp_path))
    with ParquetFile(store, PREFIX, "a.parquet", schema, frozenset()) as file:
        files = [file.close()]
    seal_output(store, OUTPUT, BlockRange(0, 9), files, schema)
    assert verify_partition(store, listed(store)) == []


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (flip, {("a.parquet", "content")}),
        (truncate, {("a.parquet", "size"), ("a.parquet", "unreadable")}),
        (delete, {("a.parquet", "missing")}),
        (swap, {("a.parquet", "content"), ("b.parquet", "content")}),
        (rewrite, {("a.parquet", "size"), ("a.parquet", "rows"), ("a.parquet", "schema")}),
        (unseal, {("_SUCCESS", "missing")}),
        (reseal, {("_SUCCESS", "seal")}),
        (forge, {("_SUCCESS", "seal"), ("_manifest.json", "manifest")}),
        (lose_manifest, {("_manifest.json", "missing")}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_damage_is_found_and_named(
    tmp_path: Path, damage: Callable[[Path], None], expected: set[tuple[str, str]]
) -> None:
    store, partition = staged(tmp_path)
    damage(tmp_path / "data" / "rows")
    found = verify_partition(store, partition)
    assert {(each.uri.removeprefix(PREFIX), each.kind) for each in found} == expected
    assert {each.partition_key for each in found} == {"0-9"}
    assert all(str(tmp_path) not in each.detail for each in found), "paths are ours alone"


def test_a_delivery_has_no_manifest_to_miss(tmp_path: Path) -> None:
    store, partition = staged(tmp_path)
    unseal(tmp_path / "data" / "rows")
    delivery = partition.model_copy(update={"task_id": None})
    assert verify_partition(store, delivery) == []
