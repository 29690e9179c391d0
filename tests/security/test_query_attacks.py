"""Strangers' SQL: every attack is refused with a reason, and the next layer holds without the gate.

{canary} is a text file beside the data, {file} the Parquet file that the query may read.
"""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_platform.domain.errors import InvalidQuery, TraceError
from trace_platform.query import gate
from trace_platform.query.children import ChildPool
from trace_platform.query.engine import Engine
from trace_platform.query.messages import Answer, Limits
from trace_platform.wire.query import ResolvedDataset

SECRET = "canary-7f3a"

# Read or write something outside the query's own files.
REACHING_OUT = [
    "select * from '{canary}'",
    "select * from read_text('{canary}')",
    "select * from read_blob('{canary}')",
    "select * from read_csv('{canary}')",
    "select * from read_csv_auto('{canary}')",
    "select * from read_json('{canary}')",
    "select * from read_parquet('{folder}/*.parquet')",
    "select * from \"read_text\"('{canary}')",
    "select * from READ_TEXT('{canary}')",
    "select * from system.main.read_text('{canary}')",
    "select * from/**/read_text/**/('{canary}')",
    "select * from glob('{folder}/*')",
    "select * from sniff_csv('{canary}')",
    "select * from parquet_metadata('{folder}/other.parquet')",
    "select * from parquet_schema('{folder}/other.parquet')",
    "select * from read_text('/proc/self/environ')",
    "select * from 'http://127.0.0.1:9/x.parquet'",
    "select * from read_parquet('https://example.com/x.parquet')",
    "select * from 's3://bucket/x.parquet'",
    "with x as (select * from read_text('{canary}')) select * from x",
    "select (select content from read_text('{canary}'))",
    "select 1 union all select size from read_text('{canary}')",
    "from blocks semi join read_text('{canary}') on true",
    "copy blocks to '{canary}'",
    "copy (select 1) to '{folder}/new.csv'",
    "create table t as select 1 n; copy t from '{canary}'",
    "attach '{folder}/new.db'",
    "attach '{folder}/new.db' as other (type sqlite)",
    "export database '{folder}/dump'",
    "import database '{folder}/dump'",
    "install httpfs",
    "load '{canary}'",
    "load httpfs",
    "select * from query('select * from read_text(''{canary}'')')",
    "select * from query_table('{canary}')",
    "select * from json_execute_serialized_sql("
    "json_serialize_sql('select * from read_text(''{canary}'')'))",
    "select 1; select * from read_text('{canary}')",
    "create secret (type s3, key_id 'a', secret 'b')",
    "create persistent secret (type http, bearer_token 'b')",
    "set allowed_paths = ['{canary}']",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset enable_external_access",
    "set temp_directory = '{folder}'",
    "set autoload_known_extensions = true",
    "pragma enable_profiling = 'json'",
    "pragma profiling_output = '{folder}/profile.json'",
    "call enable_logging(storage = 'file', storage_path = '{folder}/log')",
]

# Stay inside the engine, but say or do what a query has no business with.
INSIDE = [
    "select * from duckdb_settings()",
    "select * from duckdb_views()",
    "select * from duckdb_secrets()",
    "select sql from duckdb_views",
    "select * from pg_catalog.pg_views",
    "select * from information_schema.views",
    "select current_setting('allowed_paths')",
    "select getenv('HOME')",
    "select getvariable('x')",
    "select which_secret('s3://x', 's3')",
    "select pg_get_viewdef(1)",
    "select * from pragma_table_info('blocks')",
    "pragma show_tables",
    "pragma database_list",
    "show all tables",
    "select json_serialize_plan('select 1')",
    "select 'select 1'.json_serialize_sql()",
    "select 'x'.\"write_log\"()",
    "select sleep_ms(100000)",
    "select pg_sleep(100)",
    "set variable x = 1",
    "explain analyze select * from blocks",
    "prepare p as select 1",
    "execute p",
    "create macro f(x) as x",
    "create or replace view blocks as select 1",
    "drop view blocks",
    "insert into blocks values (1)",
    "delete from blocks",
    "with gone as (delete from blocks returning *) select * from gone",
    "with added as (insert into blocks values (1) returning *) select * from added",
    "with changed as (update blocks set n = 1 returning *) from changed",
    "select * from (with gone as (delete from blocks returning *) from gone)",
    "select 1; drop view blocks",
    "begin; select 1; commit",
    "call pragma_version()",
    "checkpoint",
    "select * from test_all_types()",
    "select * from repeat('x', 10)",
    "select * from histogram(blocks, n)",
]


@dataclass(frozen=True)
class Ground:
    folder: Path
    file: Path
    canary: Path

    def sql(self, attack: str) -> str:
        return attack.format(folder=self.folder, file=self.file, canary=self.canary)

    def state(self) -> dict[str, str]:
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.folder.iterdir()
        }


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    folder = tmp_path_factory.mktemp("objects")
    rows = pa.table({"n": pa.array([1, 2, 3], pa.uint64())})
    pq.write_table(rows, folder / "blocks.parquet")
    pq.write_table(pa.table({"secret": [SECRET]}), folder / "other.parquet")
    (folder / "canary.csv").write_text(f"secret\n{SECRET}\n")
    return Ground(folder, folder / "blocks.parquet", folder / "canary.csv")


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        yield connection


@pytest.mark.parametrize("attack", REACHING_OUT + INSIDE)
def test_the_gate_refuses_with_a_reason(
    parser: duckdb.DuckDBPyConnection, ground: Ground, attack: str
) -> None:
    before = ground.state()
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, ground.sql(attack), ["blocks"])
    assert refused.value.message
    assert SECRET not in refused.value.message
    assert ground.state() == before


@pytest.mark.parametrize("attack", REACHING_OUT)
def test_the_locked_engine_holds_when_the_gate_is_bypassed(ground: Ground, attack: str) -> None:
    before = ground.state()
    engine = Engine(Limits(timeout_s=10, memory_mb=128, threads=1))
    with pytest.raises(TraceError) as refused:
        engine.run(ground.sql(attack), {"blocks": [str(ground.file)]}, 10)
    assert SECRET not in refused.value.message
    assert str(ground.folder) not in refused.value.message.replace(ground.sql(attack), "")
    assert ground.state() == before


# What the settings do let through: writing over a file that may be read. The kernel does not.
_CONFINED = """
import sys
from trace_platform.query import confine
from trace_platform.query.engine import Engine
from trace_platform.query.messages import Limits
if not confine.confine():
    sys.exit(77)
file, sql = sys.argv[1:]
Engine(Limits(memory_mb=128, threads=1)).run(sql, {"blocks": [file]}, 10)
"""


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to '{file}' (use_tmp_file false)",
        "copy (select 1) to '{file}' (format csv, use_tmp_file false)",
    ],
)
def test_a_confined_process_cannot_write_over_a_file_it_may_read(ground: Ground, sql: str) -> None:
    before = ground.state()
    command = [sys.executable, "-I", "-c", _CONFINED, str(ground.file), ground.sql(sql)]
    done = subprocess.run(command, capture_output=True, env={}, check=False)
    if done.returncode == 77:
        pytest.skip("this kernel has no Landlock")
    assert done.returncode == 1, done.stderr.decode()
    assert ground.state() == before


def _published(ground: Ground) -> dict[str, ResolvedDataset]:
    ids = {"dataset_uuid": uuid.uuid4(), "dataset_version": uuid.uuid4()}
    return {"blocks": ResolvedDataset(name="blocks", files=["s3://bucket/blocks.parquet"], **ids)}


class Service:
    """A pool of one small child, and queries over the one dataset."""

    def __init__(self, ground: Ground, limits: Limits) -> None:
        self.pool = ChildPool(1, limits)
        self._published = _published(ground)
        self._file = str(ground.file)

    async def run(self, sql: str) -> Answer:
        answer, _ = await self.pool.run(sql, 10, self._published, lambda _: [self._file])
        return answer


def test_a_query_past_its_time_out_is_stopped_and_the_next_one_answers(ground: Ground) -> None:
    async def scenario() -> None:
        service = Service(ground, Limits(timeout_s=0.5, grace_s=0.5, memory_mb=128))
        await service.pool.start()
        try:
            started = time.monotonic()
            with pytest.raises(InvalidQuery, match=r"longer than 0\.5 s"):
                await service.run("select count(*) from range(1000000) a, range(1000000) b")
            assert time.monotonic() - started < 2.5
            answer = await service.run("select count(*) from blocks")
            assert bytes(answer.rows) == b"[[3]]"
        finally:
            await service.pool.close()

    asyncio.run(scenario())


def test_a_query_that_ignores_its_time_out_is_killed(ground: Ground) -> None:
    async def scenario() -> None:
        service = Service(ground, Limits(timeout_s=0.2, grace_s=0.1, memory_mb=512, threads=1))
        await service.pool.start()
        [victim] = [psutil.Process(pid) for pid in service.pool.pids]
        try:
            # One scalar call after the other, inside which DuckDB does not look at the clock.
            deaf = "levenshtein(repeat('ab', 40000), repeat('ba', 40000))"
            with pytest.raises(InvalidQuery, match="longer than"):
                await service.run(f"select {deaf} + n::bigint from blocks")
            await asyncio.to_thread(victim.wait, 5)
            answer = await service.run("select max(n) from blocks")
            assert bytes(answer.rows) == b"[[3]]"
            assert service.pool.pids != [victim.pid]
        finally:
            await service.pool.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "hog",
    [
        "select length(repeat('x', 2000000000))",
        "select len(list(i)) from range(100000000) r(i)",
        "select count(*) from (select range(400000000) as l) where len(l) > 1",
        "select length(string_agg(repeat('y', 1000), '')) from range(900000)",
    ],
)
def test_a_memory_hog_stays_bounded_and_the_next_query_answers(ground: Ground, hog: str) -> None:
    async def scenario() -> None:
        service = Service(ground, Limits(timeout_s=20, memory_mb=128))
        await service.pool.start()
        [pid] = service.pool.pids
        ceiling = _address_space_limit(pid)
        try:
            with pytest.raises(InvalidQuery, match="memory"):
                await service.run(hog)
            assert ceiling < 1 << 30
            answer = await service.run("select min(n) from blocks")
            assert bytes(answer.rows) == b"[[1]]"
        finally:
            await service.pool.close()

    asyncio.run(scenario())


def _address_space_limit(pid: int) -> int:
    soft, hard = psutil.Process(pid).rlimit(psutil.RLIMIT_AS)
    assert soft == hard
    return soft


def test_a_child_has_no_environment_and_dies_with_its_pool(ground: Ground) -> None:
    async def scenario() -> list[psutil.Process]:
        service = Service(ground, Limits(memory_mb=128))
        await service.pool.start()
        children = [psutil.Process(pid) for pid in service.pool.pids]
        assert [set(child.environ()) for child in children] == [{"MALLOC_ARENA_MAX"}]
        assert [child.cwd() for child in children] == ["/"]
        await service.pool.close()
        return children

    assert not any(child.is_running() for child in asyncio.run(scenario()))
