"""Alerts that tell of one incident from its beginning to its end, and survive who watches.

What is open is read from the alerts themselves: another attempt goes on where the last one ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from trace_platform.data.alerts import Alert, Severity, record
from trace_platform.data.connection import DataConnection
from trace_platform.data.database import DataDatabase
from trace_platform.data.sync_queries import load_sync_queries

_sql = load_sync_queries(__file__)


def database_now(database: DataDatabase) -> float:
    """Seconds since 1970, by the database's clock."""
    return float(_ask(database, "now"))


def last_hot_block(database: DataDatabase, dataset_uuid: UUID) -> int | None:
    """None where there is no table, or nothing in it."""
    row = _ask(database, "last_block", dataset_uuid=dataset_uuid)
    return row["last_block"] if row else None


def at_block(block: int | None) -> str:
    """Where something stands, in words."""
    return "at no block yet" if block is None else f"at block {block}"


def count_others(database: DataDatabase, watch: str, own: str) -> int:
    """How many others than `own` a watch had, by what follows it in a dedupe_key, up to a colon."""
    return int(_ask(database, "count_others", watch=watch, own=own))


class Incidents:
    """Of one thing that is watched: at most one is open, and each change is told once.

    `watch` names the thing and ends with a colon. Two that watch the same tell it once together.
    """

    def __init__(
        self, database: DataDatabase, watch: str, dataset_uuid: UUID | None = None
    ) -> None:
        self._database = database
        self._watch = watch
        self._dataset_uuid = dataset_uuid
        self._open = self._newest()

    @property
    def is_open(self) -> bool:
        return self._open is not None

    @property
    def where(self) -> str | None:
        """Of the one that is open, as it was begun."""
        return None if self._open is None else self._open.rpartition(".")[0]

    def begin(
        self, where: str, severity: Severity, code: str, message: str, facts: Mapping[str, Any]
    ) -> bool:
        """Whether it was not open before. `where` tells it from others of the watch: the block at
        which something stands still."""
        if self._open is not None:
            return False
        number = _ask(self._database, "next_number", incident=f"{self._watch}{where}.")
        self._open = f"{where}.{number}"
        self._record(f"{self._open}:begin", severity, code, message, facts)
        return True

    def end(self, code: str, message: str, facts: Mapping[str, Any]) -> bool:
        """Whether one was open."""
        if self._open is None:
            return False
        own, self._open = self._open, None
        self._record(f"{own}:end", "info", code, message, facts)
        return True

    def _record(
        self, key: str, severity: Severity, code: str, message: str, facts: Mapping[str, Any]
    ) -> None:
        alert = Alert(
            severity=severity,
            code=code,
            message=message,
            dedupe_key=self._watch + key,
            facts=facts,
            dataset_uuid=self._dataset_uuid,
        )
        record(self._database, alert)

    def _newest(self) -> str | None:
        key: str | None = _ask(self._database, "newest", watch=self._watch)
        if key is None or key.endswith(":end"):
            return None
        return key.removeprefix(self._watch).removesuffix(":begin")


def _ask(database: DataDatabase, query: str, **parameters: Any) -> Any:
    with DataConnection(database, "trace-alerts") as connection, connection.transaction() as tx:
        return getattr(_sql, query)(tx, **parameters)
