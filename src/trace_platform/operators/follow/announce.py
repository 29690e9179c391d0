"""Telling the Dispatcher what was written: in order, at least once, and never what was not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from uuid import UUID

from trace_platform.data.hot_rows import BLOCK
from trace_platform.data.hot_tables import Announcement, HotWriter
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.contract import Emit
from trace_platform.operators.staging import manifest_columns
from trace_platform.wire.task import DatasetEvent, Invalidation, OutputCommit, TaskOutput


class Announcer:
    """Sends what the writer owes. It is marked as sent after the Dispatcher has it: a crash in
    between repeats an announcement, and the Dispatcher knows that one."""

    def __init__(
        self,
        writer: HotWriter,
        outputs: Sequence[TaskOutput],
        emit: Emit,
        *,
        every_blocks: int = 1,
        max_wait_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._outputs = {output.dataset_version: output for output in outputs}
        self._emit = emit
        self._every_blocks = every_blocks
        self._max_wait_s = max_wait_s
        self._now = now
        self._waiting_blocks = 0
        self._waiting_since: float | None = None
        # Tables whose columns the Dispatcher was told.
        self._described: set[UUID] = set()

    def written(self, blocks: BlockRange) -> None:
        """These are new. They may wait for others."""
        self._waiting_blocks += len(blocks)
        self._waiting_since = self._waiting_since or self._now()
        if self._waiting_blocks >= self._every_blocks:
            self.flush(blocks.end)
        else:
            self.send_when_due(blocks.end)

    def send_when_due(self, last_block: int | None) -> None:
        since = self._waiting_since
        if since is not None and self._now() >= since + self._max_wait_s:
            self.flush(last_block)

    def flush(self, last_block: int | None) -> None:
        """All that is owed, whoever wrote it."""
        for again, owed in groupby(self._writer.pending(), key=lambda each: each.again):
            self._send(list(owed), again, last_block)
        self._waiting_blocks, self._waiting_since = 0, None

    def _send(self, owed: list[Announcement], again: bool, last_block: int | None) -> None:
        tables = [] if last_block is None else self._tables(owed, last_block)
        if again:
            self._emit([], [self._invalidation(each) for each in owed], tables)
        else:
            self._emit(self._events(owed), [], tables)
        self._writer.sent([each.id for each in owed])
        self._described.update(table.dataset_version for table in tables)

    def _events(self, owed: Iterable[Announcement]) -> list[DatasetEvent]:
        """One per dataset for updates that follow each other."""
        ranges: dict[UUID, list[BlockRange]] = {}
        for each in owed:
            known = ranges.setdefault(each.dataset_version, [])
            if known and known[-1].end + 1 == each.start:
                known[-1] = BlockRange(known[-1].start, each.end)
            else:
                known.append(BlockRange(each.start, each.end))
        return [self._event(version, blocks) for version in ranges for blocks in ranges[version]]

    def _event(self, version: UUID, blocks: BlockRange) -> DatasetEvent:
        return DatasetEvent(
            dataset_uuid=self._outputs[version].dataset_uuid,
            dataset_version=version,
            partition_key=blocks.key,
            start=blocks.start,
            end=blocks.end,
        )

    def _invalidation(self, owed: Announcement) -> Invalidation:
        return Invalidation(
            dataset_uuid=self._outputs[owed.dataset_version].dataset_uuid,
            dataset_version=owed.dataset_version,
            scope="row_range",
            start=owed.start,
            end=owed.end,
            reason=owed.reason,
            request_id=owed.id,
        )

    def _tables(self, owed: Iterable[Announcement], last_block: int) -> list[OutputCommit]:
        versions = {each.dataset_version for each in owed}
        sizes = self._writer.sizes()
        return [
            self._table(version, last_block, *sizes[version])
            for version in self._outputs
            if version in versions
        ]

    def _table(
        self, version: UUID, last_block: int, first_block: int | None, guessed: int
    ) -> OutputCommit:
        output, table = self._outputs[version], self._writer.tables[version]
        # Without a gap, and a row for each block: nobody has to count.
        counted = table.key == (BLOCK,)
        blocks = 0 if first_block is None else last_block - first_block + 1
        return OutputCommit(
            output_index=output.output_index,
            dataset_uuid=output.dataset_uuid,
            dataset_version=version,
            location=f"postgres_table:dataset_{output.dataset_uuid}",
            start=first_block,
            cursor=last_block,
            row_count=max(blocks, 0) if counted else guessed,
            rows_estimated=not counted,
            columns=None if version in self._described else manifest_columns(table.schema),
        )
