"""Providers that contradict each other, or themselves, are named; those that agree are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.conftest import DataDsns
from tests.support.anvil import anvil
from tests.support.cold_chain import served
from tests.support.operator_task import operator_task
from tests.support.scripted_rpc import Raw, ScriptedRpc
from trace_devchain import DevChain
from trace_platform.data.database import DataDatabase
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.operators.checks.rpc_integrity_check import Config, RpcIntegrityCheck
from trace_platform.operators.checks.rpc_providers import providers
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.wire.task import DatasetEvent, TaskInput

HEAD = 150
Bend = Callable[[str, list[Any], Any], Any]


class Clocked(RpcIntegrityCheck):
    """Its database's time passes while it naps; before each round a step of the test's is done."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.steps = list(steps)
        self.time = 60_000.0
        self.round = self.time // 60

    def now(self, database: DataDatabase) -> float:
        if self.time // 60 > self.round:
            self.round = self.time // 60
            self.steps.pop(0)()
        return self.time

    def nap(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class Pools:
    data: DataDatabase
    tmp_path: Path
    chains: dict[str, DevChain]
    nodes: dict[str, ScriptedRpc]
    events: list[DatasetEvent] = field(default_factory=list)

    def bend(self, name: str, change: Bend) -> None:
        """What this node says passes through `change`."""
        tell = self.nodes[name].answer
        self.nodes[name].answer = lambda method, params: change(
            method, params, tell(method, params)
        )

    def task(self, **config: Any) -> TaskContext:
        settings = {"chain_id": 31337, "rpc_pools": list(self.nodes), "roots": False, **config}
        made = operator_task(
            Config.model_validate(settings), BlockRange(0, 0), self.tmp_path, outputs=("checks",)
        )
        return replace(
            made,
            inputs=(),
            data=lambda: self.data,
            rpc=lambda pool: RpcEndpoint(self.nodes[pool].url),
            emit=self._emit,
        )

    def rounds(self, *steps: Callable[[], object], **config: Any) -> None:
        """One round, and one after each step."""
        task = self.task(**config)
        wanted = len(self.events) + len(steps) + 1
        Clocked(*steps).run(replace(task, draining=lambda: len(self.events) >= wanted))

    def _emit(self, events: Sequence[DatasetEvent] = (), *_: Any, **__: Any) -> int:
        self.events.extend(events)
        return len(events)

    def told(self) -> list[tuple[str, str, str]]:
        with psycopg.connect(self.data.dsn, row_factory=dict_row) as connection:
            rows = connection.execute("SELECT * FROM alert_events ORDER BY created_at").fetchall()
        return [(row["severity"], row["code"], row["facts"].get("provider")) for row in rows]

    def said(self) -> list[str]:
        with psycopg.connect(self.data.dsn) as connection:
            rows = connection.execute("SELECT message FROM alert_events ORDER BY created_at")
            return [message for (message,) in rows]


@pytest.fixture
def pools(data_dsns: DataDsns, tmp_path: Path) -> Iterator[Pools]:
    with ExitStack() as stack:
        chains = {name: DevChain(blocks=HEAD, txs=3) for name in ("a", "b", "c")}
        nodes = {name: stack.enter_context(served(chain)) for name, chain in chains.items()}
        yield Pools(DataDatabase(data_dsns.writer), tmp_path, chains, nodes)


def test_nodes_that_agree_are_nothing_to_tell(pools: Pools) -> None:
    mined = [lambda: [chain.mine() for chain in pools.chains.values()]] * 2
    pools.rounds(*mined)
    assert pools.told() == []
    assert [event.cursor for event in pools.events] == [1_000, 1_001, 1_002]


def test_a_real_node_proves_its_roots_and_agrees_with_itself(
    data_dsns: DataDsns, tmp_path: Path
) -> None:
    with anvil("--no-mining") as node:
        sender, receiver = node.call("eth_accounts")[:2]
        for _ in range(4):
            node.call("eth_sendTransaction", {"from": sender, "to": receiver, "value": "0x1"})
            node.call("evm_mine")
        pools = Pools(DataDatabase(data_dsns.writer), tmp_path, {}, {"a": node, "b": node})  # type: ignore[dict-item]
        pools.rounds(roots=True, confirmations=0)
        assert pools.told() == []


def test_who_is_on_another_fork_is_named(pools: Pools) -> None:
    pools.chains["c"].reorg(10)
    for name in ("a", "b"):
        pools.chains[name].mine()
    pools.rounds(nothing)
    assert pools.told() == [("warning", "rpc_disagrees", "c")]


def test_another_final_block_is_critical(pools: Pools) -> None:
    pools.chains["b"].reorg(100)
    for name in ("a", "c"):
        pools.chains[name].mine()
    pools.rounds()
    assert ("critical", "rpc_disagrees", "b") in pools.told()
    assert {provider for *_, provider in pools.told()} == {"b"}


def test_where_nobody_has_a_majority_all_are_named(pools: Pools) -> None:
    pools.chains["c"].reorg(10)
    pools.chains["a"].mine()
    pools.rounds(rpc_pools=["a", "c"], old_blocks=0)
    assert {provider for *_, provider in pools.told()} == {"a", "c"}
    for said in pools.said():
        assert said.endswith(", the 2 that answered have 2, none of them most")


def test_a_fork_is_one_incident_however_many_blocks_of_it_are_seen(pools: Pools) -> None:
    """Also for the next attempt, until the block at which it was seen first is right again."""

    def mined() -> None:
        for chain in pools.chains.values():
            chain.mine()

    forked, right = DevChain(blocks=HEAD - 100, txs=3), pools.nodes["c"].answer
    forked.reorg(1)
    forked.mine(103)
    with served(forked) as fork:
        pools.nodes["c"].answer = fork.answer
        pools.rounds(*[mined] * 5)
        pools.rounds(*[mined] * 2)
    assert sorted(pools.told()) == [
        ("critical", "rpc_disagrees", "c"), ("warning", "rpc_disagrees", "c"),
    ]  # fmt: skip
    pools.nodes["c"].answer = right
    pools.rounds(nothing)
    assert sorted(pools.told())[1:3] == [("info", "rpc_disagrees_ended", "c")] * 2
    assert len(pools.told()) == 4


def test_a_node_that_was_asked_while_the_head_moved_is_asked_again(pools: Pools) -> None:
    """The first answer is of a fork that is gone by the second."""
    other, by_filter = DevChain(blocks=HEAD - 10, txs=3), []
    other.reorg(1)
    other.mine(20)
    tell = pools.nodes["b"].answer
    with served(other) as fork:

        def answer(method: str, params: list[Any]) -> Any:
            moved = bool(by_filter)
            if method == "eth_getLogs":
                by_filter.append(params)
            about = method == "eth_getLogs" or params[:1] == [hex(HEAD - 3)]
            return tell(method, params) if moved or not about else fork.answer(method, params)

        pools.nodes["b"].answer = answer
        pools.rounds(old_blocks=0)
    assert pools.told() == []


def test_a_provider_that_lags_is_told_once_until_it_has_caught_up(pools: Pools) -> None:
    for name in ("a", "b"):
        pools.chains[name].mine(20)
    pools.rounds(nothing, lambda: pools.chains["c"].mine(20))
    assert pools.told() == [("warning", "rpc_lags", "c"), ("info", "rpc_lags_ended", "c")]


def test_a_provider_that_does_not_answer_is_told_once(pools: Pools) -> None:
    pools.nodes["b"].faults.extend([Raw(status=404)] * 50)
    pools.rounds(nothing, pools.nodes["b"].faults.clear)
    assert pools.told() == [("warning", "rpc_silent", "b"), ("info", "rpc_silent_ended", "b")]


def test_a_provider_of_another_chain_is_named(pools: Pools) -> None:
    def right(method: str, _: list[Any], found: Any) -> Any:
        return hex(31337) if method == "eth_chainId" else found

    pools.bend("b", lambda method, _, found: "0x1" if method == "eth_chainId" else found)
    pools.rounds(nothing, lambda: pools.bend("b", right))
    assert pools.told() == [
        ("warning", "rpc_wrong_chain", "b"), ("info", "rpc_wrong_chain_ended", "b"),
    ]  # fmt: skip


def _fewer_logs(method: str, _: list[Any], found: Any) -> Any:
    return found[:-1] if method == "eth_getLogs" else found


def _other_state(method: str, _: list[Any], found: Any) -> Any:
    if method == "eth_getBlockByNumber":
        found["stateRoot"] = "0x" + "12" * 32
    return found


def _fewer_receipts(method: str, _: list[Any], found: Any) -> Any:
    return found[:-1] if method == "eth_getBlockReceipts" else found


@pytest.mark.parametrize(
    "lie", [_fewer_logs, _other_state, _fewer_receipts], ids=lambda lie: lie.__name__.strip("_")
)
def test_a_node_that_contradicts_itself_is_named(lie: Bend, pools: Pools) -> None:
    pools.bend("b", lie)
    pools.rounds()
    assert {(code, who) for _, code, who in pools.told()} == {("rpc_contradicts_itself", "b")}


def test_receipts_that_are_not_those_of_the_others_are_told(pools: Pools) -> None:
    """The same block by its hash; without roots nothing else proves them."""

    def bend(method: str, _: list[Any], found: Any) -> Any:
        if method == "eth_getBlockReceipts" and found:
            found[0]["gasUsed"] = "0x7"
        return found

    pools.bend("b", bend)
    pools.rounds()
    assert {(code, who) for _, code, who in pools.told()} == {("rpc_rows_differ", "b")}


def test_a_final_block_that_changes_is_critical(pools: Pools) -> None:
    def rewritten() -> None:
        pools.chains["a"].reorg(HEAD)

    pools.rounds(rewritten, nothing, rpc_pools=["a"])
    assert set(pools.told()) == {("critical", "rpc_history_changed", "a")}


def test_as_a_reactive_job_each_event_is_a_round(pools: Pools) -> None:
    pools.chains["c"].reorg(10)
    task = pools.task()
    tick = TaskInput(input_index=0, dataset_uuid=uuid4(), dataset_version=uuid4(), cursor=77)
    result: Result = RpcIntegrityCheck().run(replace(task, inputs=(tick,)))
    assert [event.cursor for event in result.events] == [77]
    assert result.events[0].dataset_uuid == task.outputs[0].dataset_uuid
    assert pools.events == []
    assert pools.told() != []


def nothing() -> None:
    """A round in which nothing happens."""


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"providers": ["alchemy", "own node"]}, ["main/alchemy", "main/own node"]),
        (405, {}, ["main"]),
        (200, ["no object"], ["main"]),
    ],
)
def test_the_egress_names_the_providers_of_a_pool(
    status: int, body: Any, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("t")
    seen: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["X-Trace-Worker-Token"]))
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as egress:
        thread = Thread(target=egress.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{egress.server_address[1]}/pools/main"
        found = providers("main", RpcEndpoint(url, SecretFile(str(tmp_path / "token"))))
        egress.shutdown()
        thread.join()
    assert [each.name for each in found] == expected
    assert seen == [("/pools/main", "t")]
    if len(found) > 1:
        assert [each.endpoint.url for each in found] == [
            url + "?provider=alchemy",
            url + "?provider=own%20node",
        ]


def test_a_node_without_the_egress_is_its_own_provider() -> None:
    endpoint = RpcEndpoint("http://127.0.0.1:1/key")
    (only,) = providers("main", endpoint)
    assert (only.name, only.endpoint) == ("main", endpoint)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("finalized", {}),
        ("finalized", {"number": "zz"}),
        ("finalized", {"number": 5}),
        ("eth_getLogs", [{"topics": [1], "logIndex": "0x0", "address": "0x", "data": "0x"}]),
        ("eth_getLogs", [{"topics": [], "logIndex": "0x0", "address": None, "data": "0x"}]),
        ("eth_getBlockByNumber", {"number": "0x\0"}),
    ],
    ids=str,
)
def test_nonsense_of_one_node_does_not_end_the_watch(pools: Pools, asked: str, said: Any) -> None:
    def nonsense(method: str, params: list[Any], tell: Any) -> Any:
        if asked not in (method, *params[:1]):
            return tell
        return tell | said if method == asked and isinstance(said, dict) else said

    pools.bend("b", nonsense)
    pools.rounds()
    assert len(pools.events) == 1
    expected = [] if asked == "finalized" else ["rpc_contradicts_itself"]
    assert sorted({code for _, code, _ in pools.told()}) == expected
