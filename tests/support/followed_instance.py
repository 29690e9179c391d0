"""What a whole instance holds of a chain that it follows, and what the chain says itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.stack import Stack, wait_for
from trace_platform.app.api_client import dataset_client
from trace_platform.app.instance import databases
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.evm.fetch import RangeFetcher
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm.schema import TABLES

CHAIN_ID = 31337
NAMES = ("blocks", "transactions", "logs")
KEYS = {
    "blocks": ("block_number",),
    "transactions": ("block_number", "transaction_index"),
    "logs": ("block_number", "log_index"),
}
Row = tuple[Any, ...]

FOLLOW = """\
name: follow
defaults: {{ max_attempts: 5 }}
jobs:
  - name: follow
    activation: source
    source: {{ kind: always_on }}
    runtime: ecs_platform
    operator: block_follower
    outputs: [blocks, transactions, logs]
    config: {{ chain_id: 31337, rpc_pool: node, start_block: 0, finality_depth: {depth} }}
  - name: chunks
    activation: reactive
    runtime: dispatcher
    operator: range_aggregator
    inputs: [{{ from: {{ job: follow, output: blocks }} }}]
    outputs: [ranges]
    config: {{ chunk_blocks: {chunk}, finality_depth: {depth} }}
  - name: compact
    activation: reactive
    runtime: ecs_platform
    operator: parquet_compact
    inputs:
      - {{ from: {{ job: chunks }} }}
      - {{ from: {{ job: follow, output: blocks }}, trigger: false }}
      - {{ from: {{ job: follow, output: transactions }}, trigger: false }}
      - {{ from: {{ job: follow, output: logs }}, trigger: false }}
    outputs: [blocks, transactions, logs]
    config: {{ delete_from_hot: true, rpc_pool: node, chain_id: 31337 }}
publish:
{published}
"""
_PUBLISH = """\
  tip_{name}:
    from: {{ job: follow, output: {name} }}
    cold: {{ job: compact, output: {name} }}
    storage: postgres
  cold_{name}: {{ from: {{ job: compact, output: {name} }} }}
"""


def follow_dag(chunk: int, depth: int) -> str:
    published = "".join(_PUBLISH.format(name=name) for name in NAMES)
    return FOLLOW.format(chunk=chunk, depth=depth, published=published)


def rebuilt(url: str, last: int) -> dict[str, list[Row]]:
    """Every table of the chain as the node has it now, read anew."""
    client = RpcClient(url)
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in NAMES}
    for chunk in RangeFetcher(client, CHAIN_ID).chunks(BlockRange(0, last)):
        for name in NAMES:
            found[name].append(getattr(chunk, name))
    client.close()
    return {name: _rows(pa.Table.from_batches(found[name]), name) for name in NAMES}


class Held:
    """What the instance's stores hold, read past its own code."""

    def __init__(self, stack: Stack, tip: str = "tip_") -> None:
        """`tip` begins the names under which its tables are published."""
        self._stack = stack
        self._tip = tip
        settings = load_settings(stack.home)
        instance = open_instance(stack.home, settings)
        self._dsn = databases.dsn(stack.home, settings, instance, "trace_data_owner")
        self._store = LocalStore(str(stack.home.objects))

    def data(self, query: str, *values: Any) -> list[Row]:
        with psycopg.connect(self._dsn) as connection:
            return list(connection.execute(query, values).fetchall())

    def version(self, name: str) -> UUID:
        return dataset_client.dataset(self._stack.home, f"{self._tip}{name}").dataset_version

    def extent(self, name: str = "blocks") -> tuple[int | None, int | None]:
        query = "SELECT first_block, last_block FROM hot_tables WHERE dataset_version = %s"
        rows = self.data(query, self.version(name))
        return (rows[0][0], rows[0][1]) if rows else (None, None)

    @contextmanager
    def looking(self) -> Iterator[Callable[[], int | None]]:
        """How far the blocks go, asked over one connection."""
        query = "SELECT last_block FROM hot_tables WHERE dataset_version = %s"
        version = self.version("blocks")
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            yield lambda: (connection.execute(query, (version,)).fetchone() or (None,))[0]

    def hot(self, name: str) -> list[Row]:
        columns = ", ".join(f'"{column}"' for column in TABLES[name].names)
        query = f'SELECT {columns} FROM "dataset_{self.version(name).hex}"'
        return sorted(self.data(query), key=_key(name))

    def cold(self, name: str) -> list[Row]:
        tables = [pq.read_table(path) for path in self.cold_files(name)]
        if not tables:
            return []
        chosen = [table.select(TABLES[name].names) for table in tables]
        return _rows(pa.concat_tables(chosen, promote_options="permissive"), name)

    def cold_files(self, name: str) -> Iterator[str]:
        dataset = f"cold_{name}"
        query = """SELECT p.location || (f->>'name') FROM datasets d
          JOIN partition_versions p ON p.dataset_version = d.current_version
               AND p.superseded_at IS NULL
          CROSS JOIN LATERAL jsonb_array_elements(p.files) f WHERE d.name = %s"""
        for (uri,) in self.state(query, dataset):
            yield self._store.filesystem(uri)[1]

    def state(self, query: str, *values: Any) -> list[Row]:
        settings = load_settings(self._stack.home)
        instance = open_instance(self._stack.home, settings)
        dsn = databases.dsn(self._stack.home, settings, instance, "trace_owner")
        with psycopg.connect(dsn) as connection:
            return list(connection.execute(query, values).fetchall())

    def settled(self, head: int) -> bool:
        """Whether the tip was reached, and nothing is under way or owed any more."""
        if self.extent()[1] != head or self.data("SELECT 1 FROM hot_outbox LIMIT 1"):
            return False
        busy = """SELECT 1 FROM live_tasks WHERE dedupe_key <> 'run' UNION ALL
                  SELECT 1 FROM outbox WHERE kind = 'route' UNION ALL
                  SELECT 1 FROM data_invalidations WHERE processed_at IS NULL LIMIT 1"""
        return not self.state(busy)


def assert_equal(held: Held, url: str, head: int) -> None:
    """Hot and cold together are the chain, each row once; the cold part has no other rows."""
    expected = rebuilt(url, head)
    for name in NAMES:
        first, last = held.extent(name)
        assert first is not None
        assert last == head
        number = TABLES[name].names.index("block_number")
        hot, cold = held.hot(name), held.cold(name)
        assert hot == [row for row in expected[name] if row[number] >= first], f"hot {name}"
        below = [row for row in cold if row[number] < first]
        assert below == [row for row in expected[name] if row[number] < first], f"cold {name}"
        ends = max((row[number] for row in cold), default=-1)
        whole = [row for row in expected[name] if row[number] <= ends]
        assert cold == whole, f"cold {name} beyond the seam"


def caught_up(held: Held, head: int, timeout_s: float = 240) -> None:
    wait_for(f"block {head} and all that follows", lambda: held.settled(head), timeout_s)


def _rows(table: pa.Table, name: str) -> list[Row]:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(rows, key=_key(name))


def _key(name: str) -> Any:
    places = [TABLES[name].names.index(column) for column in KEYS[name]]
    return lambda row: tuple(row[place] for place in places)
