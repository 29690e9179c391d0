"""log_decode and call_decode on a real session: what they read, write, promise and log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.support.encoded_logs import (
    ALICE,
    BOB,
    POOL,
    TOKEN,
    call_data,
    log,
    logs,
    raw_log,
    traces,
    transactions,
)
from tests.support.frame_task import FrameTasks, given, output
from tests.support.shared_data import SharedData, shared_data
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_tables import HotTable, HotWriter
from trace_platform.domain.errors import InvalidConfig, RangeNotReady
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.contract import Result
from trace_platform.operators.decode import decode_task
from trace_platform.operators.decode.call_decode import CallDecode
from trace_platform.operators.decode.log_decode import LogDecode
from trace_platform.operators.evm.schema import LOGS
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.task import TaskInput, TaskOutput

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

pytestmark = pytest.mark.spark

TRANSFER = "Transfer(address indexed from, address indexed to, uint256 value)"
PER_BLOCK = 2


@pytest.fixture
def tasks(spark_runtime: SparkRuntime, tmp_path: Path) -> FrameTasks:
    return FrameTasks(spark_runtime, LocalStore(str(tmp_path / "store")))


@pytest.fixture(scope="module")
def data(postgres: PostgresServer) -> Iterator[SharedData]:
    with shared_data(postgres) as made:
        yield made


def run(
    tasks: FrameTasks,
    operator: type[LogDecode | CallDecode],
    inputs: Sequence[TaskInput],
    outputs: Sequence[TaskOutput] | None = None,
    **config: Any,
) -> Result:
    parsed = operator.Config.model_validate(config)
    named = outputs or [output(n, name) for n, name in enumerate(parsed.outputs() or ())]
    with tasks.task(inputs, named, parsed) as task:
        return operator().run(task)


def rows(tasks: FrameTasks, result: Result) -> list[list[dict[str, Any]]]:
    return [tasks.read(commit).to_pylist() for commit in result.outputs]


def transfers(count: int, first: int = 0) -> pa.Table:
    """Two to a block; amounts are the log's number."""
    made = logs(*(log(TRANSFER, ALICE, BOB, n) for n in range(first + count)), per_block=PER_BLOCK)
    return made.slice(first)


def test_cold_logs_become_an_output_per_event_and_none_is_lost(tasks: FrameTasks) -> None:
    table = logs(
        *(log(TRANSFER, ALICE, BOB, 2**256 - 1 - n) for n in range(4)),
        log("Deposit(address indexed dst, uint256 wad)", ALICE, 5),
        raw_log([log(TRANSFER, ALICE, BOB, 1)["topic0"]], b"\1"),
        raw_log([b"\x09" * 32], b"of no event"),
        per_block=PER_BLOCK,
    )
    files = [tasks.file("logs_0_1", table.slice(0, 4)), tasks.file("logs_2_3", table.slice(4))]
    config: dict[str, Any] = {"abis": ["erc20.Transfer", "weth.Deposit"]}
    result = run(tasks, LogDecode, [given(0, 0, 3, files)], **config)
    sent, deposits, undecoded = rows(tasks, result)
    assert [row["value_string"] for row in sent] == [str(2**256 - 1 - n) for n in range(4)]
    assert [(row["dst"].hex(), row["wad_string"]) for row in deposits] == [(ALICE[2:], "5")]
    assert [(row["event"], row["reason"]) for row in undecoded] == [
        ("erc20_transfer", "topic_count")
    ]
    said = LogDecode.Config.model_validate(config).columns()
    assert [tasks.manifest(commit).columns for commit in result.outputs] == said
    assert {(commit.start, commit.end) for commit in result.outputs} == {(0, 3)}
    assert "decoded" in tasks.log


def test_many_files_become_sorted_parts_with_every_row_once(
    tasks: FrameTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_platform.operators.decode.decode_task._PART_BYTES", 1_000)
    table = transfers(2_000)
    shuffled = table.take([(n * 7_919) % 2_000 for n in range(2_000)])
    files = [tasks.file(f"logs_0_999-{n:03}", shuffled.slice(n * 500, 500)) for n in range(4)]
    result = run(tasks, LogDecode, [given(0, 0, 999, files)], abis=["erc20.Transfer"])
    names = [file.name for file in tasks.manifest(result.outputs[0]).files]
    assert names == [f"erc20_transfer_0_999-{n:03}.parquet" for n in range(2)]
    sent = tasks.read(result.outputs[0])
    assert [int(text) for text in sent["value_string"].to_pylist()] == list(range(2_000))
    assert result.outputs[1].row_count == 0


def test_sorted_files_are_read_as_spark_reads_them_and_others_are_left_to_it(
    tasks: FrameTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_platform.operators.decode.decode_task._PART_BYTES", 1_000)
    table = logs(*(log(TRANSFER, ALICE, BOB, n) for n in range(200)), per_block=4)
    backwards = table.take(list(reversed(range(200))))
    in_order = tasks.file("logs_0_49", table, row_group_size=30)
    by_spark = 0
    through_spark = decode_task._of_frame

    def counted(*given: Any) -> Any:
        nonlocal by_spark
        by_spark += 1
        return through_spark(*given)

    monkeypatch.setattr(decode_task, "_of_frame", counted)
    for n, uri in enumerate((in_order, tasks.file("backwards_0_49", backwards))):
        found = run(tasks, LogDecode, [given(0, 3, 45, [uri])], abis=["erc20.Transfer"])
        sent = rows(tasks, found)[0]
        assert [int(row["value_string"]) for row in sent] == list(range(12, 184))
        assert by_spark == n


def test_hot_and_cold_rows_are_decoded_alike(tasks: FrameTasks, data: SharedData) -> None:
    tasks.data = DataDatabase(data.writer, dag="decode")
    table = HotTable(uuid4(), uuid4(), LOGS, ("block_number", "transaction_index", "log_index"))
    whole = transfers(20)
    hot = whole.slice(10)
    hashes = list(zip(hot["block_number"].to_pylist(), hot["block_hash"].to_pylist(), strict=True))
    with HotWriter(tasks.data, [table], uuid4(), 1, keep_hashes=8) as writer:
        writer.take_over()
        batches = {table.dataset_version: hot.to_batches()}
        writer.rewrite(5, 9, batches, hashes[::PER_BLOCK])
    both = given(
        *(0, 0, 9, [tasks.file("logs_0_4", whole.slice(0, 10))]),
        table=True,
        dataset_uuid=table.dataset_uuid,
        dataset_version=table.dataset_version,
    )
    found = rows(tasks, run(tasks, LogDecode, [both], abis=["erc20.Transfer"]))[0]
    cold = given(0, 0, 9, [tasks.file("whole_0_9", whole)])
    assert found == rows(tasks, run(tasks, LogDecode, [cold], abis=["erc20.Transfer"]))[0]
    assert [row["value_string"] for row in found] == [str(n) for n in range(20)]


def test_contracts_are_chosen_by_address_also_by_a_dataset_of_them(tasks: FrameTasks) -> None:
    table = logs(
        log(TRANSFER, ALICE, BOB, 1, address=TOKEN),
        log(TRANSFER, ALICE, BOB, 2, address=POOL),
        raw_log([b"\x09" * 32], b"of no event", address=POOL),
    )
    read = given(0, 0, 1, [tasks.file("logs_0_1", table)])
    text = pa.table({"pool": ["0x" + POOL.hex().upper()] * 2})
    binary = pa.table({"pool": [POOL, None, b""]})
    lists = [tasks.file(name, rows) for name, rows in (("a", text), ("b", binary))]
    chosen: list[tuple[Any, list[TaskInput]]] = [(["0x" + POOL.hex()], [])]
    chosen += [({"input": 1, "column": "pool"}, [listed(file)]) for file in lists]
    for addresses, more in chosen:
        inputs = [read, *more]
        result = run(tasks, LogDecode, inputs, abis=["erc20.Transfer"], addresses=addresses)
        sent, undecoded = rows(tasks, result)
        assert [row["value_string"] for row in sent] == ["2"], addresses
        assert [row["reason"] for row in undecoded] == ["unknown_event"], addresses


def listed(*files: str) -> TaskInput:
    """As a whole: of no range of blocks."""
    return TaskInput(
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        input_index=1,
        partition_key="0-1",
        start=0,
        end=1,
        files=list(files),
        trigger=False,
    )


def test_a_list_of_addresses_that_is_not_whole_is_refused(tasks: FrameTasks) -> None:
    read = given(0, 0, 1, [tasks.file("logs_0_1", transfers(2))])
    by_blocks = tasks.file("pools_0_1", pa.table({"pool": [POOL]}))
    whole = tasks.file("pools", pa.table({"pool": [POOL], "n": [1]}))
    words = tasks.file("words", pa.table({"pool": [POOL, bytes(12) + POOL]}))
    wrong: list[tuple[TaskInput, str, type[Exception], str]] = [
        (listed(words), "pool", InvalidConfig, "has a value of 32 bytes: 0x0000"),
        (listed(by_blocks), "pool", InvalidConfig, "block by block"),
        (listed(), "pool", RangeNotReady, "has not been written yet"),
        (listed(whole), "pol", InvalidConfig, "has no column 'pol'"),
        (listed(whole), "n", InvalidConfig, "column 'n' of input 1 is bigint"),
    ]
    for given_list, column, error, said in wrong:
        with pytest.raises(error, match=said):
            run(
                *(tasks, LogDecode, [read, given_list]),
                abis=["erc20"],
                addresses={"input": 1, "column": column},
            )


def test_ranges_with_a_gap_between_them_become_a_task_each(tasks: FrameTasks) -> None:
    file = tasks.file("logs_0_9", transfers(20))
    apart = [given(0, 0, 1, [file]), given(0, 5, 6, [file])]
    result = run(tasks, LogDecode, apart, abis=["erc20.Transfer"])
    assert [(each.start, each.end) for each in result.split] == [(0, 1), (5, 6)]
    touching = [given(0, 0, 1, [file]), given(0, 2, 3, [file])]
    assert len(rows(tasks, run(tasks, LogDecode, touching, abis=["erc20.Transfer"]))[0]) == 8


def test_outputs_that_do_not_fit_and_rows_that_are_no_logs_are_refused(tasks: FrameTasks) -> None:
    read = given(0, 0, 0, [tasks.file("logs_0_0", transfers(2))])
    other = given(0, 0, 0, [tasks.file("t_0_0", pa.table({"block_number": [0]}))])
    appended = [output(0, append=["log_index"]), output(1, "undecoded")]
    wrong: list[tuple[TaskInput, list[TaskOutput] | None, str]] = [
        (read, [output(0)], "1 outputs, and its config makes 2"),
        (read, appended, "cannot be appended"),
        (other, None, "input 0 has no column transaction_hash"),
    ]
    for one, outputs, said in wrong:
        with pytest.raises(InvalidConfig, match=said):
            run(tasks, LogDecode, [one], outputs, abis=["erc20.Transfer"])


def test_calls_of_transactions_become_an_output_per_function(tasks: FrameTasks) -> None:
    right = call_data("transfer(address to, uint256 value)", ALICE, 2**256 - 1)
    table = transactions(right, b"", right[:40], b"\1\2\3\4")
    file = tasks.file("transactions_0_3", table)
    functions = ["transfer(address to, uint256 amount)"]
    result = run(tasks, CallDecode, [given(0, 0, 3, [file])], functions=functions)
    called, undecoded = rows(tasks, result)
    assert [(row["to"].hex(), row["amount_string"]) for row in called] == [
        (ALICE[2:], str(2**256 - 1))
    ]
    assert [row["reason"] for row in undecoded] == ["data_length"]
    config = CallDecode.Config.model_validate({"functions": functions})
    assert [tasks.manifest(commit).columns for commit in result.outputs] == config.columns()


def test_calls_within_transactions_are_found_in_traces(tasks: FrameTasks) -> None:
    right = call_data("transfer(address to, uint256 value)", BOB, 7)
    table = traces(
        {"action_input": right, "trace_address": "0_1"},
        {"action_input": right, "error": "Reverted", "action_call_type": "delegatecall"},
        {"action_type": "create", "action_to": None, "action_init": right},
        {"action_input": None},
    )
    read = given(0, 0, 3, [tasks.file("traces_0_3", table)])
    config: dict[str, Any] = {"abis": ["erc20"], "calls": "traces"}
    config["addresses"] = ["0x" + TOKEN.hex()]
    result = run(tasks, CallDecode, [read], **config)
    called = rows(tasks, result)[0]
    assert [(r["trace_address"], r["success"], r["call_type"]) for r in called] == [
        ("0_1", True, "call"),
        ("0", False, "delegatecall"),
    ]
    assert [commit.row_count for commit in result.outputs] == [2, 0, 0, 0]
    said = CallDecode.Config.model_validate(config).columns()
    assert [tasks.manifest(commit).columns for commit in result.outputs] == said
