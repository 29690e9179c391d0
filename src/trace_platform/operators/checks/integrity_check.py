"""`integrity_check`: cold blocks, transactions, logs and traces against the chain.

What can be told from the files alone (links, gaps, duplicates, counts) is looked at for every row.
The chain is asked about all blocks, or about a sample and whatever looks wrong, and every column
is compared. What differs is invalidated: its producer makes it anew, and the task completes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import ClassVar, Literal

from pydantic import Field

from trace_platform.data.alerts import record
from trace_platform.data.incidents import count_others
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, MissingFile
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.operators.accepts import ANYTHING, Accepts, Updates
from trace_platform.operators.checks.integrity import stored
from trace_platform.operators.checks.integrity.chain import ALL_TABLES, Chain, Rows, rows_of
from trace_platform.operators.checks.integrity.compare import differences
from trace_platform.operators.checks.integrity.findings import Finding, Wrong, merged
from trace_platform.operators.checks.integrity.scan import COLUMNS, KEYS, Scan, scan, unequal_counts
from trace_platform.operators.checks.integrity.stored import Partition, Unreadable
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.evm.partitions import pieces
from trace_platform.operators.evm.schema import SINCE
from trace_platform.operators.evm_header.proofs import Proofs
from trace_platform.wire.task import Invalidation


class Config(OperatorConfig):
    chain_id: int = Field(
        ge=1, le=2**63 - 1, description="Id of the chain that the files are compared with."
    )
    rpc_pool: str = Field(min_length=1, description="Name of the RPC pool whose nodes are asked.")
    mode: Literal["sampled", "full"] = Field(
        default="sampled",
        description="Which blocks are compared with the chain's: a sample and everything "
        "that looks wrong, or all of them (`full`).",
    )
    sample_blocks: int = Field(
        default=16,
        ge=2,
        le=100_000,
        description="Blocks of each partition in the sample. Its first and last block are "
        "always among them.",
    )
    window_blocks: int = Field(
        default=200,
        ge=1,
        le=10_000,
        description="Blocks that are compared at once, and so held in memory.",
    )
    batch_blocks: int = Field(default=50, ge=1, le=1_000, description="Blocks per JSON-RPC batch.")
    header_hash: bool = Field(
        default=True,
        description="Whether each header from the node must hash to its block's hash. Off "
        "for chains whose headers have other fields than Ethereum's.",
    )
    # Not every chain's roots are made this way.
    roots: bool | None = Field(
        default=None,
        description="Whether the node's receipts and transactions must make the header's "
        "roots. Null: on Ethereum and its test networks.",
    )
    finality_blocks: int = Field(
        default=64,
        ge=0,
        description="Blocks below the head that count as final where the node does not know "
        "what is final.",
    )
    max_repairs: int = Field(
        default=3, ge=1, description="Times that one partition is made anew at most."
    )


class IntegrityCheck:
    name: ClassVar[str] = "integrity_check"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None
    accepts: ClassVar[Accepts] = ANYTHING
    emits: ClassVar[Updates | None] = None

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        partitions = _partitions(task)
        if not partitions:
            task.log.info("integrity_nothing_to_check")
            return Result()
        proofs = Proofs.of(config.chain_id, config.header_hash, config.roots)
        endpoint = task.rpc(config.rpc_pool)
        chain = Chain(
            endpoint,
            config.chain_id,
            proofs,
            batch_blocks=config.batch_blocks,
            with_traces=any(each.table == "traces" for each in partitions),
        )
        try:
            chain.check()
            found = _Check(task, config, chain).findings(partitions)
            invalidations = _report(task, config, chain, merged(found)) if found else []
        finally:
            chain.close()
        return Result(invalidations=invalidations)


def _partitions(task: TaskContext) -> list[Partition]:
    """Each location once, however many inputs name it."""
    found: dict[str, Partition] = {}
    for given in task.inputs:
        if not given.files:
            continue
        if given.table or given.where:
            kind = "a hot table" if given.table else "filtered with `where`"
            raise InvalidConfig(
                f"input {given.input_index} is {kind}: whole cold partitions are checked",
                hint="read the outputs of cryo_ingest or parquet_compact, as they are",
            )
        for partition in stored.partitions_of(given, task.store):
            if partition.table in ALL_TABLES:
                found[partition.location] = partition
    return list(found.values())


class _Check:
    """One run: what is wrong with these partitions."""

    def __init__(self, task: TaskContext, config: Config, chain: Chain) -> None:
        self._task = task
        self._config = config
        self._chain = chain
        self._found: list[Finding] = []
        # Known to be wrong as a whole: nothing more is to be found there.
        self._lost: set[str] = set()

    def findings(self, partitions: Sequence[Partition]) -> list[Finding]:
        scans = {p.location: self._scan(p) for p in partitions}
        targets = self._targets(partitions, scans)
        before: tuple[int, bytes] | None = None
        for spans in _portions(targets, self._config.window_blocks):
            self._task.check()
            rows = self._chain.rows(spans)
            before = _follow(self._chain, before, spans, rows)
            self._compare(spans, rows, partitions)
        self._task.log.info(
            "integrity_checked",
            mode=self._config.mode,
            **asdict(self._chain.proofs),
            partitions=len(partitions),
            blocks_compared=sum(map(len, targets)),
            findings=len(self._found),
        )
        return self._found

    def _scan(self, partition: Partition) -> Scan | None:
        """Of every row, without the chain. None for what is lost."""
        self._task.check()
        columns = COLUMNS[partition.table]
        try:
            batches = stored.key_batches(partition, self._task.store, columns)
            found = scan(partition.table, partition.blocks, batches)
        except Unreadable as error:
            self._give_up(error)
            return None
        if found.outside is not None:
            where = f"also blocks {found.outside.key}"
            self._lose(partition, "rows", where, f"no others than {partition.blocks.key} there")
            return None
        return found

    def _targets(
        self, partitions: Sequence[Partition], scans: dict[str, Scan | None]
    ) -> list[BlockRange]:
        """What the chain is asked about, in pieces that fit the memory."""
        whole = [p for p in partitions if p.location not in self._lost]
        suspects = list(_suspects(whole, scans))
        if suspects:
            shown = [span.span.key for span in merge_ranges(suspects)[:20]]
            self._task.log.warning("integrity_suspects", blocks=shown)
        if self._config.mode == "full":
            asked = [partition.blocks for partition in whole]
        else:
            asked = [b for p in whole for b in self._sample(p.blocks)] + suspects
        spans = [each.span for each in merge_ranges(asked)]
        return [piece for span in spans for piece in pieces(span, self._config.window_blocks)]

    def _sample(self, blocks: BlockRange) -> list[BlockRange]:
        """The same in every attempt of a task, so that a retry finds what the first one did;
        others in the next task, so that a schedule comes round to all of them."""
        # S311: nobody gains by guessing it.
        draw = random.Random(f"{self._task.task_id}:{blocks.key}")  # noqa: S311
        n = min(self._config.sample_blocks, len(blocks))
        drawn = draw.sample(range(blocks.start, blocks.end + 1), n)
        chosen = {blocks.start, blocks.end, *drawn[: max(n - 2, 0)]}
        return [BlockRange(number, number) for number in sorted(chosen)]

    def _compare(
        self, spans: Sequence[BlockRange], rows: Rows, partitions: Sequence[Partition]
    ) -> None:
        found = [f for p in partitions for f in self._differences(p, spans, rows)]
        for each in merge_ranges([finding.blocks for finding in found]):
            in_traces = any(found[place].partition.table == "traces" for place in each.members)
            self._chain.confirm(each.span, rows, with_traces=in_traces)
        self._found += found

    def _differences(
        self, partition: Partition, spans: Sequence[BlockRange], rows: Rows
    ) -> list[Finding]:
        here = list(_clipped(spans, partition.blocks))
        if not here or partition.location in self._lost:
            return []
        try:
            held = stored.rows(partition, self._task.store, here)
        except Unreadable as error:
            self._give_up(error)
            return []
        expected = rows_of(rows[partition.table], BlockRange(here[0].start, here[-1].end))
        return [
            Finding(partition, BlockRange(d.block, d.block), d.what, d.stored, d.chain)
            for d in differences(held, expected, KEYS[partition.table], SINCE[partition.table])
        ]

    def _give_up(self, error: Unreadable) -> None:
        if error.is_missing and self._task.attempt == 1:
            raise MissingFile(
                f"{error.file} is gone",
                hint="it may have been replaced; another attempt is told what there is now",
            )
        self._lose(error.partition, "file", f"unreadable ({error.why})", "rows for it")

    def _lose(self, partition: Partition, what: str, held: str, expected: str) -> None:
        self._lost.add(partition.location)
        self._found.append(Finding(partition, partition.blocks, what, held, expected))


def _suspects(
    partitions: Sequence[Partition], scans: dict[str, Scan | None]
) -> Iterator[BlockRange]:
    by_table: dict[str, list[Scan]] = {table: [] for table in ALL_TABLES}
    for partition in sorted(partitions, key=lambda p: p.blocks):
        found = scans[partition.location]
        if found is not None:
            by_table[partition.table].append(found)
            yield from found.suspects
    yield from _broken_between(by_table["blocks"])
    for said in by_table["blocks"]:
        for counted in by_table["transactions"]:
            yield from unequal_counts(said, counted)


def _broken_between(scans: Sequence[Scan]) -> Iterator[BlockRange]:
    """Where one partition ends and the next begins, unless it is the child."""
    for before, after in pairwise(scans):
        touch = before.blocks.end + 1 == after.blocks.start
        if touch and before.last_hash != after.first_parent:
            yield BlockRange(before.blocks.end, after.blocks.start)


def _portions(spans: Sequence[BlockRange], most: int) -> Iterator[list[BlockRange]]:
    """Spans in their order, of so many blocks together at most; none is longer than that."""
    portion: list[BlockRange] = []
    for span in spans:
        if portion and sum(map(len, portion)) + len(span) > most:
            yield portion
            portion = []
        portion.append(span)
    if portion:
        yield portion


def _clipped(spans: Sequence[BlockRange], blocks: BlockRange) -> Iterator[BlockRange]:
    for span in spans:
        start, end = max(span.start, blocks.start), min(span.end, blocks.end)
        if start <= end:
            yield BlockRange(start, end)


def _follow(
    chain: Chain, before: tuple[int, bytes] | None, spans: Sequence[BlockRange], rows: Rows
) -> tuple[int, bytes] | None:
    """The chain's own blocks link, also from one span to the next."""
    for span in spans:
        told = rows_of(rows["blocks"], span)
        touches = before is not None and before[0] + 1 == span.start
        if before is not None and touches and told["parent_hash"][0].as_py() != before[1]:
            raise chain.contradiction(f"block {span.start} is not a child of the block before it")
        before = span.end, told["block_hash"][-1].as_py()
    return before


def _report(
    task: TaskContext, config: Config, chain: Chain, wrong: Sequence[Wrong]
) -> list[Invalidation]:
    finalized = chain.finalized(config.finality_blocks)
    return [each.invalidation() for each in wrong if _tell(task, config, each, finalized)]


def _tell(task: TaskContext, config: Config, wrong: Wrong, finalized: int) -> bool:
    """Whether it is worth making anew: a producer that makes the same mistake again and again
    would be kept at it for ever."""
    database = task.data()
    is_given_up = count_others(database, wrong.watch, wrong.files) >= config.max_repairs
    record(database, wrong.alert(finalized, is_given_up=is_given_up))
    for finding in wrong.findings[:20]:
        task.log.error(
            "integrity_mismatch",
            table=finding.partition.table,
            blocks=finding.blocks.key,
            partition=finding.partition.blocks.key,
            what=finding.what,
            stored=finding.stored,
            chain=finding.chain,
            is_given_up=is_given_up,
        )
    return not is_given_up
