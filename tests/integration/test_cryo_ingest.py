from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.integration.conftest import Ingest, settled_progress
from tests.support import other_chains
from tests.support.ingest_tables import tables_task
from tests.support.scripted_rpc import HANG, Raw, RpcError, ScriptedRpc, scripted_rpc
from tests.support.slow_rows import SlowRows, assert_same
from tests.support.tiny_chain import CHAIN_ID, TinyChain, digest
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    DiskFull,
    InvalidConfig,
    MalformedBlock,
    RpcUnreachable,
    TaskCanceled,
    TraceError,
    Unavailable,
    WrongChain,
)
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.evm.schema import DEFAULT_TABLES, TABLES
from trace_platform.operators.ingest.cryo_ingest import Config, CryoIngest, Part, write_part
from trace_platform.wire.manifest import schema_hash, seal

pytestmark = pytest.mark.spark

KEY = "/v3/s3cr3t-0123456789"


def _files(task: TaskContext, index: int) -> list[str]:
    prefix = task.outputs[index].prefix
    return [uri.removeprefix(prefix) for uri in task.store.list(prefix)]


def test_a_range_becomes_three_sealed_outputs(ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(20, 3).answer) as node:
        task = ingest.task(node.url + KEY, BlockRange(2, 19), batch_blocks=4)
        result = ingest.run_task(task)
    assert [output.row_count for output in result.outputs] == [18, 54, 54]
    assert result.events == []
    for index, table in enumerate(DEFAULT_TABLES):
        schema = TABLES[table]
        committed, output = result.outputs[index], task.outputs[index]
        assert committed.location == output.prefix
        assert committed.dataset_version == output.dataset_version
        assert (committed.partition_key, committed.start, committed.end) == ("2-19", 2, 19)
        manifest = ingest.manifest(task, index)
        body = task.store.get(output.prefix + "_manifest.json")
        assert task.store.get(output.prefix + "_SUCCESS") == seal(body)
        assert [column.name for column in manifest.columns] == schema.names
        assert manifest.schema_hash == schema_hash(manifest.columns)
        assert [file.name for file in manifest.files] == [
            f"{table}_2_9.parquet",
            f"{table}_10_17.parquet",
            f"{table}_18_19.parquet",
        ]
        for file in manifest.files:
            data = task.store.get(output.prefix + file.name)
            assert (len(data), hashlib.sha256(data).hexdigest()) == (file.bytes, file.sha256)
        stored = ingest.read(task, index, result)
        assert stored.schema.equals(schema)
        numbers = stored["block_number"].to_pylist()
        assert numbers == sorted(numbers)


def test_each_block_is_read_once(ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(12).answer) as node:
        ingest.run(node.url, BlockRange(0, 11), batch_blocks=3)
        assert node.calls.count("eth_getBlockByNumber") == 12
        assert node.calls.count("eth_getBlockReceipts") == 12


def test_the_same_range_gives_the_same_files(ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(12).answer) as node:
        tasks = [ingest.task(node.url, BlockRange(0, 11), batch_blocks=3) for _ in range(2)]
        for task in tasks:
            ingest.run_task(task)
    for index in range(3):
        assert ingest.manifest(tasks[0], index) == ingest.manifest(tasks[1], index)


def test_a_range_without_logs_still_has_a_file_with_the_columns(ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(1).answer) as node:
        found = ingest.run(node.url, BlockRange(0, 0))
    assert found["blocks"].num_rows == 1
    assert found["logs"].num_rows == 0
    assert found["logs"].schema.equals(TABLES["logs"])


def test_other_chains_and_amounts_beyond_int64_are_read_whole(ingest: Ingest) -> None:
    """On Spark, in files and back: deposits, a nonce and a gas price that no int64 holds."""
    chain = other_chains.optimism()
    chain.block(1)["transactions"][2]["gasPrice"] = hex(2**64 - 1)
    rows = SlowRows(lambda method, *params: chain.answer(method, list(params)), BlockRange(0, 1))
    with scripted_rpc(chain.answer) as node:
        found = ingest.run(node.url, BlockRange(0, 1))
    for table in DEFAULT_TABLES:
        assert_same(found[table], rows[table], table)
    above = found["transactions"]["above_int64"].to_pylist()
    assert above == [None, '{"nonce": "18446744073709551613"}', f'{{"gas_price": "{2**64 - 1}"}}']


def _wrong_chain(chain: TinyChain) -> Callable[[str, list[Any]], Any]:
    return lambda method, params: "0x1" if method == "eth_chainId" else chain.answer(method, params)


def _cut(chain: TinyChain) -> Callable[[str, list[Any]], Any]:
    chain.receipts_of(7).pop()
    return chain.answer


def _other_fork(chain: TinyChain) -> Callable[[str, list[Any]], Any]:
    """Block 4 starts the second of four partitions: only the driver can see the break."""
    chain.block(4)["parentHash"] = digest("another fork")
    return chain.answer


def _pruned(chain: TinyChain) -> Callable[[str, list[Any]], Any]:
    def answer(method: str, params: list[Any]) -> Any:
        said = chain.answer(method, params)
        return said if method == "eth_chainId" else RpcError(-32000, f"pruned, see {KEY}")

    return answer


def _short(chain: TinyChain) -> Callable[[str, list[Any]], Any]:
    del chain.blocks[9:]
    return chain.answer


@pytest.mark.parametrize(
    ("bend", "kind", "says", "retryable"),
    [
        (
            _wrong_chain,
            WrongChain,
            "asks for chain 31337, http://127.0.0.1:PORT serves chain 1",
            False,
        ),
        (_cut, MalformedBlock, "block 7 has 2 transactions, 1 receipts", True),
        (_other_fork, MalformedBlock, "block 4 is not a child of the block before it", True),
        (
            _pruned,
            RpcUnreachable,
            "http://127.0.0.1:PORT refuses block 0: pruned, see /v3/***",
            True,
        ),
        (
            _short,
            RpcUnreachable,
            "http://127.0.0.1:PORT does not have block 9 (yet): it answers null",
            True,
        ),
    ],
)
def test_a_bad_node_is_named_in_one_line_and_nothing_is_sealed(
    bend: Callable[[TinyChain], Callable[[str, list[Any]], Any]],
    kind: type[TraceError],
    says: str,
    retryable: bool,
    ingest: Ingest,
) -> None:
    with scripted_rpc(bend(TinyChain(16))) as node:
        task = ingest.task(node.url + KEY, BlockRange(0, 15), batch_blocks=4)
        with pytest.raises(kind) as caught:
            ingest.run_task(task)
        assert caught.value.message.endswith(says.replace("PORT", str(node.port)))
    assert type(caught.value) is kind
    assert caught.value.retryable is retryable
    assert "\n" not in caught.value.message
    for index in range(3):
        assert not {"_manifest.json", "_SUCCESS"} & set(_files(task, index))


def test_an_unreachable_node_is_named_before_spark_is_asked(ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(1).answer) as node:
        gone = node.url
    task = ingest.task(gone + KEY, BlockRange(0, 9))
    with pytest.raises(RpcUnreachable, match="Connection refused") as caught:
        CryoIngest().run(task)  # its `spark` raises
    assert KEY not in str(caught.value)


def test_a_node_that_limits_the_rate_is_waited_for(ingest: Ingest) -> None:
    limited = Raw(status=429, headers={"Retry-After": "0"})
    with scripted_rpc(TinyChain(4).answer, limited) as node:
        node.faults.append(limited)
        assert ingest.run(node.url, BlockRange(0, 3))["blocks"].num_rows == 4


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_named_and_the_partial_files_are_gone(ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(4).answer) as node:
        task = ingest.task(node.url, BlockRange(0, 3))
        folder = Path(task.store.filesystem(task.outputs[2].prefix)[1])
        folder.mkdir(parents=True)
        (folder / "logs_0_3.parquet").symlink_to("/dev/full")
        with pytest.raises(DiskFull, match=r"no space left to write logs_0_3\.parquet") as caught:
            ingest.run_task(task)
    assert caught.value.retryable
    assert [_files(task, index) for index in range(3)] == [[], [], []]


def test_files_of_an_earlier_crash_are_not_promised(ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(4).answer) as node:
        task = ingest.task(node.url, BlockRange(0, 3))
        for output in task.outputs:
            task.store.put(output.prefix + f"{output.name}_0_1.parquet", b"half a file")
            task.store.put(output.prefix + "_manifest.json", b"{}")
        ingest.run_task(task)
    for index, output in enumerate(task.outputs):
        promised = [file.name for file in ingest.manifest(task, index).files]
        assert promised == [f"{output.name}_0_3.parquet"]


def test_a_retried_spark_task_writes_beside_the_first_try(tmp_path: Path, ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(4).answer) as node:
        task = ingest.task(node.url, BlockRange(0, 3))
        prefixes = {output.name: output.prefix for output in task.outputs}
        config = Config(chain_id=CHAIN_ID, rpc_pool="test")
        part = Part(RpcEndpoint(node.url + KEY), config, task.store, prefixes, BlockRange(0, 3))
        first, second = write_part(part), write_part(part, retry=1)
    assert KEY not in repr(part)
    assert first.files["logs"].name == "logs_0_3.parquet"
    assert second.files["logs"].name == "logs_0_3.1.parquet"
    assert first.files["logs"].sha256 == second.files["logs"].sha256


def test_a_task_of_two_ranges_is_refused(ingest: Ingest) -> None:
    task = ingest.task("http://127.0.0.1:1", BlockRange(0, 3))
    with pytest.raises(InvalidConfig, match="one block range, and 2 updates"):
        CryoIngest().run(replace(task, inputs=task.inputs * 2))


@contextmanager
def _hanging(chain: TinyChain) -> Iterator[tuple[ScriptedRpc, threading.Event]]:
    """A node that says which chain it is, and then nothing; the event tells when it was asked."""
    asked = threading.Event()

    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_chainId":
            node.faults.extend([HANG] * 100)
        return chain.answer(method, params)

    with scripted_rpc(answer) as node:
        watch = threading.Thread(target=_tell_when_asked, args=(node, asked))
        watch.start()
        try:
            yield node, asked
        finally:
            node.released.set()
            watch.join()


def _tell_when_asked(node: ScriptedRpc, asked: threading.Event) -> None:
    """At the second request: the first asks for the chain."""
    node.asked.acquire()
    node.asked.acquire()
    asked.set()


def test_a_cancelled_attempt_stops_and_seals_nothing(ingest: Ingest) -> None:
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise TaskCanceled("the task was cancelled")

    with _hanging(TinyChain(16)) as (node, hang):
        task = ingest.task(node.url, BlockRange(0, 15), batch_blocks=4)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(ingest.run_task, task, check, "stop-me")
            hang.wait()
            assert settled_progress(ingest.runtime, "stop-me") == (0, 4)
            stop.set()
            ingest.runtime.cancel("stop-me")
            with pytest.raises(TaskCanceled, match="the task was cancelled"):
                running.result()
    for index in range(3):
        assert "_SUCCESS" not in _files(task, index)


# To start another takes as long as most files; what notices it: test_spark_runtime.
@pytest.mark.long
def test_a_jvm_killed_in_the_middle_fails_the_attempt_and_the_next_one_works(
    ingest: Ingest,
) -> None:
    with _hanging(TinyChain(16)) as (node, hang):
        task = ingest.task(node.url, BlockRange(0, 15), batch_blocks=4)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(ingest.run_task, task)
            hang.wait()
            pid = ingest.runtime.jvm_pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(Unavailable) as caught:
                running.result()
        assert caught.value.retryable
        assert "\n" not in caught.value.message
    # As in test_spark_runtime: it takes a moment to be gone.
    assert ingest.runtime._jvm is not None
    ingest.runtime._jvm.wait(60)
    with scripted_rpc(TinyChain(16).answer) as node:
        assert ingest.run(node.url, BlockRange(0, 15))["blocks"].num_rows == 16


@pytest.mark.parametrize("tables", [("logs",), ("traces", "blocks"), tuple(TABLES)])
def test_outputs_follow_the_tables_that_the_job_asks_for(
    tables: tuple[str, ...], ingest: Ingest
) -> None:
    with scripted_rpc(TinyChain(12, 3).answer) as node:
        task = tables_task(ingest, node.url, BlockRange(0, 11), tables, batch_blocks=3)
        result = ingest.run_task(task)
        asked = set(node.calls)
    for index, table in enumerate(tables):
        assert ingest.read(task, index, result).schema.equals(TABLES[table])
        assert all(file.name.startswith(table) for file in ingest.manifest(task, index).files)
    assert [output.output_index for output in result.outputs] == list(range(len(tables)))
    assert ("trace_block" in asked) == ("traces" in tables)
    assert ("eth_getBlockReceipts" in asked) == ("logs" in tables)


def test_a_node_without_traces_is_named_and_nothing_is_sealed(ingest: Ingest) -> None:
    chain = TinyChain(8)

    def answer(method: str, params: list[Any]) -> Any:
        missing = RpcError(-32601, "the method trace_block does not exist")
        return missing if method == "trace_block" else chain.answer(method, params)

    with scripted_rpc(answer) as node:
        task = tables_task(ingest, node.url, BlockRange(0, 7), ("blocks", "traces"))
        with pytest.raises(InvalidConfig, match="does not have the method trace_block") as caught:
            ingest.run_task(task)
    assert not caught.value.retryable
    assert [_files(task, index) for index in range(2)] == [[], []]


def test_outputs_that_are_not_the_tables_are_refused(ingest: Ingest) -> None:
    task = ingest.task("http://127.0.0.1:1", BlockRange(0, 3), tables=["blocks", "traces"])
    with pytest.raises(InvalidConfig, match="has 3 outputs, its tables are blocks, traces"):
        CryoIngest().run(task)


def test_a_range_larger_than_a_task_is_given_back_in_aligned_parts(ingest: Ingest) -> None:
    """Neither the node nor Spark is asked."""
    task = ingest.task("http://127.0.0.1:1", BlockRange(95, 310), max_blocks_per_task=100)
    result = CryoIngest().run(task)
    parts = [BlockRange(95, 99), BlockRange(100, 199), BlockRange(200, 299), BlockRange(300, 310)]
    assert result.split == parts
    assert not result.outputs
    assert [_files(task, index) for index in range(3)] == [[], [], []]


def test_a_range_that_fits_a_task_is_not_split(ingest: Ingest) -> None:
    with scripted_rpc(TinyChain(12).answer) as node:
        for most in (12, None):
            task = ingest.task(node.url, BlockRange(0, 11), max_blocks_per_task=most)
            result = ingest.run_task(task)
            assert not result.split
            assert result.outputs[0].row_count == 12


def test_more_tasks_than_can_be_told_are_refused(ingest: Ingest) -> None:
    task = ingest.task("http://127.0.0.1:1", BlockRange(0, 10**9), max_blocks_per_task=1)
    with pytest.raises(InvalidConfig, match="more than 9999 tasks"):
        CryoIngest().run(task)


@pytest.mark.parametrize("tables", [[], ["blocks", "blocks"], ["receipts"]])
def test_tables_that_are_none_or_not_there_are_refused(tables: list[str]) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate({"chain_id": 1, "rpc_pool": "x", "tables": tables})
