"""Those who keep the rows of a chain: Trace's follower, Ponder and cryo, each as its users run it.

A follower stands still while the node changes its chain: anvil shows that a block at a time, other
nodes at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pyarrow.parquet as pq
from psycopg.rows import dict_row

from bench.engine_peers import EnginePostgres
from bench.harness import BenchError
from bench.ingest import CRYO
from bench.peers import python_of
from bench.ponder import VERSION, Ponder
from bench.reorg_chain import CHAIN_ID, TokenChain
from bench.subject import Subject
from tests.support.follower_run import Job, opened
from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings

TABLES = ("blocks", "transactions", "logs")
# The chain is always grown to the end of a file: cryo never writes a part of one, which it would
# write again under another name.
FILE_BLOCKS = 10
_CATCH_UP_S = 60.0
_SCHEMA = "reorgs"  # Ponder's
# By its own table of chains, and moved on in steps as long. Without this its figure would mislead:
# told that the chain is mainnet, it is right after the same reorgs.
_FINAL = "final to it is what lies 30 to 60 blocks back here, 65 to 130 on mainnet"
Row = Mapping[str, Any]
Rows = dict[str, list[Row]]


class Side(Protocol):
    """Holds some columns of each table, under the names that ours have."""

    name: str

    def standing_still(self) -> AbstractContextManager[None]: ...

    def catch_up(self, head: int, head_hash: bytes) -> None:
        """Until it holds the head, or never will."""

    def rows(self) -> Rows: ...

    def trouble(self) -> str:
        """For people: why it does not go on; nothing when it does."""


class Trace:
    name = "trace"

    def __init__(self, job: Job) -> None:
        self._job = job

    def standing_still(self) -> AbstractContextManager[None]:
        return self._job.paused()

    def catch_up(self, head: int, head_hash: bytes) -> None:
        if not _within(_CATCH_UP_S, lambda: self._job.has(head_hash)):
            raise BenchError(f"trace does not hold block {head} after {_CATCH_UP_S:g} s")

    def rows(self) -> Rows:
        return {table: list(self._job.rows(table)) for table in TABLES}

    def trouble(self) -> str:
        return ""


@contextmanager
def trace_side(postgres: EnginePostgres, workspace: Path, chain: TokenChain) -> Iterator[Trace]:
    config = {"chain_id": CHAIN_ID, "start_block": 0}
    with opened(writer_dsn(postgres, workspace)) as data:
        job = Job(data, chain.node.url, config)
        with job.running() as running:
            yield Trace(job)
        if running.error is not None:
            raise BenchError(f"trace's follower ended: {running.error}")


def writer_dsn(postgres: EnginePostgres, workspace: Path) -> str:
    """To a data database as an instance prepares it, in the role that workers have."""
    home = Home(workspace / "trace")
    home.root.mkdir()
    home.config_file.write_text(
        f'[postgres]\nstate_dsn = "{postgres.database("trace_state")}"\n'
        f'data_dsn = "{postgres.database("trace_data")}"\n'
    )
    settings = load_settings(home, {})
    instance = open_instance(home, settings)
    databases.prepare(home, settings, instance)
    return databases.dsn(home, settings, instance, "trace_data_writer")


class PonderSide:
    name = f"ponder {VERSION}"

    def __init__(self, ponder: Ponder, dsn: str) -> None:
        self._ponder = ponder
        self._dsn = dsn
        self._late = ""

    def standing_still(self) -> AbstractContextManager[None]:
        return self._ponder.paused()

    def catch_up(self, head: int, head_hash: bytes) -> None:
        def settled() -> bool:
            return self._ponder.exit_code is not None or self._has(head_hash)

        in_time = _within(_CATCH_UP_S, settled)
        self._late = "" if in_time else f"runs, without block {head} after {_CATCH_UP_S:g} s"

    def rows(self) -> Rows:
        return {table: [_bytes_of(row) for row in self._select(table)] for table in TABLES}

    def trouble(self) -> str:
        code = self._ponder.exit_code
        state = self._late if code is None else f"has exited with code {code}"
        return f"{state}: {self._ponder.last_error()} ({_FINAL})" if state else ""

    def _has(self, block_hash: bytes) -> bool:
        return any(row["block_hash"] == "0x" + block_hash.hex() for row in self._select("blocks"))

    def _select(self, table: str) -> Sequence[Row]:
        with psycopg.connect(self._dsn, row_factory=dict_row) as connection:
            try:
                return connection.execute(f"SELECT * FROM {_SCHEMA}.{table}").fetchall()
            except psycopg.errors.UndefinedTable:
                return []


@contextmanager
def ponder_side(
    postgres: EnginePostgres, workspace: Path, chain: TokenChain
) -> Iterator[PonderSide]:
    dsn = postgres.database("ponder")
    environment = {
        "REORGS_DATABASE": dsn,
        "REORGS_CHAIN_ID": str(CHAIN_ID),
        "REORGS_RPC": chain.node.url,
        "REORGS_ACCOUNTS": ",".join(chain.accounts),
        "REORGS_TOKEN": chain.token,
    }
    with Ponder(workspace, _SCHEMA, environment) as ponder:
        yield PonderSide(ponder, dsn)


class Cryo:
    name = CRYO.requirements[0].replace("==", " ")

    def __init__(self, subject: Subject, output: Path) -> None:
        self._subject = subject
        self._output = output

    def standing_still(self) -> AbstractContextManager[None]:
        return nullcontext()

    def catch_up(self, head: int, _: bytes) -> None:
        """Over the whole range again; it skips the files that are there."""
        options = {"chunk_size": FILE_BLOCKS}
        self._subject.run(start=0, end=head, output=str(self._output), options=options)

    def rows(self) -> Rows:
        return {table: list(self._read(table)) for table in TABLES}

    def trouble(self) -> str:
        return ""

    def _read(self, table: str) -> Iterator[Row]:
        for file in self._output.glob(f"*__{table}__*.parquet"):
            yield from pq.read_table(file).to_pylist()


@contextmanager
def cryo_side(_: EnginePostgres, workspace: Path, chain: TokenChain) -> Iterator[Cryo]:
    output, log = workspace / "cryo", workspace / "cryo.log"
    output.mkdir()
    arguments = ("bench.subjects.cryo_freeze", chain.node.url, str(output))
    with Subject(CRYO.name, python_of(CRYO), *arguments, log=log) as subject:
        yield Cryo(subject, output)


def _bytes_of(row: Row) -> Row:
    """Ponder keeps hex as text, and its wide integers are numeric."""
    return {
        name: bytes.fromhex(value[2:]) if isinstance(value, str) else int(value)
        for name, value in row.items()
    }


def _within(limit_s: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
