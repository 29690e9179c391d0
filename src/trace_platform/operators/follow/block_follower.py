"""`block_follower`: hot blocks, transactions and logs at the tip of a chain, through reorgs of any
depth. A source; runs without Spark.

All that it knows lies in Postgres data beside the rows, so that any attempt can go on where the one
before it ended, wherever that was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import ClassVar, Literal

from pydantic import Field

from trace_platform.data.hot_tables import HotTable, HotWriter
from trace_platform.data.incidents import Incidents
from trace_platform.operators import scope
from trace_platform.operators.accepts import ONLY_A_SOURCE, RANGE, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.evm.schema import DEFAULT_TABLES, TABLES
from trace_platform.operators.evm_header.proofs import Proofs
from trace_platform.operators.follow.announce import Announcer
from trace_platform.operators.follow.background_work import BackgroundWork, Drained
from trace_platform.operators.follow.chain import Chain
from trace_platform.operators.follow.confirm import Confirmations
from trace_platform.operators.follow.finality import Finality
from trace_platform.operators.follow.following import Following
from trace_platform.operators.follow.trouble import Trouble
from trace_platform.operators.staging import manifest_columns
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.task import BlockNumber, TaskOutput

_KEYS = {
    "blocks": ("block_number",),
    "transactions": ("block_number", "transaction_index"),
    # Some chains count logs by transaction.
    "logs": ("block_number", "transaction_index", "log_index"),
}


class Config(OperatorConfig):
    chain_id: int = Field(
        ge=1,
        le=2**63 - 1,
        description="Id of the chain, checked against the node before anything else.",
    )
    rpc_pool: str = Field(min_length=1, description="Name of the RPC pool whose nodes are asked.")
    start_block: BlockNumber | Literal["latest"] = Field(
        default="latest",
        description="First block of a table that is empty: its number, or `latest` for the "
        "chain's head. A table that has rows is continued after its last block.",
    )
    poll_seconds: float = Field(
        default=0.15,
        ge=0.01,
        le=60,
        description="Seconds from one question for a new block to the next.",
    )
    batch_blocks: int = Field(
        default=50, ge=1, le=1_000, description="Blocks per JSON-RPC batch while it catches up."
    )
    in_flight: int = Field(
        default=2,
        ge=1,
        le=32,
        description="JSON-RPC batches under way at once while it catches up.",
    )
    timeout_s: float = Field(default=20.0, gt=0, description="Seconds that a node may be silent.")
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
    hash_window: int = Field(
        default=8_192,
        ge=2,
        le=1_000_000,
        description="Hashes of the newest blocks that are kept. A fork within them is found "
        "exactly.",
    )
    confirmations: int = Field(
        default=2,
        ge=1,
        le=100,
        description="Times that a fork has to be seen again before anything is rewritten.",
    )
    fork_alert_seconds: float = Field(
        default=60.0,
        ge=0,
        description="Seconds without a written block, because of a fork that is not "
        "confirmed, after which there is an alert.",
    )
    stuck_alert_seconds: float = Field(
        default=60.0,
        ge=0,
        description="Seconds without progress, whatever the node does, after which there is "
        "an alert.",
    )
    finality_depth: int | None = Field(
        default=None,
        ge=1,
        description="Depth in blocks beyond which a reorg is an alert. Null: the depth of "
        "the block that the node calls finalized.",
    )
    emit_every_blocks: int = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="New blocks after which the outputs' readers are told.",
    )
    emit_max_seconds: float = Field(
        default=10.0,
        gt=0,
        le=86_400,
        description="Seconds after the first new block at which readers are told, however "
        "few blocks there are.",
    )

    def columns(self) -> list[list[ManifestColumn]]:
        return [manifest_columns(TABLES[table]) for table in DEFAULT_TABLES]


class BlockFollower:
    name: ClassVar[str] = "block_follower"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = DEFAULT_TABLES
    accepts: ClassVar[Accepts] = ONLY_A_SOURCE
    emits: ClassVar[Updates | None] = RANGE
    writes: ClassVar[Writes | None] = "tables"

    def run(self, task: TaskContext) -> Result:
        with following(task) as follower:
            try:
                follower.begin()
                while True:
                    follower.turn()
            except Drained:
                follower.finish()
        return Result()


@contextmanager
def following(task: TaskContext) -> Iterator[Following]:
    """What the task asks for, not begun yet."""
    background = BackgroundWork(task.check, task.draining)
    with closing(_chain(task, background)) as chain, _writer(task) as writer:
        yield _following(task, chain, writer, background)


def _chain(task: TaskContext, background: BackgroundWork) -> Chain:
    config: Config = task.config
    return Chain(
        task.rpc(config.rpc_pool),
        config.chain_id,
        background,
        batch_blocks=config.batch_blocks,
        in_flight=config.in_flight,
        timeout_s=config.timeout_s,
        proofs=Proofs.of(config.chain_id, config.header_hash, config.roots),
    )


def _writer(task: TaskContext) -> HotWriter:
    tables = [
        HotTable(output.dataset_uuid, output.dataset_version, TABLES[table], _KEYS[table])
        for table, output in zip(DEFAULT_TABLES, _outputs(task), strict=True)
    ]
    kept: int = task.config.hash_window
    return HotWriter(task.data(), tables, task.task_id, task.attempt, kept)


def _following(
    task: TaskContext, chain: Chain, writer: HotWriter, background: BackgroundWork
) -> Following:
    config: Config = task.config
    outputs = _outputs(task)
    return Following(
        chain,
        writer,
        {
            table: output.dataset_version
            for table, output in zip(DEFAULT_TABLES, outputs, strict=True)
        },
        Announcer(
            writer,
            outputs,
            task.emit,
            every_blocks=config.emit_every_blocks,
            max_wait_s=config.emit_max_seconds,
        ),
        background,
        _confirmations(task, chain, background),
        Finality(config.finality_depth, chain.finalized),
        _trouble(task),
        task.log,
        start_block=config.start_block,
        hash_window=config.hash_window,
        repair_ahead=config.batch_blocks,
        progress=task.progress,
    )


def _trouble(task: TaskContext) -> Trouble:
    config: Config = task.config
    blocks = scope.output(task, DEFAULT_TABLES.index("blocks"))
    return Trouble(
        task.log,
        Incidents(task.data(), f"source_stuck:{blocks.dataset_version}:", blocks.dataset_uuid),
        task.stuck,
        first_pause_s=config.poll_seconds,
        alert_after_s=config.stuck_alert_seconds,
    )


def _confirmations(task: TaskContext, chain: Chain, background: BackgroundWork) -> Confirmations:
    config: Config = task.config
    blocks = scope.output(task, DEFAULT_TABLES.index("blocks"))
    return Confirmations(
        chain,
        background,
        task.log,
        Incidents(task.data(), f"fork_unconfirmed:{blocks.dataset_version}:", blocks.dataset_uuid),
        times=config.confirmations,
        pause_s=config.poll_seconds,
        alert_after_s=config.fork_alert_seconds,
    )


def _outputs(task: TaskContext) -> list[TaskOutput]:
    return [scope.output(task, i) for i in range(len(DEFAULT_TABLES))]
