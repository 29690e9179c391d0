"""Cold tables against the chain: what is spoiled is found and invalidated, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from psycopg.rows import dict_row

from tests.conftest import DataDsns, StateDsns
from tests.support import busy_chain, other_chains
from tests.support.anvil import anvil
from tests.support.chain_data import take
from tests.support.cold_chain import (
    ColdChain,
    flip,
    places,
    served,
    set_value,
    with_row_twice,
    without_row,
    write,
)
from tests.support.control_plane import ControlPlane
from tests.support.operator_task import no_spark, operator_task
from tests.support.scripted_rpc import RpcError, ScriptedRpc, scripted_rpc
from tests.support.served_egress import WORKER_TOKEN, pool, served_egress
from trace_devchain import DevChain
from trace_platform.data.database import DataDatabase
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    InvalidConfig,
    MissingFile,
    NodeContradictsItself,
    RpcUnreachable,
    WrongChain,
)
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.operators.checks.integrity_check import Config, IntegrityCheck
from trace_platform.operators.contract import TaskContext
from trace_platform.wire.task import Claimed, Invalidation

HEAD = 219
PARTITIONS = (BlockRange(0, 99), BlockRange(100, 199), BlockRange(200, HEAD))

Rows = list[dict[str, Any]]


@dataclass
class Lines:
    """What the operator says."""

    said: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def info(self, event: str, **facts: Any) -> None:
        self.said.append(("info", event, facts))

    def warning(self, event: str, **facts: Any) -> None:
        self.said.append(("warning", event, facts))

    def error(self, event: str, **facts: Any) -> None:
        self.said.append(("error", event, facts))

    def facts(self, event: str) -> list[dict[str, Any]]:
        return [facts for _, name, facts in self.said if name == event]


@dataclass
class Checked:
    cold: ColdChain
    data: DataDatabase
    url: str
    lines: Lines = field(default_factory=Lines)
    task_id: UUID = field(default_factory=uuid4)

    def task(self, attempt: int = 1, **config: Any) -> TaskContext:
        settings = {"chain_id": 31337, "rpc_pool": "test", "mode": "full", **config}
        made = operator_task(
            Config.model_validate(settings), BlockRange(0, 0), Path("."), url=self.url
        )
        return replace(
            made,
            task_id=self.task_id,
            attempt=attempt,
            inputs=self.cold.inputs(),
            store=self.cold.store,
            data=lambda: self.data,
            log=self.lines,
        )

    def run(self, **config: Any) -> list[Invalidation]:
        return IntegrityCheck().run(self.task(**config)).invalidations

    def found(self, **config: Any) -> list[tuple[str, int | None, int | None]]:
        names = {version: name for name, (_, version) in self.cold.datasets.items()}
        return sorted((names[i.dataset_version], i.start, i.end) for i in self.run(**config))

    def alerts(self) -> Rows:
        with psycopg.connect(self.data.dsn, row_factory=dict_row) as connection:
            return connection.execute("SELECT * FROM alert_events ORDER BY created_at").fetchall()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> ColdChain:
    """Made once; each test works on a copy."""
    cold = ColdChain(LocalStore(str(tmp_path_factory.mktemp("cold"))))
    with served(DevChain(blocks=HEAD, txs=3)) as node:
        for blocks in PARTITIONS:
            cold.ingest(node.url, blocks)
    return cold


@pytest.fixture
def chain() -> DevChain:
    return DevChain(blocks=HEAD, txs=3)


@pytest.fixture
def node(chain: DevChain) -> Iterator[ScriptedRpc]:
    with served(chain) as running:
        yield running


@pytest.fixture
def data(data_dsns: DataDsns) -> DataDatabase:
    return DataDatabase(data_dsns.writer)


@pytest.fixture
def checked(written: ColdChain, node: ScriptedRpc, tmp_path: Path, data: DataDatabase) -> Checked:
    root = Path(written.store.root)
    for source in root.rglob("*"):
        if source.is_file():
            copy = tmp_path / "store" / source.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    store = LocalStore(str(tmp_path / "store"))
    return Checked(ColdChain(store, written.datasets, written.files), data, node.url)


def test_a_clean_dataset_yields_nothing(checked: Checked) -> None:
    assert checked.run() == []
    assert checked.alerts() == []
    (facts,) = checked.lines.facts("integrity_checked")
    assert facts["blocks_compared"] == HEAD + 1
    assert checked.lines.facts("integrity_suspects") == []


def test_a_clean_dataset_of_a_real_node_proves_its_roots(
    tmp_path: Path, data: DataDatabase
) -> None:
    with anvil("--no-mining", "--hardfork", "prague") as running:
        sender, receiver = running.call("eth_accounts")[:2]
        sent = {"from": sender, "data": busy_chain.creation(busy_chain.LOGGER)}
        created = running.call("eth_sendTransaction", sent)
        running.call("evm_mine")
        logger = running.call("eth_getTransactionReceipt", created)["contractAddress"]
        for _ in range(3):
            running.call("eth_sendTransaction", {"from": sender, "to": logger, "data": "0xab"})
            running.call("eth_sendTransaction", {"from": sender, "to": receiver, "value": "0x1"})
            running.call("evm_mine")
            running.call("evm_mine")
        cold = ColdChain(LocalStore(str(tmp_path)))
        cold.ingest(running.url, BlockRange(0, 7))
        checked = Checked(cold, data, running.url)
        assert checked.found(roots=True) == []
        cold.spoil("logs", 4, lambda t: set_value(t, 4, "data", lambda _: b"another"))
        assert checked.found(roots=True) == [("logs", 4, 4)]


def test_of_another_chain_only_what_it_makes_as_ethereum_does_is_proven(
    tmp_path: Path, data: DataDatabase
) -> None:
    with scripted_rpc(other_chains.optimism().answer) as running:
        cold = ColdChain(LocalStore(str(tmp_path)))
        cold.ingest(running.url, BlockRange(0, 1), parts=1)
        checked = Checked(cold, data, running.url)
        assert checked.found() == []
        (facts,) = checked.lines.facts("integrity_checked")
        assert (facts["header_hash"], facts["roots"]) == (True, False)
        cold.spoil("transactions", 1, lambda t: set_value(t, 1, "above_int64", lambda _: "{}"))
        assert checked.found() == [("transactions", 1, 1)]


def test_logs_that_are_counted_by_transaction_are_compared_in_their_order(
    tmp_path: Path, data: DataDatabase
) -> None:
    with scripted_rpc(other_chains.zksync().answer) as running:
        cold = ColdChain(LocalStore(str(tmp_path)))
        cold.ingest(running.url, BlockRange(0, 1), parts=1)
        checked = Checked(cold, data, running.url)
        assert checked.found(header_hash=False) == []
        assert checked.lines.facts("integrity_suspects") == []
        cold.spoil("logs", 1, lambda t: without_row(t, 2))
        assert checked.found(header_hash=False) == [("logs", 1, 1)]
        assert checked.lines.facts("integrity_suspects") == [{"blocks": ["1-1"]}]


@pytest.fixture
def traced(node: ScriptedRpc, tmp_path: Path, data: DataDatabase) -> Checked:
    """Blocks and traces of a partition."""
    names = ("blocks", "traces")
    ids, files = {name: (uuid4(), uuid4()) for name in names}, {name: [] for name in names}
    cold = ColdChain(LocalStore(str(tmp_path)), ids, files)
    cold.ingest(node.url, BlockRange(0, 59))
    return Checked(cold, data, node.url)


def test_clean_traces_yield_nothing(traced: Checked) -> None:
    assert traced.run() == []
    assert traced.lines.facts("integrity_suspects") == []
    assert traced.cold.files["traces"]


@pytest.mark.parametrize(
    ("column", "change"),
    [("action_value_f64", lambda _: 7.0), ("block_hash", flip), ("transaction_hash", flip)],
)
def test_spoiled_traces_are_found(traced: Checked, column: str, change: Any) -> None:
    traced.cold.spoil("traces", 33, lambda table: set_value(table, 33, column, change))
    assert traced.found() == [("traces", 33, 33)]
    (alert,) = traced.alerts()
    assert (alert["facts"]["table"], alert["facts"]["what"]) == ("traces", column)


def test_a_call_that_is_missing_is_suspected_without_the_chain(traced: Checked) -> None:
    def without_a_call(table: pa.Table) -> pa.Table:
        below = [n for n in places(table, 33) if table["trace_address"][n].as_py()]
        return without_row(table, below[0])

    traced.cold.spoil("traces", 33, without_a_call)
    assert traced.found(mode="sampled", sample_blocks=2) == [("traces", 33, 33)]
    assert traced.lines.facts("integrity_suspects") == [{"blocks": ["33-33"]}]


def test_a_node_that_does_not_trace_is_said(traced: Checked, node: ScriptedRpc) -> None:
    really = node.answer
    node.answer = lambda method, params: (
        RpcError(-32601, "no such method") if method == "trace_block" else really(method, params)
    )
    with pytest.raises(InvalidConfig, match="trace_block"):
        traced.run()


@dataclass(frozen=True)
class Spoiled:
    """A table, a block, what is done to its file, and what is to be found."""

    name: str
    block: int
    change: Callable[[pa.Table, int], pa.Table]
    what: str


SPOILED = {
    "a flipped bit in a block hash": Spoiled(
        "blocks", 57, lambda t, n: set_value(t, n, "block_hash", flip), "block_hash"
    ),
    "a flipped bit in a state root": Spoiled(
        "blocks", 210, lambda t, n: set_value(t, n, "state_root", flip), "state_root"
    ),
    "a flipped bit in a transaction hash": Spoiled(
        "transactions",
        120,
        lambda t, n: set_value(t, n, "transaction_hash", flip),
        "transaction_hash",
    ),
    "a value that is one more": Spoiled(
        "transactions",
        120,
        lambda t, n: set_value(t, n, "gas_used", lambda gas: gas + 1),
        "gas_used",
    ),
    "a topic that is gone": Spoiled(
        "logs", 33, lambda t, n: set_value(t, n, "topic0", lambda _: None), "topic0"
    ),
    "a log row that is missing": Spoiled(
        "logs", 33, lambda t, n: without_row(t, places(t, n)[-1]), "rows"
    ),
    "a transaction that is there twice": Spoiled(
        "transactions", 150, lambda t, n: with_row_twice(t, places(t, n)[0]), "rows"
    ),
    "a block that is missing": Spoiled(
        "blocks", 140, lambda t, n: without_row(t, places(t, n)[0]), "rows"
    ),
}


@pytest.mark.parametrize("case", SPOILED.values(), ids=SPOILED.keys())
def test_what_is_spoiled_is_found_and_just_that(case: Spoiled, checked: Checked) -> None:
    checked.cold.spoil(case.name, case.block, lambda table: case.change(table, case.block))
    assert checked.found() == [(case.name, case.block, case.block)]
    (alert,) = checked.alerts()
    assert alert["severity"] == ("critical" if case.block <= HEAD - 64 else "warning")
    assert (alert["code"], alert["dataset_uuid"]) == (
        "integrity_mismatch",
        checked.cold.datasets[case.name][0],
    )
    assert (alert["facts"]["what"], alert["facts"]["start"]) == (case.what, case.block)
    (line,) = checked.lines.facts("integrity_mismatch")
    assert line["stored"] != line["chain"]


def test_a_partition_that_holds_another_ones_rows_is_made_anew(checked: Checked) -> None:
    """The files of two ranges were swapped."""
    one, other = (checked.cold.path(checked.cold.file_of("logs", n)) for n in (10, 110))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    assert checked.found() == [("logs", 0, 99), ("logs", 100, 199)]


def test_rows_of_a_fork_that_was_left_are_found(checked: Checked, chain: DevChain) -> None:
    chain.reorg(30)
    start = HEAD - 30 + 1
    expected = [(name, start, 199) for name in ("blocks", "logs", "transactions")]
    expected += [(name, 200, HEAD) for name in ("blocks", "logs", "transactions")]
    busy = set(range(start, HEAD + 1))
    found = checked.found()
    assert [f for f in found if f[0] == "blocks"] == [
        e for e in sorted(expected) if e[0] == "blocks"
    ]
    # A block that is empty on both forks has no rows that could be wrong.
    for name in ("transactions", "logs"):
        spans = [(s, e) for n, s, e in found if n == name]
        blocks = {n for s, e in spans for n in range(s or 0, (e or 0) + 1)}
        assert blocks <= busy
        held = pa.concat_tables(
            pq.read_table(checked.cold.path(u)) for u in checked.cold.files[name]
        )
        assert {n for n in held["block_number"].to_pylist() if n >= start} <= blocks


def test_a_sample_finds_what_the_files_alone_give_away(checked: Checked) -> None:
    """A broken link, a gap, a duplicate and a wrong count are looked at in every row."""
    cold = checked.cold
    cold.spoil("blocks", 57, lambda t: set_value(t, 57, "block_hash", flip))
    cold.spoil("transactions", 150, lambda t: without_row(t, places(t, 150)[-1]))
    cold.spoil("logs", 33, lambda t: with_row_twice(t, places(t, 33)[0]))
    found = checked.found(mode="sampled", sample_blocks=2)
    assert found == [("blocks", 57, 57), ("logs", 33, 33), ("transactions", 150, 150)]
    (facts,) = checked.lines.facts("integrity_checked")
    assert facts["blocks_compared"] < 20


def test_a_link_from_one_partition_to_the_next_is_checked(checked: Checked) -> None:
    checked.cold.spoil("blocks", 100, lambda t: set_value(t, 100, "parent_hash", flip))
    checked.cold.spoil("blocks", 100, lambda t: set_value(t, 100, "gas_used", lambda g: g + 1))
    assert checked.found(mode="sampled", sample_blocks=2) == [("blocks", 100, 100)]


def test_a_sample_is_the_same_in_every_attempt_and_another_in_the_next_task(
    checked: Checked, node: ScriptedRpc
) -> None:
    def asked() -> list[str]:
        seen: list[str] = []
        tell = node.answer

        def answer(method: str, params: list[Any]) -> Any:
            if method == "eth_getBlockReceipts":
                seen.append(params[0])
            return tell(method, params)

        node.answer = answer
        checked.run(mode="sampled", sample_blocks=5)
        node.answer = tell
        return sorted(seen)

    first, again = asked(), asked()
    assert first == again
    assert {hex(n) for blocks in PARTITIONS for n in (blocks.start, blocks.end)} <= set(first)
    checked.task_id = uuid4()
    assert asked() != first


@pytest.mark.parametrize("damage", ["footer", "page"])
def test_a_file_that_cannot_be_read_invalidates_its_partition(
    damage: str, checked: Checked
) -> None:
    path = checked.cold.path(checked.cold.file_of("transactions", 130))
    body = bytearray(path.read_bytes())
    start, n = (len(body) - 20, 12) if damage == "footer" else (4, len(body) // 2)
    body[start : start + n] = b"\xff" * n
    path.write_bytes(body)
    assert checked.found() == [("transactions", 100, 199)]
    (alert,) = checked.alerts()
    assert "sha256" in alert["message"]


def test_a_file_that_is_gone_is_looked_for_again_and_then_made_anew(checked: Checked) -> None:
    checked.cold.path(checked.cold.file_of("logs", 30)).unlink()
    with pytest.raises(MissingFile) as caught:
        checked.run()
    assert caught.value.retryable
    task = checked.task(attempt=2)
    (made,) = IntegrityCheck().run(task).invalidations
    assert (made.start, made.end) == (0, 99)


def test_a_node_that_contradicts_itself_invalidates_nothing(
    checked: Checked, node: ScriptedRpc
) -> None:
    """It says something else the second time."""
    tell, asked = node.answer, []

    def answer(method: str, params: list[Any]) -> Any:
        found = tell(method, params)
        if method == "eth_getBlockReceipts" and params[0] == hex(50):
            asked.append(1)
            if len(asked) == 1:
                found[0]["gasUsed"] = "0x1"
        return found

    node.answer = answer
    with pytest.raises(NodeContradictsItself, match="the node contradicts itself: two") as caught:
        checked.run()
    assert (caught.value.code, caught.value.retryable) == ("node_contradicts_itself", True)
    assert checked.alerts() == []


@pytest.mark.parametrize(
    ("n_providers", "code", "says"),
    [
        (1, "node_contradicts_itself", "the node contradicts itself: two answers"),
        (2, "providers_disagree", "providers disagree: two answers"),
    ],
)
def test_only_several_providers_disagree(
    checked: Checked,
    node: ScriptedRpc,
    tmp_path: Path,
    n_providers: int,
    code: str,
    says: str,
) -> None:
    """Behind the egress one node is one node. It says something else the second time."""
    tell, asked = node.answer, []

    def answer(method: str, params: list[Any]) -> Any:
        found = tell(method, params)
        if method == "eth_getBlockReceipts" and params[0] == hex(50):
            asked.append(1)
            if len(asked) == 1:
                found[0]["gasUsed"] = "0x1"
        return found

    node.answer = answer
    token = tmp_path / "token"
    token.write_text(WORKER_TOKEN)
    token.chmod(0o600)
    with served_egress(pool(*[node.url] * n_providers)) as egress:
        endpoint = RpcEndpoint(f"{egress.url}/pools/main", SecretFile(str(token)))
        with pytest.raises(RpcUnreachable, match=says) as caught:
            IntegrityCheck().run(replace(checked.task(), rpc=lambda _: endpoint))
    assert caught.value.code == code


def test_a_header_that_does_not_hash_to_its_hash_invalidates_nothing(
    checked: Checked, node: ScriptedRpc
) -> None:
    tell = node.answer

    def answer(method: str, params: list[Any]) -> Any:
        found = tell(method, params)
        if method == "eth_getBlockByNumber" and params[0] == hex(50):
            found["stateRoot"] = "0x" + "12" * 32
        return found

    node.answer = answer
    with pytest.raises(NodeContradictsItself, match="block 50"):
        checked.run()
    # Whoever turns the proof off believes the node.
    assert checked.found(header_hash=False) == [("blocks", 50, 50)]


def test_roots_that_are_no_tries_are_the_nodes_contradiction(checked: Checked) -> None:
    with pytest.raises(NodeContradictsItself, match="root"):
        checked.run(roots=True)


def test_a_node_that_lags_invalidates_nothing(checked: Checked, node: ScriptedRpc) -> None:
    tell = node.answer

    def answer(method: str, params: list[Any]) -> Any:
        behind = method.startswith("eth_getBlock") and params[0] in (hex(218), hex(219))
        return None if behind else tell(method, params)

    node.answer = answer
    with pytest.raises(RpcUnreachable):
        checked.run()


def test_the_same_finding_is_one_invalidation_until_other_files_are_there(
    checked: Checked, node: ScriptedRpc
) -> None:
    cold = checked.cold
    cold.spoil("logs", 33, lambda t: without_row(t, places(t, 33)[-1]))
    first, again = checked.run(), checked.run(mode="full", window_blocks=50)
    assert [i.request_id for i in first] == [i.request_id for i in again]
    assert len(checked.alerts()) == 1
    cold.files = {name: files[2:] for name, files in cold.files.items()}
    cold.ingest(node.url, PARTITIONS[0])
    cold.spoil("logs", 33, lambda t: without_row(t, places(t, 33)[-1]))
    assert [i.request_id for i in checked.run()] != [i.request_id for i in first]
    assert len(checked.alerts()) == 2


def test_a_repair_that_does_not_help_is_given_up(checked: Checked, node: ScriptedRpc) -> None:
    """A producer that makes the same mistake again would be kept at it for ever."""
    cold = checked.cold
    for n in range(3):
        cold.spoil("logs", 33, lambda t: without_row(t, places(t, 33)[-1]))
        assert len(checked.run(max_repairs=2)) == (1 if n < 2 else 0)
        cold.files = {
            name: [f for f in files if f.partition("_")[2] not in ("0_49.parquet", "50_99.parquet")]
            for name, files in cold.files.items()
        }
        cold.ingest(node.url, PARTITIONS[0])
    assert [a["severity"] for a in checked.alerts()] == ["critical"] * 3
    assert "repairs do not help" in checked.alerts()[-1]["message"]


def with_more_gas(table: pa.Table) -> pa.Table:
    """Every row of it is wrong."""
    place = table.schema.names.index("gas_used")
    return table.set_column(place, "gas_used", pc.add(table["gas_used"], 1))


def test_a_repair_that_does_not_help_is_given_up_though_each_sample_is_another(
    checked: Checked, node: ScriptedRpc
) -> None:
    cold = checked.cold
    made_anew = []
    for _ in range(3):
        for block in (0, 50):
            cold.spoil("blocks", block, with_more_gas)
        task = replace(checked.task(mode="sampled", max_repairs=2), task_id=uuid4())
        made_anew.append(len(IntegrityCheck().run(task).invalidations))
        cold.files = {
            name: [f for f in files if f.partition("_")[2] not in ("0_49.parquet", "50_99.parquet")]
            for name, files in cold.files.items()
        }
        cold.ingest(node.url, PARTITIONS[0])
    assert [n > 0 for n in made_anew] == [True, True, False]


def test_one_table_alone_can_be_checked(checked: Checked) -> None:
    checked.cold.spoil("logs", 33, lambda t: set_value(t, 33, "address", flip))
    task = replace(checked.task(), inputs=checked.cold.inputs(names=("logs",)))
    (made,) = IntegrityCheck().run(task).invalidations
    assert (made.start, made.end, made.scope) == (33, 33, "row_range")
    assert "address" in made.reason


def test_what_cannot_be_checked_is_refused(checked: Checked) -> None:
    blocks = checked.cold.inputs()[0]
    for wrong in ({"where": {"block_number": {"gt": 3}}}, {"table": True}):
        given = blocks.model_copy(update=wrong)
        with pytest.raises(InvalidConfig, match="whole cold partitions"):
            IntegrityCheck().run(replace(checked.task(), inputs=(given,)))
    with pytest.raises(WrongChain):
        checked.run(chain_id=1)


def test_nothing_to_check_is_nothing_wrong(checked: Checked) -> None:
    tick = checked.cold.inputs()[0].model_copy(update={"files": [], "trigger": True})
    assert IntegrityCheck().run(replace(checked.task(), inputs=(tick,))).invalidations == []
    assert json.dumps(checked.lines.facts("integrity_nothing_to_check")) == "[{}]"


REPAIRED = """
name: chain
jobs:
  - name: request
    activation: source
    source: { kind: manual }
    outputs: [ranges]
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{ from: { job: request, output: ranges } }]
    outputs: [blocks, transactions, logs]
    config: { chain_id: 31337, rpc_pool: test }
  - name: check
    activation: reactive
    runtime: ecs_platform
    operator: integrity_check
    inputs:
      - { from: { job: ingest, output: blocks } }
      - { from: { job: ingest, output: transactions }, trigger: false }
      - { from: { job: ingest, output: logs }, trigger: false }
    config: { chain_id: 31337, rpc_pool: test, mode: full }
"""


@pytest.mark.anyio
async def test_what_is_found_is_made_anew_and_then_right(
    state_dsns: StateDsns, node: ScriptedRpc, data: DataDatabase, tmp_path: Path
) -> None:
    """Dispatcher, files and chain are real; the workers are played."""
    plane = await ControlPlane.open(state_dsns, tmp_path)
    try:
        await plane.deploy(REPAIRED)
        await plane.trigger(20, 59)
        store = LocalStore(str(tmp_path))
        ran: list[str] = []
        found: list[tuple[int | None, int | None]] = []
        for _ in range(8):
            for claimed in await take(plane):
                ran.append(claimed.task.job.name)
                if ran[-1] == "ingest":
                    outputs = write(store, node.url, BlockRange(20, 59), claimed.task.outputs)
                    await plane.complete(claimed, outputs=outputs)
                    if len(ran) == 1:
                        _flip_a_log(store, claimed.task.outputs[2].prefix)
                else:
                    task = _as_the_worker_would(claimed, store, node.url, data)
                    result = IntegrityCheck().run(task)
                    found += [(each.start, each.end) for each in result.invalidations]
                    await plane.complete(claimed, invalidations=result.invalidations)
            await route_invalidations(plane.dispatcher.state)
        assert ran == ["ingest", "check", "ingest", "check"]
        assert found == [(33, 33)]
        (row,) = plane.sql("SELECT processed_at FROM data_invalidations WHERE NOT remade")
        assert row["processed_at"] is not None
    finally:
        await plane.close()


def _flip_a_log(store: LocalStore, prefix: str) -> None:
    path = Path(store.filesystem(prefix + "logs_20_39.parquet")[1])
    pq.write_table(set_value(pq.read_table(path), 33, "address", flip), path)


def _as_the_worker_would(
    claimed: Claimed, store: LocalStore, url: str, data: DataDatabase
) -> TaskContext:
    return TaskContext(
        task_id=claimed.task.task_id,
        attempt=claimed.attempt,
        config=Config.model_validate(claimed.task.config),
        inputs=tuple(claimed.task.inputs),
        outputs=tuple(claimed.task.outputs),
        store=store,
        spark=no_spark,
        rpc=lambda _: RpcEndpoint(url),
        check=lambda: None,
        data=lambda: data,
    )
