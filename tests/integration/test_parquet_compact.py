"""Hot tables and cold files are one dataset, and compaction never puts less over more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from tests.support.frame_task import FrameTasks, given, output
from tests.support.linked_chain import LinkedChain
from tests.support.shared_data import SharedData, shared_data
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_reader import snapshot
from trace_platform.data.hot_tables import trim
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, RangeIncomplete, RangeNotReady
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators import frames
from trace_platform.operators.ingest.parquet_compact import Config, ParquetCompact
from trace_platform.operators.io.trim_hot import trim_committed
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.operators.transform.sql_transform import Config as Transform
from trace_platform.operators.transform.sql_transform import SqlTransform

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

pytestmark = pytest.mark.spark

Cold = tuple[list[str], list[str]]
NOTHING: Cold = ([], [])


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[SharedData]:
    with shared_data(postgres) as made:
        yield made


@pytest.fixture
def chain(data: SharedData) -> LinkedChain:
    return LinkedChain(DataDatabase(data.writer))


@pytest.fixture
def tasks(spark_runtime: SparkRuntime, chain: LinkedChain, tmp_path: Path) -> FrameTasks:
    return FrameTasks(spark_runtime, LocalStore(str(tmp_path / "store")), chain.database)


def compact(
    tasks: FrameTasks, chain: LinkedChain, start: int, end: int, cold: Cold, **config: Any
) -> Cold:
    """The files that were written for blocks and for logs."""
    outputs = [output(0, "blocks"), output(1, "logs")]
    settings = Config.model_validate(config)
    with tasks.task(chain.inputs(start, end, cold), outputs, settings) as task:
        commits = ParquetCompact().run(task).outputs
    blocks, logs = (tasks.files(commit) for commit in commits)
    return blocks, logs


def held(tasks: FrameTasks, files: Cold) -> tuple[pa.Table, pa.Table]:
    blocks, logs = (
        pa.concat_tables(pa.parquet.read_table(tasks.path(uri)) for uri in each) for each in files
    )
    return blocks, logs


def expect(chain: LinkedChain, start: int, end: int) -> tuple[Any, Any]:
    return chain.block_rows(start, end).to_pylist(), chain.log_rows(start, end).to_pylist()


def same(tasks: FrameTasks, chain: LinkedChain, start: int, end: int, files: Cold) -> bool:
    blocks, logs = held(tasks, files)
    return (blocks.to_pylist(), logs.to_pylist()) == expect(chain, start, end)


def first_block(chain: LinkedChain) -> int | None:
    with snapshot(chain.database, chain.versions) as seen:
        extents = {seen.extent(version).first_block for version in chain.versions}
    (first,) = extents
    return first


def test_a_range_of_hot_tables_becomes_files_that_hold_the_same_rows(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    chain.write(0, 49)
    files = compact(tasks, chain, 10, 29, NOTHING)
    assert [Path(uri).name for each in files for uri in each] == [
        "blocks_10_29.parquet",
        "logs_10_29.parquet",
    ]
    assert same(tasks, chain, 10, 29, files)
    assert first_block(chain) == 0


def test_a_bucket_in_which_a_table_begins_has_the_rows_from_there_on(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    """A chain is followed from some block on, and buckets are cut without regard to it."""
    chain.write(15, 29)
    sql = "select count(*) as n, min(block_number) as first from blocks"
    config = Transform.model_validate(
        {"mode": "window", "window": {"every_blocks": 10, "before": 10}, "sql": sql}
    )

    def made(start: int, end: int, cold: Cold) -> list[dict[str, Any]]:
        blocks = chain.inputs(start, end, cold)[1].model_copy(
            update={"input_index": 0, "names": ["blocks"], "start": max(start - 10, 0)}
        )
        woken = given(0, start, end, dataset_version=blocks.dataset_version, table=True)
        with tasks.task([woken, blocks], [output()], config) as task:
            return tasks.read(SqlTransform().run(task).outputs[0]).to_pylist()

    assert made(10, 19, NOTHING) == [{"n": 5, "first": 15}]
    assert made(20, 29, NOTHING) == [{"n": 15, "first": 15}]
    with pytest.raises(RangeNotReady, match="neither in the table"):
        made(0, 9, NOTHING)
    # What has left the table is still asked for.
    trim(chain.database, chain.versions, 24, chain.hashes(15, 24))
    with pytest.raises(RangeNotReady, match="blocks 15-24 of input 0 are neither in the table"):
        made(20, 29, NOTHING)


def test_compacted_twice_the_rows_are_the_same(tasks: FrameTasks, chain: LinkedChain) -> None:
    chain.write(0, 49)
    once = compact(tasks, chain, 10, 29, NOTHING)
    again = compact(tasks, chain, 10, 29, once)
    trim(chain.database, chain.versions, 19, chain.hashes(0, 19))
    half_cold = compact(tasks, chain, 10, 29, again)
    trim(chain.database, chain.versions, 39, chain.hashes(20, 39))
    all_cold = compact(tasks, chain, 10, 29, half_cold)
    for files in (once, again, half_cold, all_cold):
        assert same(tasks, chain, 10, 29, files)


def test_after_a_deep_reorg_the_past_comes_from_files_and_the_rest_from_the_table(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    chain.write(0, 49)
    files = compact(tasks, chain, 0, 39, NOTHING)
    trim(chain.database, chain.versions, 39, chain.hashes(0, 39))
    chain.forked_at = 25
    chain.write(25, 49)
    assert first_block(chain) == 25
    assert same(tasks, chain, 0, 39, compact(tasks, chain, 0, 39, files))


def test_ranges_of_one_table_may_lie_on_both_sides_of_the_seam(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    chain.write(0, 29)
    cold = compact(tasks, chain, 0, 9, NOTHING)
    trim(chain.database, chain.versions, 9, chain.hashes(0, 9))
    blocks = [chain.inputs(12, 14, NOTHING)[1], chain.inputs(3, 5, cold)[1]]
    with tasks.task(blocks, []) as task, frames.opened(task) as data, data.actions():
        found = data.read(1).toArrow()
    assert sorted(found["block_number"].to_pylist()) == [3, 4, 5, 12, 13, 14]


def test_a_task_reads_one_moment_whatever_the_writer_does_meanwhile(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    chain.write(0, 29)
    cold = compact(tasks, chain, 0, 9, NOTHING)
    trim(chain.database, chain.versions, 9, chain.hashes(0, 9))
    before = expect(chain, 5, 25)
    with tasks.task(chain.inputs(5, 25, cold), []) as task, frames.opened(task) as data:
        blocks = data.read(1)
        trim(chain.database, chain.versions, 14, chain.hashes(10, 14))
        chain.forked_at = 7
        chain.write(7, 40)
        logs = data.read(2)
        with data.actions():
            found = [
                frame.toArrow().sort_by([(c, "ascending") for c in order]).to_pylist()
                for frame, order in (
                    (blocks, ["block_number"]),
                    (logs, ["block_number", "log_index"]),
                )
            ]
    assert tuple(found) == before


def test_files_that_do_not_reach_up_to_the_table_are_asked_for_again(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    """Between the claim and the snapshot another task's rows left the table."""
    chain.write(0, 29)
    cold = compact(tasks, chain, 0, 9, NOTHING)
    trim(chain.database, chain.versions, 19, chain.hashes(0, 19))
    for wanted in (
        lambda: compact(tasks, chain, 5, 25, cold),
        lambda: read_blocks(tasks, chain, cold),
    ):
        with pytest.raises(
            RangeNotReady, match=r"blocks 10-19 of input 1 are neither in the table"
        ) as e:
            wanted()
        assert e.value.retryable


def read_blocks(tasks: FrameTasks, chain: LinkedChain, cold: Cold) -> None:
    with tasks.task(chain.inputs(5, 25, cold), []) as task, frames.opened(task) as data:
        data.read(1)


def test_a_table_that_is_not_there_or_not_so_far_yet_is_waited_for(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    with pytest.raises(RangeNotReady, match="no hot table"):
        compact(tasks, chain, 0, 9, NOTHING, delete_from_hot=True)
    chain.write(0, 5)
    with pytest.raises(RangeNotReady, match=r"does not have blocks 6-9 of 0-9 yet"):
        compact(tasks, chain, 0, 9, NOTHING)


def test_files_that_are_wrong_are_no_source_of_what_has_left_the_table(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    chain.write(0, 29)
    cold = compact(tasks, chain, 0, 9, NOTHING)
    trim(chain.database, chain.versions, 9, chain.hashes(0, 9))
    woke, *reads = chain.inputs(0, 9, cold)
    said = [woke.model_copy(update={"invalidation": uuid4()}), *reads]
    outputs = [output(0, "blocks"), output(1, "logs")]
    with tasks.task(said, outputs, Config()) as task, pytest.raises(InvalidConfig) as refused:
        ParquetCompact().run(task)
    assert "have left the table" in refused.value.message
    assert "rpc_pool" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM {} WHERE block_number = 5", "9 rows of 0 to 9, 1 of them no child"),
        ("DELETE FROM {} WHERE block_number = 0", "9 rows of 1 to 9, 0 of them no child"),
        ("DELETE FROM {}", "0 rows of None to None"),
        ("UPDATE {} SET parent_hash = 'x' WHERE block_number = 5", "10 rows of 0 to 9, 1 of them"),
    ],
)
def test_a_hole_is_never_written_over_good_data(
    tasks: FrameTasks, chain: LinkedChain, data: SharedData, damage: str, said: str
) -> None:
    chain.write(0, 9)
    with psycopg.connect(data.owner, autocommit=True) as owner:
        owner.execute(damage.format(f"dataset_{chain.blocks.dataset_version.hex}").encode())
    with pytest.raises(RangeIncomplete, match=said) as caught:
        compact(tasks, chain, 0, 9, NOTHING)
    assert not caught.value.retryable
    assert not tasks.path("s3://data/out/").exists()


def test_rows_leave_the_table_once_an_earlier_task_has_committed_them(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    chain.write(0, 49)
    first = compact(tasks, chain, 0, 19, NOTHING, delete_from_hot=True)
    assert first_block(chain) == 0
    second = compact(tasks, chain, 20, 39, first, delete_from_hot=True, keep_blocks=35)
    assert first_block(chain) == 15
    both = (first[0] + second[0], first[1] + second[1])
    # Its own range is read again, and replaced: it stays.
    assert same(tasks, chain, 20, 39, compact(tasks, chain, 20, 39, both, delete_from_hot=True))
    assert first_block(chain) == 20


def test_nothing_leaves_the_table_that_is_not_committed_for_every_table(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    chain.write(0, 49)
    blocks, logs = ([stored(tasks, chain, name, 0, 19)] for name in ("blocks", "logs"))
    late = ([stored(tasks, chain, "blocks", 25, 29)], [stored(tasks, chain, "logs", 25, 29)])
    for cold in (NOTHING, (blocks, []), ([], logs), late):
        assert trimmed(tasks, chain, BlockRange(30, 39), cold) == 0
        assert first_block(chain) == 0
    both = (blocks + late[0], logs + late[1])
    assert trimmed(tasks, chain, BlockRange(30, 39), both) == 20 + 20
    assert first_block(chain) == 20


def stored(tasks: FrameTasks, chain: LinkedChain, name: str, start: int, end: int) -> str:
    rows = {"blocks": chain.block_rows, "logs": chain.log_rows}[name](start, end)
    return tasks.file(f"{name}_{start}_{end}", rows)


def trimmed(tasks: FrameTasks, chain: LinkedChain, blocks: BlockRange, cold: Cold) -> int:
    inputs = chain.inputs(blocks.start, blocks.end, cold)
    with tasks.task(inputs, []) as task:
        return trim_committed(task, inputs[1:], blocks, keep_blocks=0)


def test_files_of_another_fork_take_nothing_from_the_table_and_fail_nothing(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    chain.write(0, 49)
    stale = compact(tasks, chain, 0, 19, NOTHING)
    chain.forked_at = 10
    chain.write(10, 49)
    files = compact(tasks, chain, 20, 39, stale, delete_from_hot=True)
    assert "nothing_trimmed" in tasks.log
    assert first_block(chain) == 0
    assert same(tasks, chain, 20, 39, files)


def test_many_small_files_become_one(tasks: FrameTasks, chain: LinkedChain) -> None:
    small = [tasks.file(f"blocks_{n}_{n}", chain.block_rows(n, n)) for n in range(20)]
    inputs = [given(0, 5, 14), given(1, 5, 14, small, trigger=False)]
    with tasks.task(inputs, [output(0, "blocks")], Config()) as task:
        (commit,) = ParquetCompact().run(task).outputs
    assert [file.name for file in tasks.manifest(commit).files] == ["blocks_5_14.parquet"]
    assert tasks.read(commit).to_pylist() == chain.block_rows(5, 14).to_pylist()


def test_files_of_a_part_of_the_range_are_waited_for(tasks: FrameTasks, chain: LinkedChain) -> None:
    small = [tasks.file(f"blocks_{n}_{n}", chain.block_rows(n, n)) for n in (0, 1, 3)]
    inputs = [given(0, 0, 3), given(1, 0, 3, small, trigger=False)]
    with (
        tasks.task(inputs, [output(0, "blocks")], Config()) as task,
        pytest.raises(RangeNotReady, match="does not have blocks 2-2 of 0-3"),
    ):
        ParquetCompact().run(task)


def test_a_job_that_names_no_input_or_not_its_outputs_is_refused(
    tasks: FrameTasks, chain: LinkedChain
) -> None:
    for inputs, said in (
        ([given(0, 0, 3)], "nothing to compact"),
        (chain.inputs(0, 3, NOTHING), "2 inputs are read and 1 outputs declared"),
    ):
        with (
            tasks.task(inputs, [output()], Config()) as task,
            pytest.raises(InvalidConfig, match=said),
        ):
            ParquetCompact().run(task)


def test_tables_without_blocks_are_not_compacted(tasks: FrameTasks, chain: LinkedChain) -> None:
    chain.write(0, 9)
    inputs = [each for each in chain.inputs(0, 9, NOTHING) if each.input_index != 1]
    with (
        tasks.task(inputs, [output(0, "logs")], Config()) as task,
        pytest.raises(InvalidConfig, match="tells whether the range is whole"),
    ):
        ParquetCompact().run(task)
