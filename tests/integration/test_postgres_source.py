from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psutil
import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.hot_chain import HotChain, blocks, hashes, logs
from tests.support.shared_data import SharedData, shared_data
from tests.support.spark_cluster import spark_cluster
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_reader import Snapshot, snapshot
from trace_platform.data.hot_tables import HotTable, HotWriter
from trace_platform.data.staging import seal, stage_rows
from trace_platform.domain.errors import BadInput, IncompatibleSchema, StaleFence, Unavailable
from trace_platform.operators.io.postgres.hot_frames import read_hot, write_hot
from trace_platform.operators.spark.session import SparkRuntime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.conftest import PostgresServer

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[SharedData]:
    with shared_data(postgres) as made:
        yield made


@pytest.fixture
def chain(data: SharedData) -> HotChain:
    return HotChain(DataDatabase(data.writer))


@pytest.fixture
def writer(chain: HotChain) -> Iterator[HotWriter]:
    with chain.writer() as made:
        made.take_over()
        yield made


@pytest.fixture
def spark(spark_runtime: SparkRuntime) -> SparkSession:
    return spark_runtime.session()


def frames(spark: SparkSession, chain: HotChain, *blocks_: Any) -> dict[UUID, DataFrame]:
    given = chain.rows(*blocks_)
    return {
        version: spark.createDataFrame(pa.Table.from_batches(batches)).repartitionByRange(
            2, "block_number"
        )
        for version, batches in given.items()
    }


def rows(seen: Snapshot, table: HotTable) -> pa.Table:
    found = pa.Table.from_batches(seen.batches(table.dataset_version, 0, 1_000))
    return found.sort_by([(name, "ascending") for name in table.key])


def staging_tables(data: SharedData, chain: HotChain) -> list[Any]:
    """What is left of Spark's writes, known or not."""
    with psycopg.connect(data.owner) as owner:
        known = owner.execute(
            "SELECT name FROM staging_tables WHERE dataset_version = ANY(%s)", (chain.versions,)
        ).fetchall()
        made = owner.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE ANY(%s)",
            ([f"staging_{version.hex}%" for version in chain.versions],),
        ).fetchall()
    return known + made


def test_a_range_is_read_by_many_tasks_as_it_was_written(
    spark: SparkSession, chain: HotChain, writer: HotWriter
) -> None:
    chain.write(writer, 0, 9)
    with snapshot(chain.database, chain.versions) as seen:
        frame = read_hot(spark, seen, chain.logs.dataset_version, 2, 50, partitions=3)
        assert frame.rdd.getNumPartitions() == 3
        found = frame.orderBy("block_number", "log_index").toArrow()
    assert found.cast(chain.logs.schema) == pa.Table.from_batches([logs(2, 9)])
    assert [field.nullable for field in frame.schema] == [f.nullable for f in chain.logs.schema]


def test_only_the_columns_and_blocks_that_are_there_are_read(
    spark: SparkSession, chain: HotChain, writer: HotWriter
) -> None:
    with snapshot(chain.database, chain.versions) as seen:
        assert read_hot(spark, seen, chain.blocks.dataset_version, 0, 9).count() == 0
    chain.write(writer, 0, 2)
    with snapshot(chain.database, chain.versions) as seen:
        version = chain.blocks.dataset_version
        found = read_hot(spark, seen, version, 1, 1, columns=["size", "block_number"]).collect()
        assert [tuple(row) for row in found] == [(1, 1)]
        assert read_hot(spark, seen, version, 3, 9).count() == 0


def test_a_fork_between_two_reads_of_a_task_is_not_seen(
    spark: SparkSession, chain: HotChain, writer: HotWriter
) -> None:
    chain.write(writer, 0, 5)
    with snapshot(chain.database, chain.versions) as seen:
        of_blocks, of_logs = (
            read_hot(spark, seen, version, 0, 99).select("block_hash") for version in chain.versions
        )
        before = {row[0] for row in of_blocks.collect()}
        chain.write(writer, 0, 7, "b")
        assert {row[0] for row in of_logs.collect()} == before == {h for _, h in hashes(0, 5)}


def test_spark_replaces_a_range_of_every_table(
    spark: SparkSession, chain: HotChain, writer: HotWriter, data: SharedData
) -> None:
    chain.write(writer, 0, 9)
    given = frames(spark, chain, 6, 12, "b")
    write_hot(writer, 6, 12, given, chain.blocks.dataset_version, reason="fork")
    with snapshot(chain.database, chain.versions) as seen:
        assert rows(seen, chain.blocks) == pa.Table.from_batches([blocks(0, 5), blocks(6, 12, "b")])
        assert rows(seen, chain.logs) == pa.Table.from_batches([logs(0, 5), logs(6, 12, "b")])
    assert writer.hashes(6, 99) == hashes(6, 12, "b")[::-1]
    assert [(each.start, each.end, each.again) for each in writer.pending()[2:4]] == [
        (6, 9, True),
        (10, 12, False),
    ]
    assert staging_tables(data, chain) == []


def test_rows_that_cannot_be_stored_change_nothing(
    spark: SparkSession, chain: HotChain, writer: HotWriter, data: SharedData
) -> None:
    chain.write(writer, 0, 3)
    twice = frames(spark, chain, 4, 5)
    twice[chain.logs.dataset_version] = twice[chain.logs.dataset_version].unionAll(
        twice[chain.logs.dataset_version]
    )
    with pytest.raises(BadInput, match="unique"):
        write_hot(writer, 4, 5, twice, hashes(4, 5))
    with pytest.raises(BadInput, match="beyond 4-4"):
        write_hot(writer, 4, 4, frames(spark, chain, 4, 5), hashes(4, 4))
    with snapshot(chain.database, chain.versions) as seen:
        assert rows(seen, chain.blocks) == pa.Table.from_batches([blocks(0, 3)])
    assert staging_tables(data, chain) == []


def test_columns_of_another_type_are_named(
    spark: SparkSession, chain: HotChain, writer: HotWriter, data: SharedData
) -> None:
    given = frames(spark, chain, 0, 1)
    version = chain.blocks.dataset_version
    given[version] = given[version].selectExpr("block_hash", "block_number", "'x' size")
    with pytest.raises(IncompatibleSchema, match=r"'size' of .* is bigint, the rows have string"):
        write_hot(writer, 0, 1, given, hashes(0, 1))
    assert staging_tables(data, chain) == []


def _die_in_the_middle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, 1)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_task_leaves_nothing(
    spark: SparkSession, chain: HotChain, writer: HotWriter, data: SharedData
) -> None:
    chain.write(writer, 0, 3)
    given = frames(spark, chain, 2, 9, "b")
    doomed = given[chain.logs.dataset_version]
    given[chain.logs.dataset_version] = doomed.mapInArrow(_die_in_the_middle, doomed.schema)
    with pytest.raises(Exception, match="worker exited unexpectedly"):
        write_hot(writer, 2, 9, given, hashes(2, 9, "b"))
    with snapshot(chain.database, chain.versions) as seen:
        assert rows(seen, chain.blocks) == pa.Table.from_batches([blocks(0, 3)])
        assert rows(seen, chain.logs) == pa.Table.from_batches([logs(0, 3)])
    assert staging_tables(data, chain) == []


def test_a_task_that_wrote_and_was_tried_again_counts_once(
    chain: HotChain, writer: HotWriter
) -> None:
    """Its executor was lost after the rows were stored, before anybody heard of it."""
    table = chain.logs
    staged = writer.stage(table.dataset_version)
    wrote = {
        spark_task: stage_rows(chain.database, staged.name, spark_task, [given])
        for spark_task, given in [(1, logs(0, 1)), (2, logs(2, 3)), (3, logs(2, 3))]
    }
    seal(chain.database, staged.name, {1: wrote[1], 3: wrote[3]})
    given = {**chain.rows(0, 3), table.dataset_version: staged}
    writer.rewrite(0, 3, given, hashes(0, 3))
    with snapshot(chain.database, chain.versions) as seen:
        assert rows(seen, table) == pa.Table.from_batches([logs(0, 3)])


def test_an_attempt_that_was_taken_over_from_stages_nothing(
    spark: SparkSession, chain: HotChain, writer: HotWriter, data: SharedData
) -> None:
    chain.extent()
    with pytest.raises(StaleFence):
        write_hot(writer, 0, 1, frames(spark, chain, 0, 1), hashes(0, 1))
    assert staging_tables(data, chain) == []


def test_what_a_dead_attempt_staged_goes_with_the_next_one(
    chain: HotChain, writer: HotWriter, data: SharedData
) -> None:
    for version in chain.versions:
        writer.stage(version)
    assert len(staging_tables(data, chain)) == 4
    with chain.writer(attempt=2) as newer:
        newer.take_over()
        for version in chain.versions:
            newer.discard(newer.stage(version))
    assert staging_tables(data, chain) == []


def test_staged_rows_that_are_not_sealed_are_not_taken(chain: HotChain, writer: HotWriter) -> None:
    staged = writer.stage(chain.blocks.dataset_version)
    given = {**chain.rows(0, 0), chain.blocks.dataset_version: staged}
    with pytest.raises(BadInput, match="not written to its end"):
        writer.rewrite(0, 0, given, hashes(0, 0))


@pytest.mark.parametrize("when", ["between two tasks", "after the seal"])
def test_staged_rows_that_a_crash_of_postgres_took_are_missed(
    chain: HotChain, writer: HotWriter, data: SharedData, when: str
) -> None:
    """What is not logged is empty after it; so does the owner empty it here."""
    chain.write(writer, 0, 3)
    staged = writer.stage(chain.logs.dataset_version)

    def crash() -> None:
        with psycopg.connect(data.owner) as owner:
            owner.execute(f"TRUNCATE {staged.name}")

    wrote = {1: stage_rows(chain.database, staged.name, 1, [logs(0, 1, "b")])}
    if when == "between two tasks":
        crash()
    wrote[2] = stage_rows(chain.database, staged.name, 2, [logs(2, 3, "b")])
    seal(chain.database, staged.name, wrote)
    if when == "after the seal":
        crash()
    given = {**chain.rows(0, 3, "b"), chain.logs.dataset_version: staged}
    with pytest.raises(Unavailable, match="lost rows"):
        writer.rewrite(0, 3, given, hashes(0, 3, "b"))
    with snapshot(chain.database, chain.versions) as seen:
        assert rows(seen, chain.blocks) == pa.Table.from_batches([blocks(0, 3)])
        assert rows(seen, chain.logs) == pa.Table.from_batches([logs(0, 3)])


def test_no_plan_log_or_error_shows_how_postgres_is_reached(
    spark: SparkSession,
    spark_runtime: SparkRuntime,
    chain: HotChain,
    writer: HotWriter,
    capfd: pytest.CaptureFixture[str],
) -> None:
    chain.write(writer, 0, 3)
    password = str(conninfo_to_dict(chain.database.dsn)["password"])
    with snapshot(chain.database, chain.versions) as seen:
        frame = read_hot(spark, seen, chain.blocks.dataset_version, 0, 3)
        frame.collect()
        plan = frame._jdf.queryExecution().toString()
        frame.explain("extended")
        again = read_hot(spark, seen, chain.logs.dataset_version, 0, 3)
    with pytest.raises(Exception, match="snapshot") as caught:
        again.collect()
    said = "".join([plan, str(caught.value), *capfd.readouterr(), repr(seen)])
    said += (spark_runtime._scratch / "spark.log").read_text()
    said += str(spark.sparkContext.getConf().getAll())
    assert "trace_postgres" in said
    assert password not in said
    assert chain.database.dsn not in said


def _lose_an_executor(marker: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The first task that comes here takes its executor down in the middle of its rows."""
        for batch in batches:
            yield batch.slice(0, 1)
            with contextlib.suppress(FileExistsError):
                marker.touch(exist_ok=False)
                executor = psutil.Process(os.getppid()).parent()
                assert executor is not None
                executor.kill()
                signal.pause()
            yield batch.slice(1)

    return run


@pytest.mark.long
def test_a_cluster_reads_and_writes_the_same_rows_though_it_loses_an_executor(
    spark_runtime: SparkRuntime,
    chain: HotChain,
    writer: HotWriter,
    data: SharedData,
    tmp_path: Path,
) -> None:
    spark_runtime.stop()
    chain.write(writer, 0, 3)
    with spark_cluster(tmp_path / "cluster") as cluster:
        runtime = SparkRuntime(
            tmp_path / "spark", master=cluster.url, conf=cluster.conf, secret=cluster.secret
        )
        try:
            given = frames(runtime.session(), chain, 2, 40, "b")
            doomed = given[chain.logs.dataset_version]
            lossy = _lose_an_executor(tmp_path / "lost")
            given[chain.logs.dataset_version] = doomed.mapInArrow(lossy, doomed.schema)
            write_hot(writer, 2, 40, given, chain.blocks.dataset_version)
            assert (tmp_path / "lost").exists()
            with snapshot(chain.database, chain.versions) as seen:
                version = chain.logs.dataset_version
                frame = read_hot(runtime.session(), seen, version, 0, 99, partitions=4)
                found = frame.orderBy("block_number", "log_index").toArrow()
        finally:
            runtime.stop()
    assert found.cast(chain.logs.schema) == pa.Table.from_batches([logs(0, 1), logs(2, 40, "b")])
    assert staging_tables(data, chain) == []
