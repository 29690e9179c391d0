"""`cryo_ingest`: a block range to blocks, transactions, logs and traces, as cryo's files hold them.

Each Spark task reads its part of the range once and writes all tables from the same answers;
only facts about the files come back to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import pyarrow as pa
from pydantic import Field, field_validator

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, MalformedBlock, TraceError
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators import scope
from trace_platform.operators.accepts import ONE_RANGE, RANGE, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.evm.fetch import Chunk, RangeFetcher
from trace_platform.operators.evm.partitions import partitions
from trace_platform.operators.evm.rpc import RpcClient, majority_client
from trace_platform.operators.evm.schema import DEFAULT_TABLES, TABLES, Table
from trace_platform.operators.evm_header.proofs import Proofs
from trace_platform.operators.io.parquet_file import ParquetFile, WrittenFile
from trace_platform.operators.spark.failures import readable_failures
from trace_platform.operators.staging import manifest_columns, seal_output
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.task import OutputCommit

# Values that hardly repeat within a file.
_PLAIN = frozenset(
    {
        *("transaction_hash", "value_binary", "value_string", "value_f64", "input", "data"),
        *("state_root", "transactions_root", "receipts_root", "withdrawals_root"),
        *("action_value", "action_value_binary", "action_value_f64"),
        *("action_input", "action_init", "result_output", "result_code"),
        *("logs_bloom", "contract_address"),
    }
)

# A task becomes at most so many.
_MAX_PARTS = 9_999


class Config(OperatorConfig):
    chain_id: int = Field(
        ge=1,
        le=2**63 - 1,
        description="Id of the chain, checked against the node before anything else.",
    )
    rpc_pool: str = Field(min_length=1, description="Name of the RPC pool whose nodes are asked.")
    batch_blocks: int = Field(
        default=50,
        ge=1,
        le=1_000,
        description="Blocks per JSON-RPC batch. A node that finds an answer too large is "
        "asked for fewer.",
    )
    in_flight: int = Field(
        default=2,
        ge=1,
        le=32,
        description="JSON-RPC batches that one Spark task has under way. More of them hide a "
        "slow network.",
    )
    max_partitions: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Spark tasks for a range, and files per table, at most.",
    )
    timeout_s: float = Field(
        default=60.0,
        gt=0,
        description="Seconds that a node may be silent; a whole answer may take five times that.",
    )
    tables: tuple[Table, ...] = Field(
        default=DEFAULT_TABLES,
        min_length=1,
        description="Tables to write, an output each, in this order.",
    )
    header_hash: bool | None = Field(
        default=None,
        description="Whether each header must hash to its block's hash. Null: on Ethereum "
        "and its test networks.",
    )
    roots: bool | None = Field(
        default=None,
        description="Whether receipts and transactions must make the header's roots. Null: "
        "on Ethereum and its test networks.",
    )
    max_blocks_per_task: int | None = Field(
        default=50_000,
        ge=1,
        description="Blocks of one task at most: a larger range becomes several tasks, cut "
        "at multiples of it. Null: one task, however large.",
    )

    @field_validator("tables")
    @classmethod
    def _each_once(cls, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        if len(set(tables)) < len(tables):
            raise ValueError("a table is named twice")
        return tables

    def outputs(self) -> tuple[str, ...]:
        return self.tables

    def columns(self) -> list[list[ManifestColumn]]:
        return [manifest_columns(TABLES[table]) for table in self.tables]


@dataclass(frozen=True, slots=True)
class Part:
    """What one Spark task is told."""

    rpc: RpcEndpoint
    config: Config
    store: ObjectStore
    prefixes: dict[str, str]  # by table
    blocks: BlockRange


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """What one Spark task tells: a file per table, and the hashes at its edges."""

    blocks: BlockRange
    files: dict[str, WrittenFile]
    parent_hash: bytes  # of its first block
    last_hash: bytes


class CryoIngest:
    name: ClassVar[str] = "cryo_ingest"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = DEFAULT_TABLES
    accepts: ClassVar[Accepts] = ONE_RANGE
    emits: ClassVar[Updates | None] = RANGE
    writes: ClassVar[Writes | None] = "files"

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        blocks = scope.block_range(task)
        _check_outputs(task, config)
        if config.max_blocks_per_task is not None and len(blocks) > config.max_blocks_per_task:
            return Result(split=_split(blocks, config.max_blocks_per_task))
        rpc = task.rpc(config.rpc_pool)
        client = RpcClient(rpc, timeout_s=config.timeout_s)
        try:
            client.check_chain(config.chain_id)
        finally:
            client.close()
        task.check()
        written = _write_on_spark(task, rpc, config, blocks)
        task.check()
        _check_edges(written)
        return Result(
            outputs=[
                _seal(task, i, table, blocks, written) for i, table in enumerate(config.tables)
            ]
        )


def _check_outputs(task: TaskContext, config: Config) -> None:
    if len(task.outputs) != len(config.tables):
        raise InvalidConfig(
            f"the job has {len(task.outputs)} outputs, its tables are {', '.join(config.tables)}",
            hint="declare an output for each of config.tables, in the same order",
        )


def _split(blocks: BlockRange, size: int) -> list[BlockRange]:
    if len(blocks) // size >= _MAX_PARTS:
        raise InvalidConfig(
            f"{len(blocks)} blocks in tasks of {size} are more than {_MAX_PARTS} tasks",
            hint="raise max_blocks_per_task, or ask for less at once",
        )
    return list(blocks.split(size))


def _write_on_spark(
    task: TaskContext, rpc: RpcEndpoint, config: Config, blocks: BlockRange
) -> list[WrittenPart]:
    """As a plain RDD: half the fixed cost of a data source query; no plan has the endpoint."""
    context = task.spark().sparkContext
    prefixes: dict[str, str] = {
        table: scope.output(task, i).prefix for i, table in enumerate(config.tables)
    }
    parts = [
        Part(rpc, config, task.store, prefixes, piece)
        for piece in partitions(
            blocks,
            cores=context.defaultParallelism,
            batch_blocks=config.batch_blocks,
            max_partitions=config.max_partitions,
        )
    ]
    with readable_failures(task.check):
        told = context.parallelize(parts, len(parts)).map(_write_or_error).collect()
    for outcome in told:
        if isinstance(outcome, TraceError):
            raise outcome
    return sorted(told, key=lambda part: part.blocks)


def _write_or_error(part: Part) -> WrittenPart | TraceError:
    """On an executor. A named error is an answer: raised there, Spark would run the part again
    before the driver hears of it."""
    from pyspark import TaskContext as SparkTask

    spark_task = SparkTask.get()
    retry = spark_task.attemptNumber() if spark_task is not None else 0
    try:
        return write_part(part, retry)
    except TraceError as error:
        return error


def write_part(part: Part, retry: int = 0) -> WrittenPart:
    config = part.config
    client = RpcClient(part.rpc, timeout_s=config.timeout_s)
    majority = majority_client(part.rpc, timeout_s=config.timeout_s)
    fetcher = RangeFetcher(
        client,
        config.chain_id,
        batch_blocks=config.batch_blocks,
        in_flight=config.in_flight,
        tables=config.tables,
        proofs=Proofs.of(config.chain_id, config.header_hash, config.roots),
        majority=majority,
    )
    edges = _Edges()
    try:
        with ExitStack() as stack:
            files: dict[str, ParquetFile] = {
                table: stack.enter_context(_open(part, table, retry)) for table in config.tables
            }
            for chunk in fetcher.chunks(part.blocks):
                edges.see(chunk.blocks)
                _write(files, chunk)
            written = {table: file.close() for table, file in files.items()}
    finally:
        client.close()
        if majority is not None:
            majority.close()
    return WrittenPart(part.blocks, written, edges.parent_hash, edges.last_hash)


def _open(part: Part, table: str, retry: int) -> ParquetFile:
    # A retried Spark task never writes over the file of a first try that may still be running;
    # which of them counts is what the manifest says.
    suffix = f".{retry}" if retry else ""
    name = f"{table}_{part.blocks.start}_{part.blocks.end}{suffix}.parquet"
    return ParquetFile(part.store, part.prefixes[table], name, TABLES[table], _PLAIN)


def _write(files: dict[str, ParquetFile], chunk: Chunk) -> None:
    for table, file in files.items():
        file.write(getattr(chunk, table))


class _Edges:
    parent_hash = b""
    last_hash = b""

    def see(self, blocks: pa.RecordBatch) -> None:
        self.parent_hash = self.parent_hash or blocks["parent_hash"][0].as_py()
        self.last_hash = blocks["block_hash"][-1].as_py()


def _check_edges(parts: Sequence[WrittenPart]) -> None:
    """Each part is of one fork; this makes sure that it is the same one."""
    for before, after in pairwise(parts):
        if after.parent_hash != before.last_hash:
            raise MalformedBlock(
                f"block {after.blocks.start} is not a child of the block before it",
                hint="the chain moved while it was read",
            )


def _seal(
    task: TaskContext, index: int, table: str, blocks: BlockRange, parts: Sequence[WrittenPart]
) -> OutputCommit:
    files = [part.files[table] for part in parts]
    return seal_output(task.store, scope.output(task, index), blocks, files, TABLES[table])
