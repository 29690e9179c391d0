"""Who watches the hot tables of a follower, all the time, past the code under test."""

from __future__ import annotations

import threading
from uuid import UUID

import psycopg
from psycopg import IsolationLevel, sql

from tests.support.follower_chain import ForkingChain

_BLOCKS = "SELECT block_number, block_hash FROM {} ORDER BY block_number"
_STRANGERS = """
SELECT count(*) FROM {} AS row LEFT JOIN {} AS block USING (block_number)
 WHERE block.block_hash IS DISTINCT FROM row.block_hash
"""


class HotWitness:
    """In each snapshot: the blocks are the beginning of a chain that the node had, and the rows of
    every other table are of these very blocks."""

    PAUSE_S = 0.01

    def __init__(self, dsn: str, chain: ForkingChain, versions: list[UUID]) -> None:
        """`versions` of the tables, the one of the blocks first."""
        self.looks = 0
        self._chain = chain
        self._names = [sql.Identifier(f"dataset_{version.hex}") for version in versions]
        self._asking = psycopg.connect(dsn)
        self._asking.isolation_level = IsolationLevel.REPEATABLE_READ
        # Every chain that the node ever had.
        self._chains: list[list[bytes]] = []
        self._lock = threading.Lock()
        self._broken: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hot-witness", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        self._asking.close()

    def look(self) -> list[bytes]:
        """The hashes of the blocks that are there now."""
        with self._lock:
            if self._broken is not None:
                raise self._broken
            return self._look()

    def owed(self) -> int:
        with self._lock, self._asking.transaction():
            row = self._asking.execute("SELECT count(*) FROM hot_outbox").fetchone()
        assert row is not None
        return int(row[0])

    def _look(self) -> list[bytes]:
        with self._asking.transaction():
            blocks = self._asking.execute(sql.SQL(_BLOCKS).format(self._names[0])).fetchall()
            for name in self._names[1:]:
                query = sql.SQL(_STRANGERS).format(name, self._names[0])
                assert self._asking.execute(query).fetchone() == (0,), f"rows of no block: {name}"
        # Asked after the rows: what is written, the node had before.
        with self._chain.lock:
            served = self._chain.hashes()
        if served not in self._chains:
            self._chains.append(served)
        hashes = [bytes(each) for _, each in blocks]
        assert [number for number, _ in blocks] == list(range(len(blocks)))
        assert any(chain[: len(hashes)] == hashes for chain in self._chains), "of no chain"
        self.looks += 1
        return hashes

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self.PAUSE_S):
                with self._lock:
                    self._look()
        except BaseException as error:
            self._broken = error
