"""What an operator reads is its input's scope, and what it writes is whole or not there."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.frame_task import FrameTasks, given, output
from trace_platform.domain.errors import (
    CorruptFile,
    DiskFull,
    IncompatibleSchema,
    InvalidConfig,
    MissingFile,
    Unavailable,
)
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators import frames
from trace_platform.operators.io import parquet_output
from trace_platform.operators.spark.session import SparkRuntime

pytestmark = pytest.mark.spark


@pytest.fixture
def tasks(spark_runtime: SparkRuntime, tmp_path: Path) -> FrameTasks:
    return FrameTasks(spark_runtime, LocalStore(str(tmp_path / "a store [x] {y}")))


def rows(start: int, end: int, **columns: Any) -> pa.Table:
    numbers = range(start, end + 1)
    named = {name: [value] * len(numbers) for name, value in columns.items()}
    return pa.table({"block_number": list(numbers), **named})


def numbers(table: pa.Table) -> list[int]:
    found: list[int] = table["block_number"].to_pylist()
    return found


def read(tasks: FrameTasks, *inputs: Any) -> pa.Table:
    with tasks.task(inputs, []) as task, frames.opened(task) as data, data.actions():
        return data.read(0).toArrow().sort_by("block_number")


def write(tasks: FrameTasks, source: Any, target: Any, **options: Any) -> pa.Table:
    with tasks.task([source], [target]) as task, frames.opened(task) as data:
        return tasks.read(data.write(0, data.read(0), **options))


def test_only_rows_of_the_range_are_read(tasks: FrameTasks) -> None:
    files = [
        tasks.file("t_0_9", rows(0, 9)),
        tasks.file("t_10_19", rows(10, 19)),
        tasks.file("t_20_29", rows(20, 29)),
    ]
    assert numbers(read(tasks, given(0, 8, 11, files))) == [8, 9, 10, 11]


def test_files_that_lie_within_the_range_are_read_unfiltered(tasks: FrameTasks) -> None:
    file = tasks.file("t_0_9", rows(0, 9))
    with tasks.task([given(0, 0, 9, [file])], []) as task, frames.opened(task) as data:
        plan = data.read(0)._jdf.queryExecution().executedPlan().toString()
    assert "Filter" not in plan.replace("PushedFilters", "").replace("DataFilters", "").replace(
        "PartitionFilters", ""
    )


def test_several_ranges_of_one_input_are_read_together(tasks: FrameTasks) -> None:
    file = tasks.file("t_0_99", rows(0, 99))
    both = [given(0, 3, 5, [file]), given(0, 90, 91, [file])]
    assert numbers(read(tasks, *both)) == [3, 4, 5, 90, 91]


def test_the_range_and_the_filter_both_hold(tasks: FrameTasks) -> None:
    table = rows(0, 9).append_column("even", pa.array([n % 2 == 0 for n in range(10)]))
    wanted = given(0, 2, 5, [tasks.file("t_0_9", table)], where={"even": True})
    assert numbers(read(tasks, wanted)) == [2, 4]


def test_a_column_that_came_later_is_null_in_older_files(tasks: FrameTasks) -> None:
    files = [tasks.file("t_0_0", rows(0, 0)), tasks.file("t_1_1", rows(1, 1, fee=7))]
    expected = [{"block_number": 0, "fee": None}, {"block_number": 1, "fee": 7}]
    for order in (files, files[::-1]):
        found = read(tasks, given(0, 0, 1, order)).select(["block_number", "fee"])
        assert found.to_pylist() == expected


def test_a_column_that_changed_its_type_is_refused(tasks: FrameTasks) -> None:
    files = [tasks.file("t_0_0", rows(0, 0, fee=1)), tasks.file("t_1_1", rows(1, 1, fee="1"))]
    with pytest.raises(IncompatibleSchema, match=r"fee is int64 in t_0_0.*string in t_1_1"):
        read(tasks, given(0, 0, 1, files))


def test_a_missing_file_is_named_and_tried_again(tasks: FrameTasks) -> None:
    with pytest.raises(MissingFile, match=r"input 0 .*0-1.*in/gone\.parquet") as caught:
        read(tasks, given(0, 0, 1, ["s3://data/in/gone.parquet"]))
    assert caught.value.retryable
    assert "trace datasets verify" in (caught.value.hint or "")


@pytest.mark.parametrize("body", [b"", b"PAR1", b"not Parquet at all, and longer than a footer"])
def test_a_corrupt_file_is_named_and_not_tried_again(tasks: FrameTasks, body: bytes) -> None:
    uri = tasks.file("t_0_9", rows(0, 9))
    tasks.path(uri).write_bytes(body)
    with pytest.raises(CorruptFile, match=r"in/t_0_9\.parquet") as caught:
        read(tasks, given(0, 0, 9, [uri]))
    assert not caught.value.retryable


def test_pages_that_are_damaged_are_named_where_they_are_read(tasks: FrameTasks) -> None:
    uri = tasks.file("t_0_9999", rows(0, 9_999), compression="zstd")
    body = bytearray(tasks.path(uri).read_bytes())
    body[4 : len(body) // 2] = bytes(len(body) // 2 - 4)
    tasks.path(uri).write_bytes(body)
    target = output()
    with pytest.raises(CorruptFile, match=r"s3://data/in/t_0_9999\.parquet") as caught:
        write(tasks, given(0, 0, 9_999, [uri]), target)
    assert "\n" not in caught.value.message
    assert not (tasks.path(target.prefix) / "_SUCCESS").exists()


def test_a_small_frame_becomes_one_sorted_file_that_the_manifest_tells_all_of(
    tasks: FrameTasks,
) -> None:
    shuffled = rows(0, 9_999).take([(n * 7_919) % 10_000 for n in range(10_000)])
    source = given(
        0, 0, 9_999, [tasks.file(f"t_{i}", shuffled.slice(i * 100, 100)) for i in range(100)]
    )
    with tasks.task([source], [output(name="logs")]) as task, frames.opened(task) as data:
        commit = data.write(0, data.read(0))
    (file,) = tasks.manifest(commit).files
    assert file.name == "logs_0_9999.parquet"
    body = tasks.path(commit.location + file.name).read_bytes()
    assert (file.bytes, file.sha256) == (len(body), hashlib.sha256(body).hexdigest())
    assert numbers(tasks.read(commit)) == list(range(10_000))
    assert [c.name for c in tasks.manifest(commit).columns] == ["block_number"]
    assert {p.name for p in tasks.path(commit.location).iterdir() if p.name[0] != "."} == {
        "logs_0_9999.parquet",
        "_manifest.json",
        "_SUCCESS",
    }


def test_a_large_frame_is_cut_by_blocks_into_files_in_order(
    tasks: FrameTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hashed by executors.
    monkeypatch.setattr(parquet_output, "_HASH_HERE_BYTES", 0)
    monkeypatch.setattr(parquet_output, "files_for", lambda *_: 4)
    shuffled = rows(100, 1_099).take([(n * 7_919) % 1_000 for n in range(1_000)])
    source = given(0, 100, 1_099, [tasks.file("t_100_1099", shuffled)])
    with tasks.task([source], [output()]) as task, frames.opened(task) as data:
        commit = data.write("out", data.read(0))
    names = [file.name for file in tasks.manifest(commit).files]
    assert names == [f"out_100_1099-{n:03}.parquet" for n in range(4)]
    assert [file.rows for file in tasks.manifest(commit).files] == [250] * 4
    assert numbers(tasks.read(commit)) == list(range(100, 1_100))


def test_rows_that_have_no_block_are_sorted_as_asked(tasks: FrameTasks) -> None:
    table = pa.table({"name": [f"{(n * 37) % 100:02}" for n in range(100)]})
    source = given(0, 0, 9, [tasks.file("names", table)])
    found = write(tasks, source, output(), sort_by=["name"])
    assert found["name"].to_pylist() == [f"{n:02}" for n in range(100)]


def test_no_rows_are_an_output_too(tasks: FrameTasks) -> None:
    source = given(0, 0, 9, [tasks.file("t_0_9", rows(0, 9))], where={"block_number": 77})
    assert write(tasks, source, output()).schema.names == ["block_number"]


def test_uint256_and_every_type_of_chain_tables_survive(tasks: FrameTasks) -> None:
    table = pa.table(
        {
            "block_number": pa.array([2**62, 0], pa.int64()),
            "value_binary": [b"\xff" * 32, b"\x00" * 32],
            "value_string": [str(2**256 - 1), ""],
            "value_f64": [float(2**256), -0.0],
            "success": [None, True],
            "topic0": pa.array([None, b""], pa.binary()),
        }
    )
    source = given(0, 0, 2**62, [tasks.file("t", table)])
    assert write(tasks, source, output()).to_pylist() == table.sort_by("block_number").to_pylist()


def test_append_keeps_what_is_there_and_adds_one_row_per_key(tasks: FrameTasks) -> None:
    old = pa.table({"block_number": [1, 2, 3], "id": ["a", "b", None], "from": ["old"] * 3})
    new = pa.table(
        {
            "block_number": [2, 3, 4, 4],
            "id": ["b", None, "d", "d"],
            "from": ["new"] * 4,
            "x": [1] * 4,
        }
    )
    held = [tasks.file("out_1_3", old)]
    source = given(0, 1, 4, [tasks.file("t_1_4", new)])
    found = write(tasks, source, output(append=["id"], files=held))
    assert found.to_pylist() == [
        {"block_number": 1, "id": "a", "from": "old", "x": None},
        {"block_number": 2, "id": "b", "from": "old", "x": None},
        {"block_number": 3, "id": None, "from": "old", "x": None},
        {"block_number": 4, "id": "d", "from": "new", "x": 1},
    ]


def test_a_first_append_dedupes_too(tasks: FrameTasks) -> None:
    new = pa.table({"block_number": [1, 1, 2], "id": ["a", "a", "b"]})
    source = given(0, 1, 2, [tasks.file("t_1_2", new)])
    assert write(tasks, source, output(append=["id"])).num_rows == 2


def test_a_unique_key_that_the_rows_lack_is_refused(tasks: FrameTasks) -> None:
    source = given(0, 0, 9, [tasks.file("t_0_9", rows(0, 9))])
    with pytest.raises(InvalidConfig, match="unique_key names hash, which its rows do not have"):
        write(tasks, source, output(append=["hash"]))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_says_so(tasks: FrameTasks) -> None:
    """/dev/full refuses every byte."""
    source = given(0, 0, 9, [tasks.file("t_0_9", rows(0, 9))])
    with (
        tasks.task([source], [output()]) as task,
        frames.opened(task) as data,
        pytest.raises(DiskFull),
        data.actions(),
    ):
        data.read(0).foreachPartition(_fill_the_disk)


def _fill_the_disk(_: Any) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")


@pytest.mark.long
def test_killed_mid_write_nothing_is_there_to_be_committed(tasks: FrameTasks) -> None:
    source = given(0, 0, 9, [tasks.file("t_0_9", rows(0, 9))])
    target = output()
    pid = tasks.runtime.session() and tasks.runtime.jvm_pid
    assert pid is not None
    with tasks.task([source], [target]) as task, frames.opened(task) as data:
        doomed = data.read(0).mapInArrow(_kill(pid), "block_number long")
        with pytest.raises(Unavailable) as caught:
            data.write(0, doomed)
    assert caught.value.retryable
    staged = [] if not tasks.path(target.prefix).exists() else list(tasks.store.list(target.prefix))
    assert not [uri for uri in staged if "/_spark-" not in uri]
    assert tasks.runtime._jvm is not None
    tasks.runtime._jvm.wait(60)
    # The next attempt writes elsewhere, with a new JVM.
    assert numbers(write(tasks, source, output())) == list(range(10))


def _kill(pid: int) -> Any:
    def kill(batches: Any) -> Any:
        yield next(batches)
        os.kill(pid, signal.SIGKILL)
        yield from batches

    return kill


@pytest.mark.long
def test_a_retried_spark_task_leaves_no_row_twice(tasks: FrameTasks, tmp_path: Path) -> None:
    """Each Spark task fails once, after it has handed rows to the writer. Local Spark retries
    nothing, so its failures are those of Python workers, in a session with retries."""
    runtime = SparkRuntime(tmp_path / "retries", master="local[2,3]")
    tasks.runtime.stop()
    again = FrameTasks(runtime, tasks.store)
    try:
        source = given(0, 0, 99, [again.file("t_0_99", rows(0, 99))])
        with again.task([source], [output()]) as task, frames.opened(task) as data:
            shaky = data.read(0).mapInArrow(_fail_once(str(tmp_path)), "block_number long")
            commit = data.write(0, shaky)
        assert (tmp_path / "failed").exists()
        assert numbers(again.read(commit)) == list(range(100))
    finally:
        runtime.stop()


def _fail_once(directory: str) -> Any:
    def fail(batches: Any) -> Any:
        yield from batches
        mark = Path(directory, "failed")
        if not mark.exists():
            mark.touch()
            raise OSError("this try is lost")

    return fail
