"""Queries over a whole instance that follows a node: the table at the tip and the files below it
are one dataset, also while rows move from one to the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.anvil import anvil
from tests.support.followed_instance import NAMES, Held, caught_up, follow_dag, rebuilt
from tests.support.follower_anvil import OPTIONS, Miner
from tests.support.stack import Stack, trace, wait_for
from trace_platform.app.api_client import control_client
from trace_platform.client import Client
from trace_platform.domain.errors import NotFound, TooManyQueries
from trace_platform.operators.evm.schema import TABLES

pytestmark = pytest.mark.spark

CHUNK, DEPTH = 10, 5
KEYS = ("block_number", "transaction_index", "log_index")
WHOLE = """
select count(*) as n, count(distinct block_number) as blocks, min(block_number) as low,
       max(block_number) as high, count(distinct block_hash) as hashes
  from tip_blocks
"""
# A child whose parent is not there, or not the one it names.
BROKEN = """
select count(*) as n from tip_blocks b left join tip_blocks p
    on p.block_number = b.block_number - 1 and p.block_hash = b.parent_hash
 where b.block_number > 0 and p.block_number is null
"""


@pytest.fixture(scope="module")
def chain() -> Iterator[Miner]:
    with anvil(*OPTIONS) as node:
        yield Miner(node, 11)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, chain: Miner) -> Iterator[Stack]:
    home: Path = tmp_path_factory.mktemp("home")
    said = "[worker]\nslots = 3\n[query]\nconcurrency = 2\nmemory_mb = 512\n"
    (home / "config.toml").write_text(said)
    with trace(home, "up", env={"TRACE_RPC_NODE": chain.node.url}) as running:
        wait_for("the instance", lambda: "is ready in" in running.text())
        wait_for("a worker", lambda: control_client.queues(running.home).workers)
        control_client.deploy(running.home, follow_dag(CHUNK, DEPTH), "follow.yaml")
        yield running


class Readers:
    """Ask again and again until they are told to stop; what is wrong is kept."""

    def __init__(self, home: Path, questions: list[str]) -> None:
        self._home = home
        self._stop = threading.Event()
        self.answers: list[dict[str, Any]] = []
        self.wrong: list[object] = []
        self._threads = [threading.Thread(target=self._ask, args=(sql,)) for sql in questions]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

    def _ask(self, sql: str) -> None:
        with Client.local(self._home) as client:
            while not self._stop.is_set():
                try:
                    [row] = client.query(sql).rows()
                except (NotFound, TooManyQueries):
                    continue  # nothing is there yet, or too many ask
                except Exception as error:
                    self.wrong.append(error)
                    return
                self.answers.append(row)
                if not is_sound(row):
                    self.wrong.append(row)
                # They look again and again, and leave the instance time to work.
                self._stop.wait(0.1)


def is_sound(row: dict[str, Any]) -> bool:
    if "blocks" not in row:
        return bool(row["n"] == 0)
    held = row["high"] - row["low"] + 1 if row["n"] else 0
    return bool(row["low"] in (0, None) and row["n"] == row["blocks"] == row["hashes"] == held)


def test_no_row_is_there_twice_or_missing_while_rows_move_to_files(
    chain: Miner, instance: Stack
) -> None:
    held = Held(instance)
    with Readers(instance.home.root, [WHOLE, BROKEN]) as readers:
        for _ in range(2):
            chain.mine(8)
            caught_up(held, chain.head)
        chain.reorg(3)
        chain.mine(8)
        caught_up(held, chain.head)
    assert readers.wrong == []
    first, _ = held.extent()
    assert first is not None
    assert first >= CHUNK, "rows moved to files meanwhile"
    highs = {row["high"] for row in readers.answers if "high" in row}
    assert len(highs) > 1, "they looked while the chain grew"
    assert len(readers.answers) > 20

    expected = rebuilt(chain.node.url, chain.head)
    with Client.local(instance.home.root) as client:
        for name in NAMES:
            columns = TABLES[name].names
            order = ", ".join(key for key in KEYS if key in columns)
            table = client.query(f"select * from tip_{name} order by {order}").to_arrow()
            rows = zip(*(table[column].to_pylist() for column in columns), strict=True)
            assert list(rows) == expected[name], name
