"""Committed files of a chain's tables, partition by partition."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pydantic import ValidationError

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import CorruptFile, InvalidConfig, NotFound, Unavailable
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.wire.manifest import MANIFEST_NAME, Manifest
from trace_platform.wire.task import TaskInput

_RANGE = re.compile(r"^(.*)_(\d{1,18})_(\d{1,18})(?:\.\d+)?\.parquet$")
# Of a table, in order: the first column that only it has.
_TELLING = (("logs", "log_index"), ("traces", "trace_address"), ("transactions", "nonce"))
_BYTES_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class Partition:
    """What one attempt committed of one table, and the blocks that it is of."""

    given: TaskInput
    table: str
    location: str
    files: tuple[str, ...]  # in the order of their blocks
    blocks: BlockRange


class Unreadable(Exception):
    """Files whose bytes are there, or known to be lost, and that are no Parquet any more."""

    def __init__(self, partition: Partition, file: str, why: str, *, is_missing: bool) -> None:
        super().__init__(why)
        self.partition = partition
        self.file = file
        self.why = why
        self.is_missing = is_missing


def partitions_of(given: TaskInput, store: ObjectStore) -> list[Partition]:
    """The input's files by partition, in the order of their blocks."""
    by_location: dict[str, list[str]] = defaultdict(list)
    for uri in given.files:
        folder, _, _ = uri.rpartition("/")
        by_location[folder + "/"].append(uri)
    table = _table(given, store)
    found = [
        Partition(given, table, location, tuple(sorted(files, key=_order)), blocks)
        for location, files in by_location.items()
        for blocks in [_blocks(given, store, location, files)]
    ]
    return sorted(found, key=lambda partition: partition.blocks)


def key_batches(
    partition: Partition, store: ObjectStore, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """These columns of all its rows, in the order of the files. Raise Unreadable."""
    with _readable(partition, store):
        dataset = _dataset(partition, store)
        if lacking := sorted(set(columns) - set(dataset.schema.names)):
            raise InvalidConfig(
                f"{partition.table} of blocks {partition.blocks.key} lack {', '.join(lacking)}",
                hint="check files that cryo_ingest or parquet_compact wrote",
            )
        yield from dataset.to_batches(columns=list(columns), **_FRUGAL)


def rows(partition: Partition, store: ObjectStore, spans: Sequence[BlockRange]) -> pa.Table:
    """All columns of the rows of these blocks, in one pass over the files. Raise Unreadable."""
    number = ds.field("block_number")
    within = (number >= spans[0].start) & (number <= spans[-1].end)
    if len(spans) > 1:
        wanted = [n for span in spans for n in range(span.start, span.end + 1)]
        within &= number.isin(pa.array(wanted, pa.int64()))
    with _readable(partition, store):
        return _dataset(partition, store).to_table(filter=within, **_FRUGAL)


# What is read ahead is memory.
_FRUGAL: dict[str, Any] = {"use_threads": False, "batch_readahead": 1, "fragment_readahead": 1}


def _dataset(partition: Partition, store: ObjectStore) -> ds.Dataset:
    places = [store.filesystem(uri) for uri in partition.files]
    return ds.dataset([path for _, path in places], filesystem=places[0][0], format="parquet")


@contextmanager
def _readable(partition: Partition, store: ObjectStore) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise _diagnosis(partition, store, error) from None


def _diagnosis(partition: Partition, store: ObjectStore, error: Exception) -> Exception:
    """A store that does not answer is not a broken file: that is one whose bytes can be had."""
    promised = _promised(store, partition.location)
    for uri in partition.files:
        try:
            found = _sha256(store, uri)
        except FileNotFoundError:
            return Unreadable(partition, uri, "the file is gone", is_missing=True)
        except OSError as refusal:
            said = f"the store does not give {uri}: {_one_line(refusal)}"
            return Unavailable(said, outage=True)
        name = uri.removeprefix(partition.location)
        if promised.get(name, found) != found:
            why = f"its sha256 is {found}, the manifest says {promised[name]}"
            return Unreadable(partition, uri, why, is_missing=False)
    if promised:
        # Made anew it would be the same.
        said = f"files of {partition.location} are as they were written and cannot be read"
        return CorruptFile(f"{said}: {_one_line(error)}")
    why = f"it cannot be read: {_one_line(error)}"
    return Unreadable(partition, partition.files[0], why, is_missing=False)


def _promised(store: ObjectStore, location: str) -> dict[str, str]:
    manifest = _manifest(store, location)
    return {file.name: file.sha256 for file in manifest.files} if manifest else {}


def _sha256(store: ObjectStore, uri: str) -> str:
    digest = hashlib.sha256()
    filesystem, path = store.filesystem(uri)
    with filesystem.open_input_stream(path) as stream:
        while piece := stream.read(_BYTES_AT_ONCE):
            digest.update(piece)
    return digest.hexdigest()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _table(given: TaskInput, store: ObjectStore) -> str:
    """By the columns of the first file that tells them, else by its name."""
    for uri in given.files:
        try:
            filesystem, path = store.filesystem(uri)
            names = pq.read_schema(path, filesystem=filesystem).names
        except (pa.ArrowException, OSError):
            continue
        return _of_columns(given, names)
    named = {match[1] for uri in given.files if (match := _RANGE.match(uri.rpartition("/")[2]))}
    if len(named) == 1:
        return named.pop()
    raise InvalidConfig(f"no file of input {given.input_index} tells which table it is of")


def _of_columns(given: TaskInput, names: list[str]) -> str:
    if {"block_number", "block_hash"} <= set(names):
        return next((table for table, column in _TELLING if column in names), "blocks")
    raise InvalidConfig(
        f"input {given.input_index} is no table of a chain: it lacks block_number or block_hash",
        hint="check the tables of a chain as cryo_ingest or parquet_compact write them",
    )


def _blocks(
    given: TaskInput, store: ObjectStore, location: str, files: Sequence[str]
) -> BlockRange:
    manifest = _manifest(store, location)
    if manifest is not None and manifest.start is not None and manifest.end is not None:
        return BlockRange(manifest.start, manifest.end)
    named = [_order(uri)[:2] for uri in files if _RANGE.match(uri.rpartition("/")[2])]
    if len(named) == len(files):
        return BlockRange(min(start for start, _ in named), max(end for _, end in named))
    if given.start is not None and given.end is not None:
        return BlockRange(given.start, given.end)
    raise InvalidConfig(f"nothing tells of which blocks {location} is")


def _manifest(store: ObjectStore, location: str) -> Manifest | None:
    try:
        return Manifest.model_validate_json(store.get(location + MANIFEST_NAME))
    except (NotFound, ValidationError):
        return None


def _order(uri: str) -> tuple[int, int, str]:
    match = _RANGE.match(uri.rpartition("/")[2])
    return (int(match[2]), int(match[3]), uri) if match else (0, 0, uri)
