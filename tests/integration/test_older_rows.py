"""Files that an older release wrote, beside today's: `tests/golden/older_rows` has blocks 0 to 2 of
a TinyChain, from before rows had their block's timestamp."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import DataDsns
from tests.support.cold_chain import ColdChain, flip, set_value
from tests.support.frame_task import FrameTasks, given, output
from tests.support.operator_task import operator_task
from tests.support.query_service import query_service
from tests.support.scripted_rpc import ScriptedRpc, scripted_rpc
from tests.support.slow_rows import SlowRows
from tests.support.tiny_chain import CHAIN_ID, TinyChain, address
from trace_platform.app.api_client.query_client import run_query
from trace_platform.data.database import DataDatabase
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.checks.integrity_check import Config, IntegrityCheck
from trace_platform.operators.evm.schema import LATER, TABLES
from trace_platform.operators.ingest import parquet_compact
from trace_platform.operators.ingest.parquet_compact import ParquetCompact
from trace_platform.operators.spark.session import SparkRuntime

OLDER = Path(__file__).parents[1] / "golden" / "older_rows"
LAST_OLDER, LAST = 2, 5
Row = dict[str, Any]


@pytest.fixture
def chain() -> TinyChain:
    """Block 4 has a creation."""
    made = TinyChain(LAST + 1, 2)
    made.block(4)["transactions"][0]["to"] = None
    made.receipts_of(4)[0]["contractAddress"] = address(0xC0DE)
    return made


@pytest.fixture
def node(chain: TinyChain) -> Iterator[ScriptedRpc]:
    with scripted_rpc(chain.answer) as running:
        yield running


@pytest.fixture
def cold(node: ScriptedRpc, tmp_path: Path) -> ColdChain:
    """A partition of the older release, and the next one, of today."""
    made = ColdChain(LocalStore(str(tmp_path / "store")))
    made.datasets |= {"traces": made.datasets["blocks"]}
    for name in made.datasets:
        uri = f"s3://data/{name}/older/1/{name}_0_{LAST_OLDER}.parquet"
        made.path(uri).parent.mkdir(parents=True)
        shutil.copy(OLDER / made.path(uri).name, made.path(uri))
        made.files[name] = [uri]
    made.ingest(node.url, BlockRange(LAST_OLDER + 1, LAST), parts=1)
    return made


@pytest.fixture
def expected(chain: TinyChain) -> dict[str, list[Row]]:
    """What the chain has; of older rows without the later columns."""
    rows = SlowRows(lambda method, *params: chain.answer(method, list(params)), BlockRange(0, LAST))
    for table, later in LATER.items():
        for row in rows[table]:
            if row["block_number"] <= LAST_OLDER:
                row.update(dict.fromkeys(later))
    return rows


def check(cold: ColdChain, node: ScriptedRpc, data_dsns: DataDsns) -> list[tuple[int, int]]:
    settings = {"chain_id": CHAIN_ID, "rpc_pool": "test", "mode": "full", "header_hash": False}
    task = replace(
        operator_task(Config.model_validate(settings), BlockRange(0, 0), Path(), url=node.url),
        inputs=cold.inputs(),
        store=cold.store,
        data=lambda: DataDatabase(data_dsns.writer),
    )
    return [(each.start or 0, each.end or 0) for each in IntegrityCheck().run(task).invalidations]


def in_order(rows: list[Row], table: str) -> list[Row]:
    return [{name: row[name] for name in TABLES[table].names} for row in rows]


def test_the_files_are_of_before() -> None:
    for table, later in LATER.items():
        names = pq.read_schema(OLDER / f"{table}_0_{LAST_OLDER}.parquet").names
        missing = [name for name in TABLES[table].names if name not in names]
        assert missing == [name for name in later if name != "above_int64"]


def test_older_rows_are_right_and_have_null_where_nothing_was_written(
    cold: ColdChain, node: ScriptedRpc, data_dsns: DataDsns
) -> None:
    assert check(cold, node, data_dsns) == []
    cold.spoil("logs", 4, lambda t: set_value(t, 4, "timestamp", lambda at: at + 1))
    assert check(cold, node, data_dsns) == [(4, 4)]
    cold.spoil("transactions", 5, lambda t: set_value(t, 5, "contract_address", lambda _: b"\1"))
    assert sorted(check(cold, node, data_dsns)) == [(4, 4), (5, 5)]
    cold.spoil("blocks", 3, lambda t: set_value(t, 3, "logs_bloom", flip))
    assert sorted(check(cold, node, data_dsns)) == [(3, 3), (4, 4), (5, 5)]


@pytest.mark.spark
def test_older_and_newer_files_become_one_that_is_right(
    cold: ColdChain,
    node: ScriptedRpc,
    expected: dict[str, list[Row]],
    data_dsns: DataDsns,
    spark_runtime: SparkRuntime,
) -> None:
    tasks = FrameTasks(spark_runtime, cold.store)
    names = ("blocks", "transactions", "logs", "traces")
    reads = [given(i + 1, 0, LAST, cold.files[name], trigger=False) for i, name in enumerate(names)]
    woken = given(0, 0, LAST)
    outputs = [output(i, name) for i, name in enumerate(names)]
    with tasks.task([woken, *reads], outputs, parquet_compact.Config()) as task:
        commits = ParquetCompact().run(task).outputs
    for name, commit in zip(names, commits, strict=True):
        cold.files[name] = tasks.files(commit)
        found = pa.concat_tables([pq.read_table(cold.path(uri)) for uri in cold.files[name]])
        assert sorted(found.schema.names) == sorted(TABLES[name].names)
        assert found.select(TABLES[name].names).to_pylist() == in_order(expected[name], name)
    # Rows of before lie in the same file as those of today.
    assert check(cold, node, data_dsns) == []


def test_a_query_has_the_later_columns_of_all_rows(
    cold: ColdChain, expected: dict[str, list[Row]], tmp_path: Path
) -> None:
    with query_service(tmp_path / "home") as service:
        for name in LATER:
            newest_first = [cold.path(uri) for uri in reversed(cold.files[name])]
            service.publish(name, newest_first, mixed=True)
        for name, later in LATER.items():
            found = run_query(service.home, f"select {', '.join(later)} from {name}").rows
            right = [[shown(row[column]) for column in later] for row in expected[name]]
            assert sorted(map(repr, found)) == sorted(map(repr, right))


def shown(value: Any) -> Any:
    """As answers in JSON have it: addresses as hex, wide numbers as text."""
    return "0x" + value.hex() if isinstance(value, bytes) else value
