"""Alerts of checks: one when a check begins to fail on a partition, one when it passes again.

A wider range takes the place of those within it: what was told of these is over with its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_platform.data.alerts import Alert, Severity, record_in
from trace_platform.data.connection import DataConnection
from trace_platform.data.database import DataDatabase
from trace_platform.data.sync_queries import SyncTx, load_sync_queries
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import BadInput

_sql = load_sync_queries(__file__)
CODE = "check_failed"


@dataclass(frozen=True, slots=True)
class Checked:
    """How one check of one partition came out."""

    # With the name of the output that it looked at.
    check: str
    output: str
    dataset_uuid: UUID
    partition: str
    passed: bool
    severity: Severity
    said: str
    facts: Mapping[str, Any]

    @property
    def of_check(self) -> str:
        """How the keys of all its incidents begin."""
        return f"check:{self.dataset_uuid}:{self.check}:"

    @property
    def watch(self) -> str:
        return f"{self.of_check}{self.partition}:"

    def message(self, partition: str, said: str) -> str:
        return f"{self.output} {partition}: {self.check}: {said}"[:2_000]


def tell(database: DataDatabase, found: Sequence[Checked]) -> None:
    """What changed: nothing is said of a check that passes, or fails, as it did before."""
    with DataConnection(database, "trace-alerts") as connection, connection.transaction() as tx:
        rows = _sql.newest_of(tx, watches=[each.watch for each in found])
        newest = {row["watch"]: row["dedupe_key"] for row in rows}
        for each in found:
            known = newest.get(each.watch)
            is_open = known is not None and known.endswith(":begin")
            if each.passed == is_open:
                number = _number(known, each.watch)
                record_in(tx, _alert(each, number if is_open else number + 1), database)
            for narrower in _narrower(tx, each):
                record_in(tx, narrower, database)


def _number(key: str | None, watch: str) -> int:
    """Of the newest incident; the first is 1."""
    return 0 if key is None else int(key.removeprefix(watch).partition(":")[0])


def _alert(each: Checked, number: int) -> Alert:
    which = "end" if each.passed else "begin"
    return Alert(
        severity="info" if each.passed else each.severity,
        code=f"{CODE}_ended" if each.passed else CODE,
        message=each.message(each.partition, each.said),
        dedupe_key=f"{each.watch}{number}:{which}",
        facts=each.facts,
        dataset_uuid=each.dataset_uuid,
    )


def _narrower(tx: SyncTx, each: Checked) -> Iterator[Alert]:
    """The ends of incidents of ranges that lie within this one."""
    own = _range(each.partition)
    if own is None:
        return
    for row in _sql.open_of_check(tx, check=each.of_check):
        incident = row["dedupe_key"].removesuffix(":begin")
        partition = incident.removeprefix(each.of_check).rpartition(":")[0]
        span = _range(partition)
        if span is None or span == own or span.start < own.start or span.end > own.end:
            continue
        yield Alert(
            severity="info",
            code=f"{CODE}_ended",
            message=each.message(partition, f"{each.partition} took its place"),
            dedupe_key=f"{incident}:end",
            facts=each.facts,
            dataset_uuid=each.dataset_uuid,
        )


def _range(partition: str) -> BlockRange | None:
    with suppress(BadInput):
        return BlockRange.parse(partition)
    return None
