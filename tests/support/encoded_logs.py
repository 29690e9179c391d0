"""Logs and calls as contracts emit them, in the columns that cryo_ingest writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import eth_abi
import pyarrow as pa

from trace_platform.domain.evm_encoding import keccak256
from trace_platform.operators.decode.abi_text import parse_event, parse_function
from trace_platform.operators.evm.schema import LOGS, TRACES, TRANSACTIONS

TOKEN, POOL = b"\xaa" * 20, b"\xbb" * 20
ALICE, BOB = "0x" + "01" * 20, "0x" + "02" * 20


def log(written: str, *values: Any, address: bytes = TOKEN) -> dict[str, Any]:
    """Of an event with these values, in the order of its parameters. A hashed one is bytes."""
    event = parse_event(written)
    pairs = list(zip(event.params, values, strict=True))
    topics = [] if event.anonymous else [event.topic0]
    for param, value in pairs:
        if param.indexed:
            hashed = str(param.type)[-1] == "]" or str(param.type) in ("string", "bytes")
            topics.append(value if hashed else eth_abi.encode([str(param.type)], [value]))
    plain = [(str(param.type), value) for param, value in pairs if not param.indexed]
    return raw_log(topics, eth_abi.encode([t for t, _ in plain], [v for _, v in plain]), address)


def raw_log(
    topics: Sequence[bytes | None], data: bytes = b"", address: bytes = TOKEN
) -> dict[str, Any]:
    padded = [*topics, None, None, None, None]
    return {f"topic{n}": padded[n] for n in range(4)} | {"data": data, "address": address}


def logs(*given: dict[str, Any], per_block: int = 2) -> pa.Table:
    rows = [
        {
            "block_number": n // per_block,
            "transaction_index": 0,
            "log_index": n % per_block,
            "transaction_hash": keccak256(b"tx%d" % n),
            "chain_id": 1,
            "block_hash": keccak256(b"b%d" % (n // per_block)),
            "parent_hash": keccak256(b"b%d" % (n // per_block - 1)),
            "timestamp": 1_000 + n // per_block,
        }
        | each
        for n, each in enumerate(given)
    ]
    return pa.Table.from_pylist(rows, schema=LOGS)


def call_data(written: str, *values: Any) -> bytes:
    function = parse_function(written)
    kinds = [str(param.type) for param in function.params]
    return function.selector + eth_abi.encode(kinds, list(values))


def transactions(*inputs: bytes, to: bytes | None = TOKEN) -> pa.Table:
    return _table(TRANSACTIONS, [{"input": each, "to_address": to} for each in inputs])


def traces(*given: dict[str, Any]) -> pa.Table:
    plain = {"action_type": "call", "action_to": TOKEN, "action_call_type": "call"}
    return _table(TRACES, [plain | each for each in given])


def _table(schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """With something in each column that has to have it."""
    filler: dict[str, Any] = {
        "int64": 0,
        "binary": b"\0" * 32,
        "string": "0",
        "double": 0.0,
        "bool": True,
    }
    plain = {field.name: filler[str(field.type)] for field in schema if not field.nullable}
    told = [plain | {"block_number": n, "transaction_index": n} | row for n, row in enumerate(rows)]
    return pa.Table.from_pylist(told, schema=schema)
