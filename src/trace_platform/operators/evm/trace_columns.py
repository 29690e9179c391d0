"""Traces to Arrow columns. What a kind of trace does not have is null, as in cryo's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from trace_platform.operators.evm import schema
from trace_platform.operators.evm.fields import Fields
from trace_platform.operators.evm.hex_columns import (
    ADDRESS,
    HASH,
    optional_fixed_hex,
    optional_variable_hex,
    uint256,
)
from trace_platform.operators.evm.payload import Action, Outcome, Trace

_NOTHING = Outcome()
# In cryo's words, where a node has others.
_CALL_TYPES = {
    "callcode": "call_code",
    "delegatecall": "delegate_call",
    "staticcall": "static_call",
}
_REWARD_TYPES = {"block": "reward"}
# Calls that move no value: some nodes then leave it out.
_VALUELESS = frozenset({"delegatecall", "staticcall"})


def trace_columns(blocks: pa.RecordBatch, traces: Sequence[Sequence[Trace]]) -> pa.RecordBatch:
    """One row per trace; `blocks` are the columns of the blocks that the lists belong to."""
    counts = np.fromiter(map(len, traces), np.int64, len(traces))
    block_of = np.repeat(np.arange(len(traces)), counts)
    numbers = blocks["block_number"].take(block_of)
    rows = list(chain.from_iterable(traces))
    actions = [t.action for t in rows]
    results = [t.result or _NOTHING for t in rows]
    places = [i for of_block in traces for i in range(len(of_block))]
    fields = Fields(len(rows), lambda row: f"trace {places[row]} of block {numbers[row]}")
    read, amounts = fields.read, fields.amounts
    value_binary, value_text, value_f64 = read("value", _values, list(map(_value, actions)))
    senders = [_first(a.sender, a.author, a.address) for a in actions]
    receivers = [_first(a.to, a.refund_address) for a in actions]
    columns = [
        read("from, author or address", optional_fixed_hex, senders, ADDRESS),
        read("to or refundAddress", optional_fixed_hex, receivers, ADDRESS),
        value_text,
        amounts("action_gas", "gas", [a.gas for a in actions]),
        read("input", optional_variable_hex, [a.input for a in actions]),
        _words([a.call_type for a in actions], _CALL_TYPES),
        read("init", optional_variable_hex, [a.init for a in actions]),
        _words([a.reward_type for a in actions], _REWARD_TYPES),
        pa.array([t.kind for t in rows], pa.string()),
        amounts("result_gas_used", "gasUsed", [r.gas_used for r in results]),
        read("output", optional_variable_hex, [r.output for r in results]),
        read("code", optional_variable_hex, [r.code for r in results]),
        read("address", optional_fixed_hex, [r.address for r in results], ADDRESS),
        pa.array(["_".join(map(str, t.trace_address)) for t in rows], pa.string()),
        read("subtraces", _int64, [t.subtraces for t in rows]),
        read("transactionPosition", _int64, [t.transaction_index for t in rows]),
        read("transactionHash", optional_fixed_hex, [t.transaction_hash for t in rows], HASH),
        numbers,
        blocks["block_hash"].take(block_of),
        pa.array([t.error for t in rows], pa.string()),
        blocks["chain_id"].take(block_of),
        blocks["parent_hash"].take(block_of),
        value_binary,
        value_f64,
        fields.above_int64(),
        blocks["timestamp"].take(block_of),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.TRACES)


def _words(values: Sequence[str | None], ours: Mapping[str, str]) -> pa.Array:
    return pa.array([None if v is None else ours.get(v, v) for v in values], pa.string())


def _first(*values: str | None) -> str | None:
    return next((value for value in values if value is not None), None)


def _value(action: Action) -> str | None:
    nothing = "0x0" if action.call_type in _VALUELESS else None
    return _first(action.value, action.balance, nothing)


def _values(values: Sequence[str | None]) -> list[pa.Array]:
    if None in values:
        raise ValueError("a trace of this kind has a value")
    return uint256(values)  # type: ignore[arg-type]


def _int64(values: Sequence[int | None]) -> pa.Array:
    """Counts and places, which nodes write as JSON numbers."""
    if any(value is not None and value < 0 for value in values):
        raise ValueError("it is negative")
    try:
        return pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        raise ValueError("it does not fit 64 bits") from None
