"""Which files executors read by themselves, and that they read what was asked for."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.encoded_logs import ALICE, BOB, POOL, TOKEN, log, logs
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import CorruptFile, MissingFile
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.decode.log_decode import _COLUMNS
from trace_platform.operators.decode.logs import MAY_LACK
from trace_platform.operators.decode.sorted_files import (
    RowGroup,
    SortedFiles,
    Unsorted,
    Wanted,
    in_parts,
    row_groups,
)
from trace_platform.wire.task import TaskInput

TRANSFER = "Transfer(address indexed from, address indexed to, uint256 value)"
# Four to a block, of two contracts in turns.
TABLE = logs(
    *(log(TRANSFER, ALICE, BOB, n, address=(TOKEN, POOL)[n % 2]) for n in range(200)), per_block=4
)
BACKWARDS = TABLE.take(list(reversed(range(200))))
TOPIC = TABLE["topic0"][0].as_py()
ALL = Wanted(_COLUMNS, MAY_LACK, None, None)
BLOCKS = BlockRange(3, 45)


class Files:
    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(str(folder))

    def given(self, *tables: pa.Table, size: int = 30, **changed: Any) -> TaskInput:
        uris = [f"s3://data/{n}.parquet" for n in range(len(tables))]
        for uri, table in zip(uris, tables, strict=True):
            path = Path(self.store.filesystem(uri)[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path, row_group_size=size)
        plain: dict[str, Any] = {"partition_key": "0-49", "start": 0, "end": 49, "files": uris}
        return TaskInput(
            input_index=0, dataset_uuid=uuid4(), dataset_version=uuid4(), **(plain | changed)
        )

    def groups(self, given: TaskInput, wanted: Wanted = ALL) -> list[RowGroup] | None:
        return row_groups([given], self.store, wanted, BLOCKS)

    def read(self, groups: list[RowGroup], wanted: Wanted = ALL, parts: int = 3) -> pa.Table:
        reader = SortedFiles(self.store, wanted, BLOCKS)
        batches = [b for part in in_parts(groups, parts) for b in reader.batches(part)]
        return pa.Table.from_batches(batches, _COLUMNS)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def numbers(table: pa.Table) -> list[int]:
    return [int.from_bytes(data, "big") for data in table["data"].to_pylist()]


def test_sorted_files_are_read_in_parts_of_whole_blocks(files: Files) -> None:
    for tables in ([TABLE], [TABLE.slice(100), TABLE.slice(0, 100)]):
        groups = files.groups(files.given(*tables))
        assert groups is not None
        parts = in_parts(groups, 3)
        assert 1 < len(parts) <= 3
        edges = [(part[0].blocks.start, part[-1].blocks.end) for part in parts]
        assert all(one[1] < other[0] for one, other in pairwise(edges))
        assert numbers(files.read(groups)) == list(range(12, 184))


def test_only_wanted_rows_are_read_and_columns_that_files_lack_are_null(files: Files) -> None:
    given = files.given(TABLE.drop_columns(["block_hash", "topic3"]))
    wanted = Wanted(_COLUMNS, MAY_LACK, [POOL], [TOPIC])
    groups = files.groups(given, wanted)
    assert groups is not None
    found = files.read(groups, wanted)
    assert numbers(found) == list(range(13, 184, 2))
    assert found["block_hash"].null_count == found["topic3"].null_count == found.num_rows
    assert files.read(groups, Wanted(_COLUMNS, MAY_LACK, None, [b"\x01" * 32])).num_rows == 0


def test_what_may_not_be_sorted_or_is_otherwise_is_left_to_spark(files: Files) -> None:
    other_type = TABLE.set_column(
        TABLE.schema.get_field_index("log_index"),
        "log_index",
        TABLE["log_index"].cast(pa.int32()),
    )
    letters = TABLE.append_column("Data", pa.array(["x"] * 200))
    left: dict[str, tuple[list[pa.Table], dict[str, Any]]] = {
        "backwards": ([BACKWARDS], {}),
        "a block in two files": ([TABLE.slice(0, 101), TABLE.slice(101)], {}),
        "the same rows twice": ([TABLE, TABLE], {}),
        "another type": ([other_type], {}),
        "no address": ([TABLE.drop_columns(["address"])], {}),
        "a name in other letters": ([letters], {}),
        "a table": ([TABLE], {"table": True}),
        "a filter": ([TABLE], {"where": {"log_index": 1}}),
        "no files": ([], {}),
    }
    for name, (tables, changed) in left.items():
        assert files.groups(files.given(*tables, **changed)) is None, name
    assert files.groups(files.given(TABLE.slice(0, 0))) == []


def test_rows_that_turn_out_not_to_be_sorted_are_refused(files: Files) -> None:
    within = TABLE.take([0, 2, 1, *range(3, 200)])
    for table in (BACKWARDS, within):
        groups = files.groups(files.given(table, size=1_000))
        assert groups is not None
        with pytest.raises(Unsorted):
            files.read(groups)


def test_a_file_that_is_gone_or_damaged_is_named(files: Files) -> None:
    given = files.given(TABLE, size=1_000)
    groups = files.groups(given)
    assert groups is not None
    path = Path(files.store.filesystem(given.files[0])[1])
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes(2_000) + whole[2_100:])
    with pytest.raises(CorruptFile, match="cannot be read"):
        files.read(groups)
    path.unlink()
    with pytest.raises(MissingFile, match="is not there"):
        files.read(groups)
