"""`block_follower` as a worker would run it: attempts of one task, one after the other; and a
reader that knows nothing but what was announced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import dict_row

from tests.support.operator_task import no_spark
from trace_platform.data.database import DataDatabase
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import StaleFence
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.evm.fetch import RangeFetcher
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.follow.block_follower import BlockFollower, Config, following
from trace_platform.operators.follow.following import Following
from trace_platform.wire.task import DatasetEvent, Invalidation, OutputCommit, TaskOutput

Row = dict[str, Any]
TABLES = ("blocks", "transactions", "logs")
ORDER = {
    "blocks": "block_number",
    "transactions": "block_number, transaction_index",
    "logs": "block_number, log_index",
}


@dataclass
class Said:
    """Lines of the log."""

    lines: list[tuple[str, str, Row]] = field(default_factory=list)

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append(("info", event, facts))

    def warning(self, event: str, **facts: Any) -> None:
        self.lines.append(("warning", event, facts))

    def error(self, event: str, **facts: Any) -> None:
        self.lines.append(("error", event, facts))

    def of(self, event: str) -> list[Row]:
        return [facts for _, said, facts in list(self.lines) if said == event]


@dataclass(frozen=True)
class Data:
    """Postgres data: as the follower reaches it, and a connection for those who look."""

    dsn: str
    reading: psycopg.Connection[Row]


@contextmanager
def opened(dsn: str) -> Iterator[Data]:
    with psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as reading:
        yield Data(dsn, reading)


@dataclass
class Job:
    """One source: its outputs, its task, and what its attempts told the Dispatcher."""

    data: Data
    url: str
    config: Row = field(default_factory=dict)
    # For an egress at that URL.
    token: SecretFile | None = None
    task_id: UUID = field(default_factory=uuid4)
    attempt: int = 0
    log: Said = field(default_factory=Said)
    emitted: list[DatasetEvent | Invalidation] = field(default_factory=list)
    tables: list[OutputCommit] = field(default_factory=list)
    drain: threading.Event = field(default_factory=threading.Event)
    check: Callable[[], None] = lambda: None
    before_emit: Callable[[], None] = lambda: None
    after_emit: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.outputs = tuple(
            TaskOutput(
                output_index=i,
                name=name,
                dataset_uuid=uuid4(),
                dataset_version=uuid4(),
                prefix=f"s3://data/{name}/",
            )
            for i, name in enumerate(TABLES)
        )
        self.reader = Reader(self)
        self._lock = threading.Lock()
        self._go_on, self._waits = threading.Event(), threading.Event()
        self._go_on.set()

    def task(self) -> TaskContext:
        """Of the next attempt."""
        with self._lock:
            self.attempt += 1
        given = {"chain_id": 31337, "rpc_pool": "test", "poll_seconds": 0.01, **self.config}
        return TaskContext(
            task_id=self.task_id,
            attempt=self.attempt,
            config=Config.model_validate(given),
            inputs=(),
            outputs=self.outputs,
            store=LocalStore(str(Path("/nowhere"))),
            spark=no_spark,
            rpc=lambda _: RpcEndpoint(self.url, self.token),
            check=self._check,
            draining=self.drain.is_set,
            emit=partial(self._emit, self.attempt),
            data=lambda: DataDatabase(self.data.dsn),
            log=self.log,
        )

    @contextmanager
    def steps(self) -> Iterator[Following]:
        """The next attempt, a turn at a time."""
        with following(self.task()) as follower:
            follower.begin()
            yield follower

    @contextmanager
    def running(self) -> Iterator[Running]:
        """The next attempt in a thread of its own, told to end when the block ends."""
        self.drain.clear()
        running = self.start()
        try:
            yield running
        finally:
            self.drain.set()
            running.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The attempt that runs waits at a check."""
        self._waits.clear()
        self._go_on.clear()
        assert self._waits.wait(30)
        try:
            yield
        finally:
            self._go_on.set()

    def start(self) -> Running:
        return Running(self.task())

    def rows(
        self, table: str, blocks: BlockRange | None = None, *, newest: bool = False
    ) -> list[Row]:
        version = self.version(table)
        first, last = (blocks.start, blocks.end) if blocks else (0, 2**62)
        order = "block_number DESC LIMIT 1" if newest else ORDER[table]
        return self.data.reading.execute(
            f"SELECT * FROM dataset_{version.hex} WHERE block_number BETWEEN {first} AND {last}"
            f" ORDER BY {order}"
        ).fetchall()

    def all_rows(self) -> dict[str, list[Row]]:
        return {table: self.rows(table) for table in TABLES}

    def alerts(self) -> list[Row]:
        query = "SELECT * FROM alert_events ORDER BY created_at"
        rows = self.data.reading.execute(query).fetchall()
        return [row for row in rows if str(self.version("blocks")) in row["dedupe_key"]]

    def version(self, table: str) -> UUID:
        return self.outputs[TABLES.index(table)].dataset_version

    def said(self, table: str = "blocks") -> list[tuple[str, int, int]]:
        """What was announced of a table, in order."""
        return [
            ("event" if isinstance(each, DatasetEvent) else "again", each.start or 0, each.end or 0)
            for each in self.emitted
            if each.dataset_version == self.version(table)
        ]

    def has(self, block_hash: bytes) -> bool:
        """Whether the newest row is of this block."""
        if not self.log.of("taken_over"):
            return False
        rows = self.rows("blocks", newest=True)
        return bool(rows) and rows[0]["block_hash"] == block_hash

    def _check(self) -> None:
        self.check()
        if not self._go_on.is_set():
            self._waits.set()
            self._go_on.wait()

    def _emit(
        self,
        attempt: int,
        events: Sequence[DatasetEvent] = (),
        invalidations: Sequence[Invalidation] = (),
        tables: Sequence[OutputCommit] = (),
    ) -> int:
        """As the Dispatcher: of the newest attempt alone."""
        self.before_emit()
        with self._lock:
            if attempt != self.attempt:
                raise StaleFence("another attempt owns the task now")
            for each in [*events, *invalidations]:
                self.emitted.append(each)
                self.reader.hear(each)
            self.tables.extend(tables)
        self.after_emit()
        return len(events) + len(invalidations)


class Running:
    def __init__(self, task: TaskContext) -> None:
        self.error: BaseException | None = None
        self._task = task
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive(), "the follower did not end"

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            BlockFollower().run(self._task)
        except BaseException as error:
            self.error = error


class Reader:
    """Has the rows of a range as they were when it was last told of that range. As the Dispatcher
    does, it takes no notice of what it was told before."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._heard: set[Any] = set()
        self.rows: dict[str, dict[int, list[Row]]] = {table: {} for table in TABLES}

    def hear(self, said: DatasetEvent | Invalidation) -> None:
        if isinstance(said, DatasetEvent):
            key: Any = (said.dataset_version, said.partition_key)
        else:
            key = said.request_id
            assert key is not None
        if key in self._heard:
            return
        self._heard.add(key)
        assert said.start is not None
        assert said.end is not None
        output = next(o for o in self._job.outputs if o.dataset_version == said.dataset_version)
        self._read(output.name, BlockRange(said.start, said.end))

    def all_rows(self) -> dict[str, list[Row]]:
        return {
            table: [row for number in sorted(blocks) for row in blocks[number]]
            for table, blocks in self.rows.items()
        }

    def _read(self, table: str, blocks: BlockRange) -> None:
        mine = self.rows[table]
        for number in range(blocks.start, blocks.end + 1):
            mine.pop(number, None)
        for row in self._job.rows(table, blocks):
            mine.setdefault(row["block_number"], []).append(row)


def rebuilt(url: str, blocks: BlockRange) -> dict[str, list[Row]]:
    """The rows as a fresh reading of the node gives them."""
    client = RpcClient(url)
    try:
        chunks = list(RangeFetcher(client, 31337).chunks(blocks))
    finally:
        client.close()
    return {
        table: [row for chunk in chunks for row in getattr(chunk, table).to_pylist()]
        for table in TABLES
    }
