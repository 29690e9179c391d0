"""`liveliness_monitor`: a source that tells when a chain or a hot table stands still, or lags.

It speaks of changes alone: one alert when something stops, one record when it goes on. What is
open is read from the alerts, so that another attempt does not tell it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from trace_platform.data.database import DataDatabase
from trace_platform.data.incidents import Incidents, at_block, database_now, last_hot_block
from trace_platform.domain.errors import MalformedBlock, RpcUnreachable
from trace_platform.operators import scope
from trace_platform.operators.accepts import ONLY_A_SOURCE, TICK, Accepts, Updates
from trace_platform.operators.checks.rounds import rounds
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.wire.task import DatasetEvent, TaskOutput

_ANSWER_S = 5.0


class Config(OperatorConfig):
    every_seconds: float = Field(
        default=10.0, ge=0.01, description="Seconds from one look to the next."
    )
    chain_id: int | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="Id of the chain; needed where the chain's head is watched.",
    )
    rpc_pool: str | None = Field(
        default=None,
        min_length=1,
        description="Name of the RPC pool that is asked for the chain's head; needed where "
        "the head is watched.",
    )
    head_max_age_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for which the chain's head may stand still; not watched unless given.",
    )
    tables: tuple[UUID, ...] = Field(
        default=(),
        description="Ids of the hot datasets to watch; goes with `max_lag_blocks` or "
        "`max_age_seconds`.",
    )
    max_lag_blocks: int | None = Field(
        default=None,
        ge=0,
        description="Blocks that a table's last block may be behind the chain's head; not "
        "watched unless given.",
    )
    max_age_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for which a table's last block may stand still; not watched "
        "unless given.",
    )
    severity: Literal["warning", "critical"] = Field(
        default="warning", description="Severity of the alerts."
    )

    @model_validator(mode="after")
    def _watches_something(self) -> Self:
        of_tables = (self.max_lag_blocks, self.max_age_seconds)
        if self.head_max_age_seconds is None and of_tables == (None, None):
            raise ValueError("give head_max_age_seconds, max_lag_blocks or max_age_seconds")
        needs_head = self.head_max_age_seconds is not None or self.max_lag_blocks is not None
        if needs_head and (self.rpc_pool is None or self.chain_id is None):
            raise ValueError("the chain's head needs rpc_pool and chain_id")
        if bool(self.tables) != (of_tables != (None, None)):
            raise ValueError("tables, and max_lag_blocks or max_age_seconds, come together")
        return self


@dataclass(frozen=True, slots=True)
class Seen:
    """What one round saw. None: nobody could tell."""

    now: float
    head: int | None
    last_blocks: dict[UUID, int | None]


class LivelinessMonitor:
    name: ClassVar[str] = "liveliness_monitor"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("changes",)
    accepts: ClassVar[Accepts] = ONLY_A_SOURCE
    emits: ClassVar[Updates | None] = TICK
    has_rows: ClassVar[bool] = False

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        output, database = scope.output(task, 0), task.data()
        client = None if config.rpc_pool is None else _client(task, config.rpc_pool)
        try:
            if client is not None and config.chain_id is not None:
                client.check_chain(config.chain_id)
            watches = list(_watches(config, database))
            every = rounds(task, config.every_seconds, lambda: self.now(database), self.nap)
            for _, now in every:
                seen = _look(now, database, client, config)
                changes = [change for watch in watches if (change := watch.see(seen))]
                for change in changes:
                    task.log.warning("liveliness_changed", change=change)
                if changes:
                    first = int(now * 1_000)
                    task.emit([_event(output, first + n) for n in range(len(changes))])
        finally:
            if client is not None:
                client.close()
        return Result()

    def now(self, database: DataDatabase) -> float:
        return database_now(database)

    def nap(self, seconds: float) -> None:
        time.sleep(seconds)


def _client(task: TaskContext, pool: str) -> RpcClient:
    """Without patience: a node that does not answer now is asked in the next round."""
    return RpcClient(task.rpc(pool), timeout_s=_ANSWER_S, backoff_s=())


def _event(output: TaskOutput, cursor: int) -> DatasetEvent:
    return DatasetEvent(
        dataset_uuid=output.dataset_uuid, dataset_version=output.dataset_version, cursor=cursor
    )


def _look(now: float, database: DataDatabase, client: RpcClient | None, config: Config) -> Seen:
    found = {uuid: last_hot_block(database, uuid) for uuid in config.tables}
    return Seen(now, _head(client), found)


def _head(client: RpcClient | None) -> int | None:
    """A node that does not answer tells of no progress, which is what is asked."""
    if client is None:
        return None
    try:
        return client.number("eth_blockNumber")
    except (RpcUnreachable, MalformedBlock):
        return None


class _Standing:
    """Something that ought to move has not moved for too long."""

    def __init__(
        self,
        incidents: Incidents,
        what: str,
        code: str,
        max_age_s: float,
        config: Config,
        dataset_uuid: UUID | None = None,
    ) -> None:
        self._incidents = incidents
        self._what = what
        self._code = code
        self._max_age_s = max_age_s
        self._severity = config.severity
        self._dataset_uuid = dataset_uuid
        self._at: int | None = None
        self._since: float | None = None

    def see(self, seen: Seen) -> str | None:
        uuid = self._dataset_uuid
        place = seen.head if uuid is None else seen.last_blocks[uuid]
        facts = {"block": place, "max_age_seconds": self._max_age_s}
        if self._since is None:
            # Nobody knows how long it has stood there: it is given the whole time.
            self._at, self._since = place, seen.now
            return None
        if place is not None and place != self._at:
            self._at, self._since = place, seen.now
            said = f"{self._what} moves again, at block {place}"
            return said if self._incidents.end(f"{self._code}_ended", said, facts) else None
        if seen.now - self._since <= self._max_age_s:
            return None
        told = "" if place is not None else " (nobody answers)"
        stands = f"{self._what} stands {at_block(self._at)}"
        said = f"{stands} for more than {self._max_age_s:g} s{told}"
        begun = self._incidents.begin(str(self._at), self._severity, self._code, said, facts)
        return said if begun else None


class _Lagging:
    """A table is too far behind the head of its chain."""

    def __init__(self, incidents: Incidents, uuid: UUID, max_lag: int, config: Config) -> None:
        self._incidents = incidents
        self._uuid = uuid
        self._max_lag = max_lag
        self._severity = config.severity

    def see(self, seen: Seen) -> str | None:
        last = seen.last_blocks[self._uuid]
        if seen.head is None:
            return None
        lag = seen.head - (-1 if last is None else last)
        facts = {"head": seen.head, "last_block": last, "lag": lag, "max_lag": self._max_lag}
        if lag <= self._max_lag:
            said = f"dataset {self._uuid} has caught up: {lag} blocks behind block {seen.head}"
            return said if self._incidents.end("table_lags_ended", said, facts) else None
        said = f"dataset {self._uuid} is {lag} blocks behind block {seen.head}"
        begun = self._incidents.begin(str(last), self._severity, "table_lags", said, facts)
        return said if begun else None


def _watches(config: Config, database: DataDatabase) -> Iterator[_Standing | _Lagging]:
    if config.head_max_age_seconds is not None:
        watched = Incidents(database, f"liveliness:head:{config.chain_id}:{config.rpc_pool}:")
        what = f"the head of chain {config.chain_id} in pool {config.rpc_pool}"
        yield _Standing(watched, what, "chain_stalled", config.head_max_age_seconds, config)
    for uuid in config.tables:
        if config.max_age_seconds is not None:
            watched = Incidents(database, f"liveliness:age:{uuid}:", uuid)
            limit, what = config.max_age_seconds, f"dataset {uuid}"
            yield _Standing(watched, what, "dataset_stalled", limit, config, uuid)
        if config.max_lag_blocks is not None:
            watched = Incidents(database, f"liveliness:lag:{uuid}:", uuid)
            yield _Lagging(watched, uuid, config.max_lag_blocks, config)
