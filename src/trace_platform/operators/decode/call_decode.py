"""`call_decode`: calls of transactions, or of traces, to rows of the functions that they call, an
output per function.

A call whose first four bytes are those of a function, and whose arguments are not, is kept in the
output `undecoded` with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from trace_platform.operators.accepts import RANGE, RANGES, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.decode import decode_task
from trace_platform.operators.decode.calls import INPUT, SELECTOR_BYTES, CallDecoder
from trace_platform.operators.decode.config import FunctionsConfig
from trace_platform.operators.evm.schema import TRACES, TRANSACTIONS
from trace_platform.operators.staging import manifest_columns
from trace_platform.wire.abi import TaskAbi
from trace_platform.wire.manifest import ManifestColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OF_BOTH = ("block_number", "block_hash", "timestamp", "transaction_hash", "transaction_index")
_ADDRESSES = ("from_address", "to_address")
_VALUE = ("value_binary", "value_string", "value_f64")
_SUCCESS = pa.field("success", pa.bool_())
_CHAIN_ID = pa.field("chain_id", pa.int64())


def _nullable(schema: pa.Schema, *names: str) -> list[pa.Field]:
    return [schema.field(name).with_nullable(True) for name in names]


OF_TRANSACTIONS = pa.schema(
    [
        *_nullable(TRANSACTIONS, *_OF_BOTH, *_ADDRESSES, *_VALUE),
        _SUCCESS,
        _CHAIN_ID,
    ]
)
OF_TRACES = pa.schema(
    [
        *_nullable(TRACES, *_OF_BOTH, "trace_address"),
        *_nullable(TRANSACTIONS, *_ADDRESSES),
        pa.field("call_type", pa.string()),
        *_nullable(TRANSACTIONS, *_VALUE),
        _SUCCESS,
        pa.field("error", pa.string()),
        _CHAIN_ID,
    ]
)
# Columns of traces that have other names here.
_TRACED = {
    "from_address": "action_from",
    "to_address": "action_to",
    "call_type": "action_call_type",
    "value_binary": "action_value_binary",
    "value_string": "action_value",
    "value_f64": "action_value_f64",
    INPUT: "action_input",
}
# What others wrote may lack these.
_MAY_LACK = ("block_hash", "timestamp", "chain_id", "success", *_VALUE)


class Config(FunctionsConfig):
    calls: Literal["transactions", "traces"] = Field(
        default="transactions",
        description="What input 0 has. In traces there are also calls within transactions.",
    )

    def kept(self) -> pa.Schema:
        return OF_TRACES if self.calls == "traces" else OF_TRANSACTIONS

    def outputs(self) -> tuple[str, ...]:
        return CallDecoder(self.chosen(), self.kept()).outputs

    def columns(self) -> list[list[ManifestColumn]] | None:
        return None if self.stored else self.columns_by(())

    def columns_by(self, abis: Sequence[TaskAbi]) -> list[list[ManifestColumn]]:
        decoder = CallDecoder(self.chosen(), self.kept(), abis)
        return [manifest_columns(schema) for schema in decoder.schemas]

    def made_of_by(self, abis: Sequence[TaskAbi]) -> list[dict[str, list[str]]]:
        made_of = CallDecoder(self.chosen(), self.kept(), abis).made_of
        if self.calls == "transactions":
            return made_of
        return [
            {column: [_of_trace(each) for each in origins] for column, origins in output.items()}
            for output in made_of
        ]


class CallDecode:
    name: ClassVar[str] = "call_decode"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None
    accepts: ClassVar[Accepts] = RANGES
    emits: ClassVar[Updates | None] = RANGE
    writes: ClassVar[Writes | None] = "files"

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        decoder = CallDecoder(
            config.chosen(),
            config.kept(),
            task.abis,
            chain_id=config.chain_id,
            keeps_unknown=config.addresses is not None,
        )

        def narrow(rows: DataFrame) -> DataFrame:
            calls = _of_traces(rows) if config.calls == "traces" else _of_transactions(rows)
            # Who sends ether without a word calls no function.
            called = calls.filter(_length(calls) >= SELECTOR_BYTES)
            if config.addresses:
                return called
            return called.filter(_may_be(called, decoder))

        return decode_task.run(task, decoder, decoder.outputs, narrow)


def _of_transactions(rows: DataFrame) -> DataFrame:
    kinds = {field.name: _spark_type(field.type) for field in (*OF_TRANSACTIONS,)}
    kinds[INPUT] = "binary"
    chosen = rows.select(*decode_task.with_nulls(rows, _MAY_LACK, kinds))
    # A creation's input is code.
    return chosen.filter(chosen["to_address"].isNotNull())


def _of_traces(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    calls = rows.filter(rows["action_type"] == "call").withColumn("success", f.isnull("error"))
    for ours, theirs in _TRACED.items():
        if theirs in calls.columns:
            calls = calls.withColumnRenamed(theirs, ours)
    kinds = {field.name: _spark_type(field.type) for field in (*OF_TRACES,)}
    kinds[INPUT] = "binary"
    return calls.select(*decode_task.with_nulls(calls, _MAY_LACK, kinds))


def _of_trace(column: str) -> str:
    return _TRACED.get(column, {"success": "error"}.get(column, column))


def _spark_type(kind: pa.DataType) -> str:
    return {"int64": "long", "bool": "boolean"}.get(str(kind), str(kind))


def _length(calls: DataFrame) -> Column:
    from pyspark.sql import functions as f

    return f.octet_length(calls[INPUT])


def _selector(calls: DataFrame) -> Column:
    return calls[INPUT].substr(1, SELECTOR_BYTES)


def _may_be(calls: DataFrame, decoder: CallDecoder) -> Column:
    """Calls of the functions: by their selector; of stored ABIs also by the contract."""
    selector = _selector(calls)
    found = selector.isin(decoder.selectors)
    for stored in decoder.by_place:
        own = selector.isin(stored.selectors)
        if not stored.placed.decodes_any:
            own = own & calls["to_address"].isin(stored.placed.addresses)
        found = found | own
    return found
