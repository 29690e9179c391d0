"""Whether a contract answers what the rows say, at the last block that they stand for."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from typing import Any

from trace_platform.domain.errors import InvalidConfig, MalformedBlock, RpcUnreachable
from trace_platform.domain.evm_hex import data
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.decode.abi_text import parse_function
from trace_platform.operators.decode.encode_call import (
    Result,
    decode_result,
    encode_call,
    result_of,
)
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.row_checks.found import Found
from trace_platform.operators.row_checks.one_pass import Staged
from trace_platform.wire import check_spec as checks


def compare(check: checks.EthCall, staged: Staged, task: TaskContext) -> Found:
    """Raise InvalidConfig for a call that cannot be made, and what another attempt may mend."""
    try:
        function = parse_function(check.function)
        calldata, kind = encode_call(function, check.arguments), result_of(check.returns)
    except ValueError as error:
        raise InvalidConfig(str(error)) from None
    own, block = _of_rows(check, staged)
    with closing(RpcClient(task.rpc(check.rpc_pool))) as client:
        client.check_chain(check.chain_id)
        word = _answer(check, client, calldata, block)
    try:
        answered = decode_result(kind, word)
    except ValueError as error:
        raise InvalidConfig(f"{function.signature} at block {block:,}: {error}") from None
    same = _like(answered, own) == answered
    said = f"{function.signature} at block {block:,} is what the rows say"
    if same:
        return Found(0, said)
    # Without the figures: with few rows they are somebody's.
    return Found(1, said.replace(" is what ", " is not what "))


def _of_rows(check: checks.EthCall, staged: Staged) -> tuple[Any, int]:
    """What they say, and of which block."""
    own = _aggregate(check.equals, staged)
    if check.block is None:
        if staged.blocks is None:
            raise InvalidConfig(
                "the partition is no range of blocks: say at which block it is asked, such as "
                "block: max(block_number)"
            )
        return own, staged.blocks.end
    # By itself: Spark computes nothing beside sum_exact.
    block = _aggregate(check.block, staged)
    if isinstance(block, bool) or not isinstance(block, int) or block < 0:
        raise InvalidConfig(f"{check.block} is no number of a block")
    return own, block


def _aggregate(expression: str, staged: Staged) -> Any:
    from pyspark.sql import functions as f

    row = staged.frame.agg(f.expr(expression)).first()
    assert row is not None, "an aggregate without groups has one row"
    return row[0]


def _answer(check: checks.EthCall, client: RpcClient, calldata: bytes, block: int) -> bytes:
    call = {"to": check.to, "data": "0x" + calldata.hex()}
    try:
        said = client.call("eth_call", call, hex(block))
    except RpcUnreachable as error:
        if "revert" in error.message:
            raise InvalidConfig(
                f"{check.to} refuses {check.function} at block {block:,}: {error.message}"
            ) from None
        raise
    try:
        word = data(said, "the answer")
    except ValueError as error:
        raise MalformedBlock(f"{client.endpoint}: {error}") from None
    if not word:
        raise InvalidConfig(f"there is no contract {check.to} at block {block:,}, or not yet")
    return word


def _like(answered: Result, own: Any) -> Any:
    """What the rows say, as the contract says it. The sum of no rows is nothing."""
    if isinstance(answered, bytes):
        return bytes(own) if isinstance(own, bytes | bytearray) else _bytes(own)
    if isinstance(answered, bool):
        return own
    if own is None:
        return 0
    try:
        return Decimal(str(own)) if not isinstance(own, bool) else None
    except ArithmeticError:
        return None


def _bytes(own: Any) -> bytes | None:
    try:
        return data(own, "the rows")
    except ValueError:
        return None
