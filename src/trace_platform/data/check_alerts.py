"""Alerts of checks: one when a check begins to fail on a partition, one when it passes again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_platform.data.alerts import Alert, Severity, record_in
from trace_platform.data.connection import DataConnection
from trace_platform.data.database import DataDatabase
from trace_platform.data.sync_queries import load_sync_queries

_sql = load_sync_queries(__file__)
CODE = "check_failed"


@dataclass(frozen=True, slots=True)
class Checked:
    """How one check of one partition came out. `watch` names both and ends with a colon."""

    watch: str
    passed: bool
    severity: Severity
    message: str
    facts: Mapping[str, Any]
    dataset_uuid: UUID


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


def _number(key: str | None, watch: str) -> int:
    """Of the newest incident; the first is 1."""
    return 0 if key is None else int(key.removeprefix(watch).partition(":")[0])


def _alert(each: Checked, number: int) -> Alert:
    which = "end" if each.passed else "begin"
    return Alert(
        severity="info" if each.passed else each.severity,
        code=f"{CODE}_ended" if each.passed else CODE,
        message=each.message,
        dedupe_key=f"{each.watch}{number}:{which}",
        facts=each.facts,
        dataset_uuid=each.dataset_uuid,
    )
