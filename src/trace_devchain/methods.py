"""The JSON-RPC methods: from the chain and raw parameters to the JSON bytes of a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from trace_devchain import log_filter
from trace_devchain.chain import DevChain
from trace_devchain.params import (
    arguments,
    block_number,
    block_reference,
    count,
    data,
    flag,
    on_chain,
    shown,
)
from trace_devchain.rpc_error import REVERTED, UNKNOWN_BLOCK, RpcError, bad_params

Params: TypeAlias = list[Any]
Method: TypeAlias = Callable[[DevChain, Params], bytes]

NULL = b"null"
CLIENT_VERSION = "trace-devchain/1"
MAX_MINED_AT_ONCE = 1_000_000
_BALANCE = 10**21
_SUGGESTED_TIP = 10**9
_ONE_TOKEN = 10**18
# The selector of totalSupply().
TOTAL_SUPPLY = "0x18160ddd"


def chain_id(chain: DevChain, params: Params) -> bytes:
    arguments(params, 0, 0)
    return _quantity(chain.chain_id)


def net_version(chain: DevChain, params: Params) -> bytes:
    arguments(params, 0, 0)
    return b'"%d"' % chain.chain_id


def client_version(chain: DevChain, params: Params) -> bytes:
    arguments(params, 0, 0)
    return b'"%s"' % CLIENT_VERSION.encode()


def head_number(chain: DevChain, params: Params) -> bytes:
    arguments(params, 0, 0)
    return _quantity(chain.head)


def syncing(chain: DevChain, params: Params) -> bytes:
    arguments(params, 0, 0)
    return b"false"


def gas_price(chain: DevChain, params: Params) -> bytes:
    arguments(params, 0, 0)
    return _quantity((chain.header(chain.head).base_fee or 0) + _SUGGESTED_TIP)


def block_by_number(chain: DevChain, params: Params) -> bytes:
    block, full = arguments(params, 1, 2)
    return _block(chain, on_chain(chain, block_number(chain, block)), full)


def block_by_hash(chain: DevChain, params: Params) -> bytes:
    block, full = arguments(params, 1, 2)
    return _block(chain, chain.number_of(data(block, "block hash", 32)), full)


def block_receipts(chain: DevChain, params: Params) -> bytes:
    (block,) = arguments(params, 1, 1)
    number = block_reference(chain, block)
    return NULL if number is None else chain.receipts(number).body


def traces(chain: DevChain, params: Params) -> bytes:
    (block,) = arguments(params, 1, 1)
    number = block_reference(chain, block)
    return NULL if number is None else chain.traces(number).body


def transaction_by_hash(chain: DevChain, params: Params) -> bytes:
    found = _find(chain, params)
    if found is None:
        return NULL
    block = chain.full_block(found[0])
    start, end = block.spans[found[1]]
    return block.body[start:end]


def transaction_receipt(chain: DevChain, params: Params) -> bytes:
    found = _find(chain, params)
    if found is None:
        return NULL
    receipts = chain.receipts(found[0])
    start, end = receipts.spans[found[1]]
    return receipts.body[start:end]


def logs(chain: DevChain, params: Params) -> bytes:
    (value,) = arguments(params, 1, 1)
    wanted = log_filter.parse(chain, value)
    return b"[" + b",".join(log_filter.select(chain, wanted)) + b"]"


def balance(chain: DevChain, params: Params) -> bytes:
    """Everyone owns a thousand ether, always: there is no state behind the blocks."""
    _account_at(chain, params)
    return _quantity(_BALANCE)


def code(chain: DevChain, params: Params) -> bytes:
    """Nobody has code."""
    _account_at(chain, params)
    return b'"0x"'


def call(chain: DevChain, params: Params) -> bytes:
    """Tokens know their `totalSupply()`: one for each block so far, genesis included. Whatever else
    is asked of them is refused, and of other addresses there is no answer."""
    wanted, block = arguments(params, 1, 2)
    number = chain.head if block is None else block_reference(chain, block)
    if number is None:
        raise RpcError(UNKNOWN_BLOCK, "unknown block")
    if not isinstance(wanted, dict):
        raise bad_params(f"the call must be an object, not {shown(wanted)}")
    if "0x" + data(wanted.get("to"), "to", 20).hex() not in chain.tokens:
        return b'"0x"'
    if wanted.get("input", wanted.get("data")) != TOTAL_SUPPLY:
        raise RpcError(REVERTED, "execution reverted")
    return b'"0x%064x"' % ((number + 1) * _ONE_TOKEN)


def mine(chain: DevChain, params: Params) -> bytes:
    (wanted,) = arguments(params, 0, 1)
    blocks = 1 if wanted is None else count(wanted, "the number of blocks", MAX_MINED_AT_ONCE)
    return _quantity(chain.mine(blocks))


def reorg(chain: DevChain, params: Params) -> bytes:
    (wanted,) = arguments(params, 1, 1)
    if chain.head == 0:
        raise bad_params("there is only the genesis block, which cannot be replaced")
    return _quantity(chain.reorg(count(wanted, "depth", chain.head)))


METHODS: dict[str, Method] = {
    "eth_chainId": chain_id,
    "net_version": net_version,
    "web3_clientVersion": client_version,
    "eth_blockNumber": head_number,
    "eth_syncing": syncing,
    "eth_gasPrice": gas_price,
    "eth_getBlockByNumber": block_by_number,
    "eth_getBlockByHash": block_by_hash,
    "eth_getBlockReceipts": block_receipts,
    "trace_block": traces,
    "eth_getTransactionByHash": transaction_by_hash,
    "eth_getTransactionReceipt": transaction_receipt,
    "eth_getLogs": logs,
    "eth_getBalance": balance,
    "eth_getCode": code,
    "eth_call": call,
    "dev_mine": mine,
    "dev_reorg": reorg,
}


def _quantity(value: int) -> bytes:
    return b'"0x%x"' % value


def _block(chain: DevChain, number: int | None, full: Any) -> bytes:
    in_full = flag(full, "the second parameter")
    if number is None:
        return NULL
    return (chain.full_block(number) if in_full else chain.hashed_block(number)).body


def _find(chain: DevChain, params: Params) -> tuple[int, int] | None:
    (tx_hash,) = arguments(params, 1, 1)
    return chain.find_transaction(data(tx_hash, "transaction hash", 32))


def _account_at(chain: DevChain, params: Params) -> None:
    account, block = arguments(params, 1, 2)
    data(account, "address", 20)
    if block is not None and block_reference(chain, block) is None:
        raise RpcError(UNKNOWN_BLOCK, "unknown block")
