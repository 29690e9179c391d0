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
from trace_platform.operators.follow.alongside import Alongside, Drained
from trace_platform.operators.follow.announce import Announcer
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
    chain_id: int = Field(ge=1, le=2**63 - 1)
    rpc_pool: str = Field(min_length=1)
    # Of a table that is empty; one that is not goes on after its last block.
    start_block: BlockNumber | Literal["latest"] = "latest"
    poll_seconds: float = Field(default=0.15, ge=0.01, le=60)
    # Blocks per JSON-RPC batch, and batches under way, while it catches up.
    batch_blocks: int = Field(default=50, ge=1, le=1_000)
    in_flight: int = Field(default=2, ge=1, le=32)
    timeout_s: float = Field(default=20.0, gt=0)
    # As for cryo_ingest.
    header_hash: bool | None = None
    roots: bool | None = None
    # Hashes that are kept: a fork within them is found exactly.
    hash_window: int = Field(default=8_192, ge=2, le=1_000_000)
    # How often a fork has to be seen again before anything is rewritten.
    confirmations: int = Field(default=2, ge=1, le=100)
    # Nothing could be written for so long because a fork is not confirmed: an alert.
    fork_alert_seconds: float = Field(default=60.0, ge=0)
    # It did not get on for so long, whatever the node does: an alert.
    stuck_alert_seconds: float = Field(default=60.0, ge=0)
    # A deeper reorg is an alert. None: what the node says is finalized.
    finality_depth: int | None = Field(default=None, ge=1)
    # Events wait until so many blocks are new, or the first of them for so long.
    emit_every_blocks: int = Field(default=1, ge=1, le=1_000_000)
    emit_max_seconds: float = Field(default=10.0, gt=0, le=86_400)

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
    alongside = Alongside(task.check, task.draining)
    with closing(_chain(task, alongside)) as chain, _writer(task) as writer:
        yield _following(task, chain, writer, alongside)


def _chain(task: TaskContext, alongside: Alongside) -> Chain:
    config: Config = task.config
    return Chain(
        task.rpc(config.rpc_pool),
        config.chain_id,
        alongside,
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
    task: TaskContext, chain: Chain, writer: HotWriter, alongside: Alongside
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
        alongside,
        _confirmations(task, chain, alongside),
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


def _confirmations(task: TaskContext, chain: Chain, alongside: Alongside) -> Confirmations:
    config: Config = task.config
    blocks = scope.output(task, DEFAULT_TABLES.index("blocks"))
    return Confirmations(
        chain,
        alongside,
        task.log,
        Incidents(task.data(), f"fork_unconfirmed:{blocks.dataset_version}:", blocks.dataset_uuid),
        times=config.confirmations,
        pause_s=config.poll_seconds,
        alert_after_s=config.fork_alert_seconds,
    )


def _outputs(task: TaskContext) -> list[TaskOutput]:
    return [scope.output(task, i) for i in range(len(DEFAULT_TABLES))]
