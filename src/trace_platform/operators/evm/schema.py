"""The Arrow schemas of blocks, transactions, logs and traces.

Names, order and meaning of the first columns are cryo's; ours follow. Types differ on purpose:
cryo's u32 and u64 are int64 here, because Spark has no unsigned types (it would read them as
bigint and decimal(20,0)) and one integer type joins everywhere in DuckDB and Spark without a
cast. An amount (gas, a fee, a nonce, a size) above 2^63-1 stops there, and `above_int64` has its
exact value: null in nearly all rows, else a JSON object of decimal texts by column. A place, a
time or a kind (numbers, indexes, `timestamp`, `transaction_type`) above it is refused: no chain has
one.

Columns that came later (`LATER`) may be null and stand last, in the order in which they came: they
are added to datasets that were written without them, whose rows have null there.

A uint256 is three columns: `_binary` (32 bytes, big endian; sorts as the number does),
`_string` (exact decimal) and `_f64` (nearest double, for aggregates).
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

Table = Literal["blocks", "transactions", "logs", "traces"]

ABOVE_INT64, TIMESTAMP, LOGS_BLOOM = "above_int64", "timestamp", "logs_bloom"
CONTRACT_ADDRESS = "contract_address"
_BINARY, _INT, _TEXT, _F64, _BOOL = pa.binary(), pa.int64(), pa.string(), pa.float64(), pa.bool_()


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _optional(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=True)


BLOCKS = pa.schema(
    [
        _required("block_hash", _BINARY),
        _required("author", _BINARY),
        _required("block_number", _INT),
        _required("gas_used", _INT),
        _required("extra_data", _BINARY),
        _required("timestamp", _INT),
        _optional("base_fee_per_gas", _INT),  # since London
        _required("chain_id", _INT),
        # Ours.
        _required("parent_hash", _BINARY),
        _required("state_root", _BINARY),
        _required("transactions_root", _BINARY),
        _required("receipts_root", _BINARY),
        _required("gas_limit", _INT),
        _optional("size", _INT),
        _required("transaction_count", _INT),
        _optional("blob_gas_used", _INT),  # since Cancun
        _optional("excess_blob_gas", _INT),
        _optional("withdrawals_root", _BINARY),  # since Shanghai
        _required("uncle_count", _INT),
        _optional(ABOVE_INT64, _TEXT),
        _optional(LOGS_BLOOM, _BINARY),
    ]
)

TRANSACTIONS = pa.schema(
    [
        _required("block_number", _INT),
        _required("transaction_index", _INT),
        _required("transaction_hash", _BINARY),
        _required("nonce", _INT),
        _required("from_address", _BINARY),
        _optional("to_address", _BINARY),  # null: the transaction creates a contract
        _required("value_binary", _BINARY),
        _required("value_string", _TEXT),
        _required("value_f64", _F64),
        _required("input", _BINARY),
        _required("gas_limit", _INT),
        _required("gas_used", _INT),
        _optional("gas_price", _INT),
        _required("transaction_type", _INT),
        _optional("max_priority_fee_per_gas", _INT),
        _optional("max_fee_per_gas", _INT),
        _optional("success", _BOOL),  # null: before Byzantium receipts had no status
        _required("n_input_bytes", _INT),
        _required("n_input_zero_bytes", _INT),
        _required("n_input_nonzero_bytes", _INT),
        _required("chain_id", _INT),
        # Ours.
        _required("block_hash", _BINARY),
        _required("parent_hash", _BINARY),
        _optional(ABOVE_INT64, _TEXT),
        _optional(TIMESTAMP, _INT),  # the block's
        _optional(CONTRACT_ADDRESS, _BINARY),  # null: it creates none, or fails to
    ]
)

LOGS = pa.schema(
    [
        _required("block_number", _INT),
        _required("transaction_index", _INT),
        _required("log_index", _INT),
        _required("transaction_hash", _BINARY),
        _required("address", _BINARY),
        _optional("topic0", _BINARY),
        _optional("topic1", _BINARY),
        _optional("topic2", _BINARY),
        _optional("topic3", _BINARY),
        _required("data", _BINARY),
        _required("chain_id", _INT),
        # Ours.
        _required("block_hash", _BINARY),
        _required("parent_hash", _BINARY),
        _optional(TIMESTAMP, _INT),
    ]
)

TRACES = pa.schema(
    [
        _optional("action_from", _BINARY),
        _optional("action_to", _BINARY),  # null: a creation or a reward
        _required("action_value", _TEXT),
        _optional("action_gas", _INT),
        _optional("action_input", _BINARY),
        _optional("action_call_type", _TEXT),
        _optional("action_init", _BINARY),
        _optional("action_reward_type", _TEXT),
        _required("action_type", _TEXT),
        _optional("result_gas_used", _INT),
        _optional("result_output", _BINARY),
        _optional("result_code", _BINARY),
        _optional("result_address", _BINARY),
        _required("trace_address", _TEXT),  # 0_2_1; empty for the transaction's own call
        _required("subtraces", _INT),
        _optional("transaction_index", _INT),  # null: a reward
        _optional("transaction_hash", _BINARY),
        _required("block_number", _INT),
        _required("block_hash", _BINARY),
        _optional("error", _TEXT),
        _required("chain_id", _INT),
        # Ours.
        _required("parent_hash", _BINARY),
        _required("action_value_binary", _BINARY),
        _required("action_value_f64", _F64),
        _optional(ABOVE_INT64, _TEXT),
        _optional(TIMESTAMP, _INT),
    ]
)

TABLES: dict[str, pa.Schema] = {
    "blocks": BLOCKS,
    "transactions": TRANSACTIONS,
    "logs": LOGS,
    "traces": TRACES,
}
# Those of each table that it did not have at first.
LATER: dict[str, tuple[str, ...]] = {
    "blocks": (ABOVE_INT64, LOGS_BLOOM),
    "transactions": (ABOVE_INT64, TIMESTAMP, CONTRACT_ADDRESS),
    "logs": (TIMESTAMP,),
    "traces": (ABOVE_INT64, TIMESTAMP),
}
# In a row that was written with the newest of them this one is there, where the chain has it.
SINCE = {table: LOGS_BLOOM if table == "blocks" else TIMESTAMP for table in TABLES}
# What every node can tell: traces need one that keeps or redoes the execution.
DEFAULT_TABLES: tuple[Table, ...] = ("blocks", "transactions", "logs")
