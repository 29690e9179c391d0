"""Traces to Arrow columns. What a kind of trace does not have is null, as in cryo's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from trace_platform.operators.evm import schema
from trace_platform.operators.evm.columns import (
    optional_caps,
    optional_fixed_hex,
    optional_variable_hex,
    uint256,
)
from trace_platform.operators.evm.payload import Action, Outcome, Trace

_HASH, _ADDRESS = 32, 20
_NOTHING = Outcome()
# In cryo's words, where a node has others.
_CALL_TYPES = {
    "callcode": "call_code",
    "delegatecall": "delegate_call",
    "staticcall": "static_call",
}
_REWARD_TYPES = {"block": "reward"}


def trace_columns(blocks: pa.RecordBatch, traces: Sequence[Sequence[Trace]]) -> pa.RecordBatch:
    """One row per trace; `blocks` are the columns of the blocks that the lists belong to."""
    counts = np.fromiter(map(len, traces), np.int64, len(traces))
    block_of = np.repeat(np.arange(len(traces)), counts)
    rows = list(chain.from_iterable(traces))
    actions = [t.action for t in rows]
    results = [t.result or _NOTHING for t in rows]
    value_binary, value_text, value_f64 = uint256([_value(a) for a in actions])
    columns = [
        optional_fixed_hex([a.sender or a.author or a.address for a in actions], _ADDRESS),
        optional_fixed_hex([a.to or a.refund_address for a in actions], _ADDRESS),
        value_text,
        optional_caps([a.gas for a in actions]),
        optional_variable_hex([a.input for a in actions]),
        _words([a.call_type for a in actions], _CALL_TYPES),
        optional_variable_hex([a.init for a in actions]),
        _words([a.reward_type for a in actions], _REWARD_TYPES),
        pa.array([t.kind for t in rows], pa.string()),
        optional_caps([r.gas_used for r in results]),
        optional_variable_hex([r.output for r in results]),
        optional_variable_hex([r.code for r in results]),
        optional_fixed_hex([r.address for r in results], _ADDRESS),
        pa.array(["_".join(map(str, t.trace_address)) for t in rows], pa.string()),
        _int64([t.subtraces for t in rows]),
        _int64([t.transaction_index for t in rows]),
        optional_fixed_hex([t.transaction_hash for t in rows], _HASH),
        blocks["block_number"].take(block_of),
        blocks["block_hash"].take(block_of),
        pa.array([t.error for t in rows], pa.string()),
        blocks["chain_id"].take(block_of),
        blocks["parent_hash"].take(block_of),
        value_binary,
        value_f64,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.TRACES)


def _words(values: Sequence[str | None], ours: Mapping[str, str]) -> pa.Array:
    return pa.array([None if v is None else ours.get(v, v) for v in values], pa.string())


def _value(action: Action) -> str:
    value = action.balance if action.value is None else action.value
    if value is None:
        raise ValueError("a trace has no value")
    return value


def _int64(values: Sequence[int | None]) -> pa.Array:
    try:
        return pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        raise ValueError("a number does not fit 64 bits") from None
