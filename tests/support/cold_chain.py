"""Cold tables of a chain as `cryo_ingest` writes them, and ways to spoil them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.scripted_rpc import RpcError, ScriptedRpc, scripted_rpc
from trace_devchain import DevChain, rpc_error
from trace_devchain.methods import METHODS
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.evm.schema import TABLES
from trace_platform.operators.ingest.cryo_ingest import Config, Part, write_part
from trace_platform.operators.staging import seal_output
from trace_platform.wire.task import OutputCommit, TaskInput, TaskOutput

NAMES = ("blocks", "transactions", "logs")


@contextmanager
def served(chain: DevChain) -> Iterator[ScriptedRpc]:
    """On loopback; a test may put its own answers in front."""

    one_at_a_time = threading.Lock()

    def answer(method: str, params: list[Any]) -> Any:
        try:
            with one_at_a_time:
                return json.loads(METHODS[method](chain, params))
        except rpc_error.RpcError as error:
            return RpcError(error.number, error.message)

    with scripted_rpc(answer) as node:
        yield node


@dataclass
class ColdChain:
    """Datasets in a directory, a partition at a time; three of them, unless others are named."""

    store: LocalStore
    datasets: dict[str, tuple[UUID, UUID]] = field(
        default_factory=lambda: {name: (uuid4(), uuid4()) for name in NAMES}
    )
    files: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in NAMES})

    def ingest(self, url: str, blocks: BlockRange, *, parts: int = 2) -> None:
        outputs = [
            TaskOutput(
                output_index=i,
                name=name,
                dataset_uuid=self.datasets[name][0],
                dataset_version=self.datasets[name][1],
                prefix=f"s3://data/{name}/{uuid4()}/1/",
            )
            for i, name in enumerate(self.datasets)
        ]
        write(self.store, url, blocks, outputs, parts=parts)
        for output in outputs:
            found = self.store.list(output.prefix)
            self.files[output.name] += [uri for uri in found if uri.endswith(".parquet")]

    def inputs(
        self, *, names: tuple[str, ...] | None = None, cursor: int = 7
    ) -> tuple[TaskInput, ...]:
        """As a tick of a schedule has them: every file, none of them what woke the task."""
        return tuple(
            TaskInput(
                input_index=i,
                dataset_uuid=self.datasets[name][0],
                dataset_version=self.datasets[name][1],
                cursor=cursor,
                files=self.files[name],
                trigger=False,
            )
            for i, name in enumerate(names or self.datasets)
        )

    def path(self, uri: str) -> Path:
        return Path(self.store.filesystem(uri)[1])

    def file_of(self, name: str, block: int) -> str:
        for uri in self.files[name]:
            start, end = map(int, uri.removesuffix(".parquet").split("_")[-2:])
            if start <= block <= end:
                return uri
        raise AssertionError(f"no file of {name} is of block {block}")

    def spoil(self, name: str, block: int, change: Callable[[pa.Table], pa.Table]) -> None:
        """Rewrite the file of a block."""
        path = self.path(self.file_of(name, block))
        pq.write_table(change(pq.read_table(path)), path)


def write(
    store: LocalStore,
    url: str,
    blocks: BlockRange,
    outputs: Sequence[TaskOutput],
    *,
    parts: int = 2,
) -> list[OutputCommit]:
    """As `cryo_ingest` does on its executors, one part after the other."""
    tables = [output.name for output in outputs]
    config = Config.model_validate({"chain_id": 31337, "rpc_pool": "test", "tables": tables})
    prefixes = {output.name: output.prefix for output in outputs}
    written = [
        write_part(Part(RpcEndpoint(url), config, store, prefixes, piece))
        for piece in _pieces(blocks, -(-len(blocks) // parts))
    ]
    return [
        seal_output(
            store,
            output,
            blocks,
            [part.files[output.name] for part in written],
            TABLES[output.name],
        )
        for output in outputs
    ]


def _pieces(blocks: BlockRange, size: int) -> Iterator[BlockRange]:
    for start in range(blocks.start, blocks.end + 1, size):
        yield BlockRange(start, min(start + size - 1, blocks.end))


def set_value(table: pa.Table, block: int, column: str, change: Callable[[Any], Any]) -> pa.Table:
    """In the block's first row."""
    rows = table.to_pylist()
    row = next(row for row in rows if row["block_number"] == block)
    row[column] = change(row[column])
    return pa.Table.from_pylist(rows, schema=table.schema)


def flip(value: bytes) -> bytes:
    """One bit of the last byte."""
    return value[:-1] + bytes([value[-1] ^ 1])


def places(table: pa.Table, block: int) -> list[int]:
    return [i for i, n in enumerate(table["block_number"].to_pylist()) if n == block]


def without_row(table: pa.Table, place: int) -> pa.Table:
    return pa.concat_tables([table.slice(0, place), table.slice(place + 1)])


def with_row_twice(table: pa.Table, place: int) -> pa.Table:
    return pa.concat_tables([table.slice(0, place + 1), table.slice(place)])
