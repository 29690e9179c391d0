"""What was said to be wrong is read from the chain again, whole and of one fork."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pyarrow as pa
import pytest

from tests.support.follower_chain import ForkingChain
from tests.support.follower_run import TABLES, Job, opened, rebuilt
from tests.support.frame_task import FrameTasks, given, output
from tests.support.scripted_rpc import ScriptedRpc, scripted_rpc
from tests.support.shared_data import SharedData, shared_data
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_tables import trim
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, RangeNotReady
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.ingest.parquet_compact import Config, ParquetCompact
from trace_platform.operators.spark.session import SparkRuntime

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

pytestmark = pytest.mark.spark
CHAIN_ID = 31337
BLOCKS = BlockRange(0, 19)


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[SharedData]:
    with shared_data(postgres) as made:
        yield made


@dataclass
class Followed:
    """Blocks of a chain in hot tables, and the node that still has it."""

    chain: ForkingChain
    node: ScriptedRpc
    job: Job
    tasks: FrameTasks
    forgets_logs: bool = False

    def answer(self, method: str, params: list[Any]) -> Any:
        found = self.chain.answer(method, params)
        if self.forgets_logs and method == "eth_getBlockReceipts":
            return [receipt | {"logs": []} for receipt in found or []]
        return found

    def follow(self) -> None:
        with self.job.steps() as follower:
            follower.turn()

    def repaired(self) -> dict[str, pa.Table]:
        """What a task writes that is told that the files are wrong."""
        return self.compacted(uuid4())

    def compacted(self, invalidation: UUID | None = None) -> dict[str, pa.Table]:
        reads = [
            given(
                *(1 + i, BLOCKS.start, BLOCKS.end),
                trigger=False,
                table=True,
                dataset_uuid=each.dataset_uuid,
                dataset_version=each.dataset_version,
            )
            for i, each in enumerate(self.job.outputs)
        ]
        woke = given(0, BLOCKS.start, BLOCKS.end, trigger=True, invalidation=invalidation)
        outputs = [output(i, name) for i, name in enumerate(TABLES)]
        config = Config(rpc_pool="x", chain_id=CHAIN_ID)
        with self.tasks.task([woke, *reads], outputs, config) as task:
            asked = replace(task, rpc=lambda _: RpcEndpoint(self.node.url))
            commits = ParquetCompact().run(asked).outputs
        return {name: self.tasks.read(c) for name, c in zip(TABLES, commits, strict=True)}

    def trim(self, up_to: int) -> None:
        versions = [each.dataset_version for each in self.job.outputs]
        hashes = list(enumerate(self.chain.hashes()))
        trim(DataDatabase(self.job.data.dsn), versions, up_to, hashes[: up_to + 1])

    def is_right(self, found: dict[str, pa.Table]) -> bool:
        return {name: table.to_pylist() for name, table in found.items()} == rebuilt(
            self.node.url, BLOCKS
        )


@pytest.fixture
def followed(data: SharedData, spark_runtime: SparkRuntime, tmp_path: Path) -> Iterator[Followed]:
    chain = ForkingChain(40)
    tasks = FrameTasks(
        spark_runtime, LocalStore(str(tmp_path / "store")), DataDatabase(data.writer)
    )
    with (
        opened(data.writer) as reached,
        scripted_rpc(lambda method, params: world.answer(method, params)) as node,
    ):
        world = Followed(chain, node, Job(reached, node.url, {"start_block": 0}), tasks)
        yield world


@pytest.mark.parametrize(
    "trimmed_to",
    [
        pytest.param(None, id="hot", marks=pytest.mark.long),
        pytest.param(9, id="on both sides"),
        pytest.param(29, id="cold", marks=pytest.mark.long),
    ],
)
def test_rows_that_are_wrong_in_the_table_too_are_right_in_the_files(
    followed: Followed, trimmed_to: int | None
) -> None:
    followed.forgets_logs = True
    followed.follow()
    followed.forgets_logs = False
    assert followed.job.rows("logs") == []
    if trimmed_to is not None:
        followed.trim(trimmed_to)
    found = followed.repaired()
    assert found["logs"].num_rows > 0
    assert followed.is_right(found)


@pytest.mark.parametrize("first", [15, 20], ids=["on both sides", "cold"])
def test_history_from_before_the_table_is_read_from_the_chain(
    followed: Followed, first: int
) -> None:
    followed.job = Job(followed.job.data, followed.node.url, {"start_block": first})
    with pytest.raises(RangeNotReady):  # nothing is followed yet, so nothing is history
        followed.compacted()
    followed.follow()
    assert followed.job.rows("blocks")[0]["block_number"] == first
    assert followed.is_right(followed.compacted())


def test_tables_of_two_forks_are_never_committed_together(followed: Followed) -> None:
    followed.follow()
    other = ForkingChain(10)
    other.grow(30, "b")
    tables: list[str] = []

    def move(method: str, params: list[Any]) -> None:
        # Each table begins with this question: from the second one on another chain answers.
        if method == "eth_chainId":
            tables.append(method)
            if len(tables) == 2:
                followed.chain.view = lambda: other.blocks

    followed.chain.before = move
    with pytest.raises(MalformedBlock, match="block 10 is not the same one in all tables"):
        followed.repaired()
    assert len(tables) == len(TABLES)


def test_a_chain_that_moves_within_a_table_is_told_by_its_name(followed: Followed) -> None:
    """The error is raised on an executor, between the blocks of a batch and their receipts."""
    followed.follow()
    other = ForkingChain(10)
    other.grow(30, "b")

    def move(method: str, params: list[Any]) -> None:
        if method == "eth_getBlockReceipts" and int(params[0], 16) >= 10:
            followed.chain.view = lambda: other.blocks

    followed.chain.before = move
    with pytest.raises(MalformedBlock, match=r"block 1[0-9]") as caught:
        followed.repaired()
    assert "not the same one in all tables" not in caught.value.message
