"""What the follower does about each thing that a chain and its providers do: the tables end up as
the node's chain, and whoever reads what is announced ends up with the tables."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import ValidationError

from tests.conftest import PostgresServer
from tests.support.corpus import corpus
from tests.support.follower_chain import ForkingChain
from tests.support.follower_run import Data, Job, opened, rebuilt
from tests.support.scripted_rpc import Raw, RpcError, ScriptedRpc, scripted_rpc
from tests.support.shared_data import shared_data
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_tables import trim
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    ProvidersDisagree,
    StaleFence,
    TaskCanceled,
    Unavailable,
    WrongChain,
)
from trace_platform.operators.evm import fetch
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm.schema import TABLES
from trace_platform.operators.follow import spool
from trace_platform.operators.follow.background_work import Drained
from trace_platform.operators.follow.block_follower import Config, following
from trace_platform.operators.follow.chain import Chain


@dataclass
class World:
    chain: ForkingChain
    node: ScriptedRpc
    data: Data

    def job(self, **config: Any) -> Job:
        return Job(self.data, self.node.url, {"start_block": 0, "timeout_s": 2, **config})

    def agrees(self, job: Job, start: int = 0) -> None:
        """Tables, reader and chain are the same."""
        self.chain.view = lambda: self.chain.blocks
        self.chain.before = lambda method, params: None
        expected = rebuilt(self.node.url, BlockRange(start, self.chain.head))
        assert job.all_rows() == expected
        assert job.reader.all_rows() == expected


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[Data]:
    with shared_data(postgres) as dsns, opened(dsns.writer) as reached:
        yield reached


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as anybody, and without a pause to speak of, a question is repeated."""
    monkeypatch.setitem(RpcClient.__init__.__kwdefaults__, "backoff_s", (0.01, 0.01, 0.01))


@pytest.fixture
def world(data: Data) -> Iterator[World]:
    chain = ForkingChain(5)
    with scripted_rpc(chain.answer) as node:
        yield World(chain, node, data)


def test_it_catches_up_and_then_follows_block_by_block(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        world.chain.grow()
        follower.turn()
        world.chain.grow()
        follower.turn()
    assert job.said() == [("event", 0, 4), ("event", 5, 5), ("event", 6, 6)]
    assert job.said("logs") == job.said()
    assert {table.cursor for table in job.tables[-3:]} == {6}
    assert job.tables[-1].location == f"postgres_table:dataset_{job.outputs[2].dataset_uuid}"
    blocks, transactions, logs = job.tables[-3:]
    assert (blocks.start, blocks.row_count, blocks.rows_estimated) == (0, 7, False)
    assert (transactions.rows_estimated, logs.rows_estimated) == (True, True)
    said = [each.columns for each in job.tables]
    assert [column.name for column in said[0] or ()] == TABLES["blocks"].names
    assert said[3:] == [None] * (len(said) - 3), "once is enough"
    world.agrees(job)


def test_before_its_first_block_it_is_as_far_behind_as_it_has_to_go(world: World) -> None:
    seen: list[tuple[int, int]] = []
    task = world.job().task()
    tell = replace(task, progress=lambda last, head: seen.append((last, head)))
    with following(tell) as follower:
        follower.begin()
        follower.turn()
    assert (seen[0], seen[-1]) == ((0, 4), (4, 4))


def test_at_the_tip_a_block_is_two_round_trips(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        world.chain.grow()
        world.node.calls.clear()
        before = world.node.requests
        follower.turn()
    assert world.node.requests - before == 2
    assert world.node.calls == [
        *("eth_getBlockByNumber", "eth_getBlockByHash", "eth_getBlockReceipts")
    ]


def test_receipts_are_asked_for_by_hash(world: World) -> None:
    asked: list[Any] = []

    def note(method: str, params: list[Any]) -> None:
        if method == "eth_getBlockReceipts":
            asked.append(params[0])

    world.chain.before = note
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(2, "b")
        follower.turn()
    assert asked
    assert all(len(each) == 66 for each in asked)


def test_latest_starts_at_the_head(world: World) -> None:
    job = world.job(start_block="latest")
    with job.steps() as follower:
        follower.turn()
        world.chain.grow(2)
        follower.turn()
    assert job.said() == [("event", 4, 4), ("event", 5, 6)]
    world.agrees(job, start=4)


def test_a_start_beyond_the_head_is_waited_for(world: World) -> None:
    job = world.job(start_block=7)
    with job.steps() as follower:
        follower.turn()
        assert job.emitted == []
        world.chain.grow(4)
        follower.turn()
    world.agrees(job, start=7)


def test_another_attempt_goes_on_where_the_last_one_ended(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
    world.chain.grow(3)
    with job.steps() as follower:
        follower.turn()
    assert job.said() == [("event", 0, 4), ("event", 5, 7)]
    world.agrees(job)


# A chain that only lost blocks is not among them: that is a provider that lags.
@pytest.mark.parametrize(("depth", "longer"), [(1, 0), (1, 3), (2, -1), (2, 1), (4, -1), (4, 0)])
def test_a_reorg_is_repaired_with_one_invalidation_per_output(
    world: World, depth: int, longer: int
) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(depth, "b", depth + longer)
        follower.turn()
    for table in ("blocks", "transactions", "logs"):
        again = [said for said in job.said(table) if said[0] == "again"]
        assert again == [("again", 5 - depth, 4)]
    assert job.log.of("reorg")[0]["depth"] == depth
    assert job.alerts() == []
    world.agrees(job)


def test_a_reorg_while_nobody_followed_is_found_at_the_start(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
    world.chain.reorg(2, "b", 9)
    with job.steps() as follower:
        follower.turn()
        follower.turn()
    assert ("again", 3, 4) in job.said()
    world.agrees(job)


def test_a_reorg_far_behind_is_repaired_before_the_rest_is_fetched(
    world: World,
) -> None:
    job = world.job(batch_blocks=5)
    with job.steps() as follower:
        follower.turn()
    world.chain.reorg(2, "b", 300)
    with job.steps() as follower:
        while follower.last_block != world.chain.head:
            follower.turn()
    assert job.said()[:3] == [("event", 0, 4), ("again", 3, 4), ("event", 5, 9)]
    world.agrees(job)


def test_a_provider_that_lags_changes_nothing(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        world.chain.view = lambda: world.chain.blocks[:2]
        for _ in range(5):
            follower.turn()
        assert job.said() == [("event", 0, 4)]
        world.chain.view = lambda: world.chain.blocks
        world.chain.grow()
        follower.turn()
    assert job.said() == [("event", 0, 4), ("event", 5, 5)]
    assert job.log.of("reorg") == job.log.of("fork_not_confirmed") == []
    world.agrees(job)


@pytest.mark.usefixtures("impatient")
def test_a_provider_on_another_fork_is_not_believed(world: World) -> None:
    """Every other answer comes from it."""
    job = world.job()
    other = ForkingChain(4)
    other.grow(3, "astray")
    turn = iter(range(10**9))
    with job.steps() as follower:
        follower.turn()
        world.chain.view = lambda: other.blocks if next(turn) % 2 else world.chain.blocks
        for _ in range(20):
            follower.turn()
        assert job.log.of("reorg") == []
        world.chain.view = lambda: world.chain.blocks
        world.chain.grow()
        follower.turn()
    world.agrees(job)


def test_a_fork_that_is_not_seen_again_changes_nothing_and_is_said_once(world: World) -> None:
    job = world.job(confirmations=3)
    ours = world.chain.blocks
    other = ForkingChain(4)
    other.grow(2, "astray")
    headers: list[str] = []

    def once_then_back(method: str, params: list[Any]) -> None:
        """The search sees the fork, and so does the first confirmation."""
        if method == "eth_chainId":
            headers.clear()
        if method == "eth_getBlockByNumber" and params[0] != "latest":
            headers.append(params[0])
        world.chain.blocks = ours if len(headers) > 8 else other.blocks

    with job.steps() as follower:
        follower.turn()
        world.chain.before = once_then_back
        for _ in range(4):
            follower.turn()
    world.chain.before = lambda method, params: None
    world.chain.blocks = ours
    assert len(job.log.of("fork_not_confirmed")) == 1
    world.agrees(job)


@pytest.fixture
def disagree(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, no chain is that of most providers."""
    is_so, agreed = threading.Event(), Chain.agreed_hashes

    def hashes(chain: Chain, numbers: Sequence[int]) -> list[bytes | None]:
        if is_so.is_set():
            raise ProvidersDisagree("providers disagree")
        return agreed(chain, numbers)

    monkeypatch.setattr(Chain, "agreed_hashes", hashes)
    return is_so


def test_a_fork_that_stays_unconfirmed_is_one_alert_until_it_goes_on(
    world: World, disagree: threading.Event
) -> None:
    job = world.job(fork_alert_seconds=0)
    with job.steps() as follower:
        follower.turn()
        assert job.alerts() == []
        world.chain.reorg(2, "b", 3)
        disagree.set()
        for _ in range(3):
            follower.turn()
    with job.steps() as follower:
        follower.turn()
        (told,) = job.alerts()
        assert (told["code"], told["severity"]) == ("fork_unconfirmed", "warning")
        assert "stands at block 4" in told["message"]
        assert "providers disagree" in told["message"]
        assert told["facts"]["block"] == 3
        disagree.clear()
        follower.turn()
        assert [each["code"] for each in job.alerts()] == [
            "fork_unconfirmed",
            "fork_unconfirmed_ended",
        ]
    world.agrees(job)


def test_a_follower_that_never_got_on_stands_at_no_block(world: World) -> None:
    job = world.job(stuck_alert_seconds=0)

    def refused(method: str, params: list[Any]) -> Any:
        found = world.chain.answer(method, params)
        return found if method != "eth_getBlockReceipts" else "nonsense"

    with following(job.task()) as follower:
        follower.begin()
        world.node.answer = refused
        follower.turn()
        (alert,) = job.alerts()
    assert "the follower stands at no block yet for more than 0 s" in alert["message"]


def test_a_follower_that_does_not_get_on_says_why_and_is_an_alert(world: World) -> None:
    job = world.job(stuck_alert_seconds=0)
    told: list[str | None] = []

    def refused(method: str, params: list[Any]) -> Any:
        found = world.chain.answer(method, params)
        return found if method != "eth_getBlockReceipts" else "nonsense"

    with following(replace(job.task(), stuck=told.append)) as follower:
        follower.begin()
        follower.turn()
        world.chain.grow()
        world.node.answer = refused
        follower.turn()
        follower.turn()
        (alert,) = job.alerts()
        assert (alert["code"], alert["severity"]) == ("source_stuck", "critical")
        assert "stands at block 4" in alert["message"]
        assert told[-1] is not None
        assert told[-1].startswith("[malformed_block]")
        world.node.answer = world.chain.answer
        follower.turn()
    assert told[-1] is None
    assert [each["code"] for each in job.alerts()] == ["source_stuck", "source_stuck_ended"]
    world.agrees(job)


def test_a_node_that_stays_behind_what_is_written_is_told_until_it_catches_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_platform.operators.follow.following._MAY_LAG_S", 0.0)
    job = world.job(stuck_alert_seconds=0)
    told: list[str | None] = []
    with following(replace(job.task(), stuck=told.append)) as follower:
        follower.begin()
        follower.turn()
        world.chain.view = lambda: world.chain.blocks[:2]
        follower.turn()
        follower.turn()
        assert told[-1] is not None
        assert "the node is at block 1, behind block 4, which is written" in told[-1]
        assert [each["code"] for each in job.alerts()] == ["source_stuck"]
        world.chain.view = lambda: world.chain.blocks
        follower.turn()
    assert told[-1] is None
    assert [each["code"] for each in job.alerts()] == ["source_stuck", "source_stuck_ended"]
    world.agrees(job)


def test_a_fork_that_is_confirmed_in_time_is_no_alert(
    world: World, disagree: threading.Event
) -> None:
    job = world.job(fork_alert_seconds=3_600)
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(2, "b", 3)
        disagree.set()
        follower.turn()
        disagree.clear()
        follower.turn()
    assert job.alerts() == []
    world.agrees(job)


@pytest.mark.usefixtures("impatient")
def test_a_chain_that_moves_while_it_is_read_is_read_again(world: World) -> None:
    job = world.job()
    moves = iter("cdef")
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(3, "b")

        def move(method: str, params: list[Any]) -> None:
            if method == "eth_getBlockReceipts" and (fork := next(moves, None)):
                world.chain.reorg(3, fork)

        world.chain.before = move
        for _ in range(8):
            follower.turn()
    again = [said for said in job.said() if said[0] == "again"]
    assert again == [("again", 2, 4)], "nothing was written of the chains that did not last"
    world.agrees(job)


def test_a_chain_that_moves_after_it_was_confirmed_is_not_written(world: World) -> None:
    job = world.job()
    heads: list[str] = []
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(3, "b")

        def move(method: str, params: list[Any]) -> None:
            """The second time that the head is asked for: all confirmations are in."""
            if params[:1] == ["latest"]:
                heads.append(method)
                if len(heads) == 2:
                    world.chain.reorg(3, "c")

        world.chain.before = move
        follower.turn()
        assert job.said() == [("event", 0, 4)]
        follower.turn()
    world.agrees(job)


def test_a_chain_that_moves_after_it_was_read_is_not_written(world: World) -> None:
    job = world.job()
    receipts: list[str] = []
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(3, "b")

        def move(method: str, params: list[Any]) -> None:
            """Once the newest block is asked for again, when all was read."""
            if method == "eth_getBlockReceipts":
                receipts.append(params[0])
            elif len(receipts) == 3 and params == ["0x4", False]:
                world.chain.reorg(1, "c")

        world.chain.before = move
        follower.turn()
        assert len(receipts) == 3
        assert job.said() == [("event", 0, 4)]
        world.chain.before = lambda method, params: None
        follower.turn()
    world.agrees(job)


def test_a_provider_that_lags_behind_a_confirmed_fork_changes_nothing(world: World) -> None:
    job = world.job()
    heads: list[str] = []
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(2, "b")

        def lag(method: str, params: list[Any]) -> None:
            """The second time that the head is asked for: all confirmations are in."""
            heads.extend(params[:1] if params[:1] == ["latest"] else [])
            is_behind = params[:1] == ["latest"] and len(heads) == 2
            world.chain.view = lambda: world.chain.blocks[: 2 if is_behind else None]

        world.chain.before = lag
        follower.turn()
        assert job.said() == [("event", 0, 4)]
        follower.turn()
    world.agrees(job)


@pytest.mark.parametrize("number", ["-0x5", "4", hex(2**53 + 1), hex(2**70)])
def test_a_head_whose_number_is_none_is_waited_out(world: World, number: str) -> None:
    job = world.job(start_block="latest")
    seen: list[int] = []

    def beyond(method: str, params: list[Any]) -> Any:
        found = world.chain.answer(method, params)
        return found | {"number": number} if params[:1] == ["latest"] else found

    with following(replace(job.task(), progress=lambda _, head: seen.append(head))) as follower:
        follower.begin()
        world.node.answer = beyond
        follower.turn()
        assert seen == []
        world.node.answer = world.chain.answer
        follower.turn()
    world.agrees(job, start=4)


def test_a_block_that_says_another_number_replaces_nothing(world: World) -> None:
    job = world.job()

    def renumbered(method: str, params: list[Any]) -> Any:
        found = world.chain.answer(method, params)
        if method == "eth_getBlockByHash":
            return found | {"number": "0x1", "transactions": []}
        return [] if method == "eth_getBlockReceipts" else found

    with job.steps() as follower:
        follower.turn()
        world.chain.grow()
        world.node.answer = renumbered
        follower.turn()
        assert len(job.rows("blocks")) == 5
        world.node.answer = world.chain.answer
        follower.turn()
    assert job.said() == [("event", 0, 4), ("event", 5, 5)]
    world.agrees(job)


def test_the_same_height_twice_is_seen_at_the_head(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        for fork in ("b", "c", "main"):
            world.chain.reorg(1, fork)
            follower.turn()
    assert [said for said in job.said() if said[0] == "again"] == [("again", 4, 4)] * 3
    world.agrees(job)


def test_blocks_after_a_shorter_fork_are_announced_to_those_who_had_others(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(4, "b", 1)
        follower.turn()
        assert len(job.rows("blocks")) == 2
        world.chain.grow(2, "b")
        follower.turn()
        world.chain.grow(3, "b")
        follower.turn()
    world.agrees(job)


@pytest.mark.parametrize("seed", range(8))
def test_through_any_weather_the_tables_end_up_as_the_chain(world: World, seed: int) -> None:
    rng = random.Random(seed)
    job = world.job(
        confirmations=rng.randint(1, 2),
        batch_blocks=rng.choice([1, 3, 50]),
        emit_every_blocks=rng.choice([1, 1, 4]),
        emit_max_seconds=rng.choice([0.001, 60]),
    )

    def lag() -> Callable[[], Any]:
        missing = rng.randint(0, 3)
        return lambda: world.chain.blocks[: len(world.chain.blocks) - missing]

    for _ in range(rng.randint(1, 4)):
        with job.steps() as follower:
            for number in range(rng.randint(1, 8)):
                depth = min(rng.choice([1, 1, 2, 5]), world.chain.head)
                if rng.random() < 0.4:
                    world.chain.reorg(depth, f"{seed}-{number}", rng.randint(1, depth + 3))
                world.chain.grow(rng.randint(0, 4), f"{seed}-{number}")
                world.chain.view = lag()
                follower.turn()
            if rng.random() < 0.5:
                follower.finish()
    world.chain.view = lambda: world.chain.blocks
    world.chain.grow()
    with job.steps() as follower:
        while follower.last_block != world.chain.head:
            follower.turn()
        follower.finish()
    world.agrees(job)


def test_deeper_than_finality_is_repaired_and_raises_a_critical_alert(world: World) -> None:
    world.chain.final_depth = 3
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        follower.turn()  # an idle one: it sees what is final
        old = world.chain.blocks[1]["hash"]
        world.chain.reorg(4, "b")
        follower.turn()
    (alert,) = job.alerts()
    assert (alert["severity"], alert["code"]) == ("critical", "deep_reorg")
    facts = alert["facts"]
    assert (facts["depth"], facts["fork_block"], facts["old_hash"]) == (4, 0, old)
    assert facts["new_hash"] == world.chain.blocks[1]["hash"]
    assert [level for level, event, _ in job.log.lines if event == "reorg"] == ["error"]
    world.agrees(job)


def test_a_fork_that_is_found_late_is_as_deep_as_it_was(world: World) -> None:
    """Once it is found the node's newest final block is after it: of the chain that came since."""
    world.chain.grow(95)
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        follower.turn()
        world.chain.reorg(2, "b", 65)
        while follower.last_block != world.chain.head:
            follower.turn()
    assert job.alerts() == []
    assert [facts["depth"] for facts in job.log.of("reorg")] == [2]
    world.agrees(job)


@pytest.mark.parametrize("depth", [64, 65])
def test_the_attempt_after_a_reorg_tells_how_deep_it_was(world: World, depth: int) -> None:
    world.chain.grow(95)
    job = world.job()
    with job.steps() as follower:
        follower.turn()
    world.chain.reorg(depth, "b", depth + 10)
    with job.steps() as follower:
        while follower.last_block != world.chain.head:
            follower.turn()
    assert len(job.alerts()) == (depth > 64)
    world.agrees(job)


@pytest.mark.parametrize("start", ["latest", 4])
def test_the_first_block_of_all_may_be_another_one(world: World, start: str | int) -> None:
    job = world.job(start_block=start)
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(1, "b", 2)
        follower.turn()
    assert job.alerts() == []
    world.agrees(job, start=4)


def test_a_depth_of_ones_own_counts_instead_of_the_nodes_tag(world: World) -> None:
    job = world.job(finality_depth=2)
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(2, "b")
        follower.turn()
        assert job.alerts() == []
        world.chain.reorg(3, "c")
        follower.turn()
    assert [alert["facts"]["depth"] for alert in job.alerts()] == [3]
    world.agrees(job)


def test_deeper_than_what_is_known_is_rewritten_from_the_oldest_known_block(world: World) -> None:
    job = world.job(hash_window=3)
    versions = [output.dataset_version for output in job.outputs]
    with job.steps() as follower:
        follower.turn()
        trim(DataDatabase(job.data.dsn), versions, 3, list(enumerate(world.chain.hashes())))
        world.chain.grow()
        follower.turn()
        world.chain.reorg(5, "b")
        follower.turn()
    (alert,) = job.alerts()
    assert alert["facts"]["deeper_than_known"] is True
    assert "integrity_check" in alert["message"]
    hashes = [row["block_hash"] for row in job.rows("blocks")]
    assert hashes == world.chain.hashes()[3:]
    assert [said for said in job.said() if said[0] == "again"] == [("again", 3, 5)]


@pytest.mark.parametrize("depth", [4, 10, 24])
def test_deeper_than_the_window_is_found_by_the_hashes_of_blocks_that_have_rows(
    world: World, depth: int
) -> None:
    job = world.job(hash_window=3)
    world.chain.grow(20)
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(depth, "b")
        follower.turn()
    first = world.chain.head - depth + 1
    assert job.said() == [("event", 0, 24), ("again", first, 24)]
    world.agrees(job)


def test_another_genesis_below_the_window_is_refused_too(world: World) -> None:
    job = world.job(hash_window=2)
    with job.steps() as follower:
        follower.turn()
        before = job.all_rows()
        world.chain.reorg(5, "elsewhere", 8)
        with pytest.raises(WrongChain):
            follower.turn()
    assert job.all_rows() == before


def test_another_chain_is_refused_and_changes_nothing(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
    before = job.all_rows()
    world.chain.chain_id = 5
    world.chain.reorg(4, "b")
    with job.steps() as follower, pytest.raises(WrongChain):
        follower.turn()
    assert job.all_rows() == before


def test_another_genesis_is_refused_and_changes_nothing(world: World) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        before = job.all_rows()
        world.chain.reorg(5, "elsewhere", 8)
        with pytest.raises(WrongChain) as refused:
            follower.turn()
    assert not refused.value.retryable
    assert job.all_rows() == before


@pytest.mark.parametrize(
    "fault",
    [
        Raw(429, headers={"Retry-After": "0"}),
        Raw(503),
        Raw(200, b'[{"jsonrpc": "2.0", "id": 0, "resu'),
        Raw(200, b"[]"),
        Raw(200, b'{"jsonrpc": "2.0", "id": 0, "result": null}'),
        Raw(200, b'{"jsonrpc": "2.0", "id": 0, "result": {"number": "0x5"}}'),
        Raw(401),
    ],
)
@pytest.mark.parametrize("after", [0, 1])
def test_an_answer_that_is_none_is_waited_out(world: World, fault: Raw, after: int) -> None:
    job = world.job()
    with job.steps() as follower:
        follower.turn()
        world.chain.grow()
        world.node.faults += [None] * after + [fault]
        for _ in range(3):
            follower.turn()
    world.agrees(job)


@pytest.mark.usefixtures("impatient")
def test_a_lasting_fault_is_said_once_per_cause(world: World) -> None:
    job = world.job()
    chain = world.chain
    with job.steps() as follower:
        follower.turn()
        chain.grow()
        whole = world.node.answer

        def truncated(method: str, params: list[Any]) -> Any:
            if method == "eth_getBlockReceipts":
                return []
            return whole(method, params)

        while not chain.blocks[-1]["transactions"]:
            chain.grow()
        world.node.answer = truncated
        for _ in range(3):
            follower.turn()
        assert len(job.log.of("following_waits")) == 1
        world.node.answer = lambda method, params: RpcError(-32000, "header not found")
        for _ in range(2):
            follower.turn()
        assert len(job.log.of("following_waits")) == 2
        world.node.answer = whole
        follower.turn()
    assert job.log.of("following_goes_on")
    world.agrees(job)


@pytest.mark.parametrize(
    ("method", "requests"),
    [("eth_chainId", 1), ("eth_getBlockByNumber", 2), ("eth_getBlockReceipts", 4)],
)
def test_a_node_that_hangs_keeps_neither_drain_nor_cancel(
    world: World, method: str, requests: int
) -> None:
    job = world.job(timeout_s=60)
    world.node.hang_on.add(method)
    with job.running() as drained:
        for _ in range(requests):
            world.node.asked.acquire()
    assert drained.error is None
    canceled = threading.Event()

    def check() -> None:
        if canceled.is_set():
            raise TaskCanceled("canceled on request")

    job.check = check
    with job.running() as running:
        for _ in range(requests):
            world.node.asked.acquire()
        canceled.set()
        running.join()
    assert isinstance(running.error, TaskCanceled)
    assert job.emitted == []


def test_draining_sends_what_waits_for_more(world: World) -> None:
    job = world.job(emit_every_blocks=100, emit_max_seconds=3600)
    with job.steps() as follower:
        follower.turn()
        world.chain.grow(2)
        follower.turn()
        assert job.emitted == []
        follower.finish()
    assert job.said() == [("event", 0, 6)]
    world.agrees(job)


def test_events_wait_for_the_threshold(world: World) -> None:
    job = world.job(start_block=4, emit_every_blocks=3, emit_max_seconds=3600)
    with job.steps() as follower:
        for _ in range(7):
            follower.turn()
            world.chain.grow()
    assert job.said() == [("event", 4, 6), ("event", 7, 9)]


def test_an_event_waits_no_longer_than_it_may(world: World) -> None:
    job = world.job(emit_every_blocks=100, emit_max_seconds=1e-9)
    with job.steps() as follower:
        follower.turn()
        follower.turn()
    assert job.said() == [("event", 0, 4)]


def test_an_event_waits_no_longer_than_it_may_while_it_catches_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_ROWS_PER_CHUNK", 10)
    world.chain.grow(60)
    job = world.job(emit_every_blocks=1_000, emit_max_seconds=1e-9, batch_blocks=5)
    with job.steps() as follower:
        follower.turn()
    assert len(job.said()) > 3
    world.agrees(job)


def test_a_reorg_of_blocks_that_wait_is_told_in_order(world: World) -> None:
    job = world.job(emit_every_blocks=100, emit_max_seconds=3600)
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(2, "b", 3)
        follower.turn()
    assert job.said() == [("event", 0, 4), ("again", 3, 4), ("event", 5, 5)]
    world.agrees(job)


@pytest.mark.parametrize("side", ["before_emit", "after_emit"])
def test_what_a_dead_attempt_owes_the_next_one_sends(world: World, side: str) -> None:
    job = world.job()

    def die() -> None:
        raise Unavailable("the dispatcher is away")

    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(2, "b", 4)
        setattr(job, side, die)
        with pytest.raises(Unavailable):
            follower.turn()
    setattr(job, side, lambda: None)
    with job.steps() as follower:
        follower.turn()
    world.agrees(job)
    again = {e.request_id for e in job.emitted if hasattr(e, "request_id")}
    assert len(again) == 3, "one invalidation per output, however often it is sent"


def test_an_attempt_that_was_replaced_writes_nothing_more(world: World) -> None:
    job = world.job()
    with job.steps() as zombie:
        zombie.turn()
        with job.steps() as follower:
            world.chain.grow()
            with pytest.raises((StaleFence, Unavailable)):
                zombie.turn()
            assert len(job.rows("blocks")) == 5
            follower.turn()
    world.agrees(job)


def test_a_far_chain_is_read_in_chunks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_ROWS_PER_CHUNK", 100)
    world.chain.grow(600)
    job = world.job(batch_blocks=20)
    with job.steps() as follower:
        while follower.last_block != world.chain.head:
            follower.turn()
    assert len(job.said()) > 5
    world.agrees(job)


def test_it_can_be_drained_while_it_catches_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_ROWS_PER_CHUNK", 20)
    world.chain.grow(100)
    job = world.job(batch_blocks=5)
    job.after_emit = job.drain.set
    with job.steps() as follower:
        with pytest.raises(Drained):
            follower.turn()
        assert follower.last_block is not None
        assert follower.last_block < world.chain.head
        follower.finish()
    job.after_emit = lambda: None
    job.drain.clear()
    with job.steps() as follower:
        follower.turn()
    world.agrees(job)


def test_a_reorg_larger_than_memory_is_one_rewrite(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_ROWS_PER_CHUNK", 20)
    monkeypatch.setattr(spool, "_IN_MEMORY_BYTES", 1)
    world.chain.grow(60)
    job = world.job(batch_blocks=5)
    with job.steps() as follower:
        follower.turn()
        world.chain.reorg(50, "b")
        follower.turn()
    assert [said for said in job.said() if said[0] == "again"] == [("again", 15, 64)]
    world.agrees(job)


@corpus(
    "config",
    [
        {"start_block": -1},
        {"start_block": "earliest"},
        {"poll_seconds": 0},
        {"confirmations": 0},
        {"hash_window": 0},
        {"emit_every_blocks": 0},
        {"finality": 3},
    ],
)
def test_what_makes_no_sense_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate({"chain_id": 1, "rpc_pool": "main", **config})
