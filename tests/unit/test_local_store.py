"""What is promised survives a power cut: names, too, not only what stands under them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.io.parquet_file import ParquetFile

PREFIX = "s3://data/blocks/1/task/attempt/"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> dict[Path, set[str]]:
    """By folder: the names that were in it when it was last written to disk."""
    seen: dict[Path, set[str]] = {}
    really = os.fsync

    def fsync(opened: int) -> None:
        really(opened)
        path = Path(os.readlink(f"/proc/self/fd/{opened}"))
        if path.is_dir():
            seen[path] = {each.name for each in path.iterdir()}

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_an_object_and_every_folder_above_it_are_on_disk(
    tmp_path: Path, synced: dict[Path, set[str]]
) -> None:
    LocalStore(str(tmp_path)).put(PREFIX + "_SUCCESS", b"")
    folder = tmp_path / "data/blocks/1/task/attempt"
    assert synced[folder] == {"_SUCCESS"}
    while folder != tmp_path:
        assert folder.name in synced[folder.parent]
        folder = folder.parent
    assert tmp_path.parent not in synced


def test_files_are_on_disk_with_the_manifest_that_promises_them(
    tmp_path: Path, synced: dict[Path, set[str]]
) -> None:
    store = LocalStore(str(tmp_path))
    schema = pa.schema([("n", pa.int64())])
    with ParquetFile(store, PREFIX, "blocks_0_9.parquet", schema, frozenset()) as file:
        file.write(pa.RecordBatch.from_pydict({"n": [1]}, schema))
        file.close()
    store.put(PREFIX + "_manifest.json", b"{}")
    folder = tmp_path / "data/blocks/1/task/attempt"
    assert synced[folder] == {"blocks_0_9.parquet", "_manifest.json"}


def test_a_disk_that_does_not_answer_is_an_outage() -> None:
    # The first page of a process is nobody's: the kernel answers EIO, as a broken disk does.
    with pytest.raises(Unavailable, match="does not answer for s3://self/mem") as caught:
        LocalStore("/proc").get("s3://self/mem")
    assert caught.value.is_outage
