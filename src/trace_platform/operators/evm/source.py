"""The `evm` Spark data source: a chain's block range as a DataFrame.

    EvmSource.register(spark)
    spark.read.format("evm").options(url=…, table="logs", start=0, end=9_999).load()

Options: `url`, `table` (blocks, transactions, logs or traces), `start` and `end` (inclusive), and
if wanted `chain_id` (checked against the node's), `batch_blocks`, `in_flight`, `partitions`.
Import this module only where Spark is in use anyway.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.evm.fetch import RangeFetcher
from trace_platform.operators.evm.partitions import partitions
from trace_platform.operators.evm.rpc import RpcClient, majority_client
from trace_platform.operators.evm.schema import TABLES
from trace_platform.operators.evm_header.proofs import Proofs

_registering = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Options:
    table: str
    start: int
    end: int
    chain_id: int | None
    batch_blocks: int
    in_flight: int
    partitions: int

    @classmethod
    def read(cls, options: Mapping[str, str]) -> _Options:
        table = options.get("table", "")
        if table not in TABLES:
            raise InvalidConfig(f"table {table!r} is none of {', '.join(TABLES)}")
        return cls(
            table=table,
            start=_number(options, "start"),
            end=_number(options, "end"),
            chain_id=_number(options, "chain_id") if "chain_id" in options else None,
            batch_blocks=_number(options, "batch_blocks", 50),
            in_flight=_number(options, "in_flight", 2),
            partitions=_number(options, "partitions", 2 * (os.cpu_count() or 1)),
        )


class EvmSource(DataSource):
    # How the nodes are reached, instead of by the option `url`. Its token is the name of a file.
    endpoint: ClassVar[RpcEndpoint | None] = None

    @classmethod
    def name(cls) -> str:
        return "evm"

    @classmethod
    def register(cls, spark: SparkSession) -> None:
        spark.dataSource.register(cls)

    def schema(self) -> StructType:
        return from_arrow_schema(TABLES[_Options.read(self.options).table])

    def reader(self, schema: StructType) -> EvmReader:
        endpoint = self.endpoint or RpcEndpoint(_text(self.options, "url"))
        return EvmReader(endpoint, _Options.read(self.options))


def read_chain(
    spark: SparkSession, endpoint: RpcEndpoint, table: str, chain_id: int, blocks: BlockRange
) -> DataFrame:
    """Rows of a chain as its nodes have them now; no plan tells how those are reached."""
    options = {"table": table, "chain_id": chain_id, "start": blocks.start, "end": blocks.end}
    # A class that is made here is pickled whole, with its attribute. Of two tasks none may get the
    # other's: it is bound when the frame is made.
    with _registering:
        spark.dataSource.register(type("RegisteredEvm", (EvmSource,), {"endpoint": endpoint}))
        return spark.read.format(EvmSource.name()).options(**options).load()


class _Blocks(InputPartition):
    def __init__(self, blocks: BlockRange, chain_id: int) -> None:
        super().__init__(None)
        self.blocks = blocks
        self.chain_id = chain_id


class EvmReader(DataSourceReader):
    def __init__(self, endpoint: RpcEndpoint, options: _Options) -> None:
        self._endpoint = endpoint
        self._options = options

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Comparisons of block_number shrink the range. All are handed back for Spark to apply:
        it trusts those that are not."""
        for asked in filters:
            self._options = _narrowed(self._options, asked)
            yield asked

    def partitions(self) -> list[InputPartition]:
        options = self._options
        if options.end < options.start:
            return []
        client = RpcClient(self._endpoint)
        if options.chain_id is not None:
            client.check_chain(options.chain_id)
        chain_id = options.chain_id or client.number("eth_chainId")
        client.close()
        found = partitions(
            BlockRange(options.start, options.end),
            cores=options.partitions,
            batch_blocks=options.batch_blocks,
            max_partitions=options.partitions,
        )
        return [_Blocks(blocks, chain_id) for blocks in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Blocks):  # Spark asks for None when there are no partitions
            return
        client, majority = RpcClient(self._endpoint), majority_client(self._endpoint)
        fetcher = RangeFetcher(
            client,
            partition.chain_id,
            batch_blocks=self._options.batch_blocks,
            in_flight=self._options.in_flight,
            tables=[self._options.table],
            proofs=Proofs.of(partition.chain_id, None, None),
            majority=majority,
        )
        try:
            for chunk in fetcher.chunks(partition.blocks):
                yield getattr(chunk, self._options.table)
        finally:
            client.close()
            if majority is not None:
                majority.close()


def _narrowed(options: _Options, asked: Filter) -> _Options:
    if getattr(asked, "attribute", None) != ("block_number",):
        return options
    value: Any = getattr(asked, "value", None)
    if not isinstance(value, int):
        return options
    low, high = options.start, options.end
    if isinstance(asked, EqualTo | GreaterThanOrEqual | GreaterThan):
        low = max(low, value + isinstance(asked, GreaterThan))
    if isinstance(asked, EqualTo | LessThanOrEqual | LessThan):
        high = min(high, value - isinstance(asked, LessThan))
    return replace(options, start=low, end=high)


def _text(options: Mapping[str, str], name: str) -> str:
    if not options.get(name):
        raise InvalidConfig(f"the evm source needs the option {name!r}")
    return options[name]


def _number(options: Mapping[str, str], name: str, default: int | None = None) -> int:
    if name not in options and default is not None:
        return default
    text = _text(options, name)
    if not text.isdigit():
        raise InvalidConfig(f"option {name!r} is not a number: {text!r}")
    return int(text)
