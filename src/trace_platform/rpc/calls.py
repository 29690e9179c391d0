"""What a client asks: its calls, whether they only read, and which blocks they need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trace_platform.domain.evm_hex import quantity
from trace_platform.rpc.faults import RpcRefusal
from trace_platform.wire.rpc_codes import METHOD_REFUSED, NOT_A_CALL, NOT_JSON

MAX_CALLS = 10_000

# Reading alone. What sends, signs, mines, filters or administers is not here.
_READS = re.compile(
    r"eth_(get(?!Work|FilterChanges|FilterLogs)\w+|call|estimateGas|createAccessList|feeHistory"
    r"|gasPrice|maxPriorityFeePerGas|blobBaseFee|blockNumber|chainId|syncing|protocolVersion"
    r"|simulateV1)"
    r"|net_(version|listening|peerCount)|web3_(clientVersion|sha3)"
    r"|trace_(block|filter|get|transaction|replayBlockTransactions|replayTransaction|call|callMany)"
    r"|debug_(trace\w+|getRaw\w+|storageRangeAt)"
    r"|ots_\w+|erigon_(get|block)\w+|arbtrace_\w+|txpool_(status|content|inspect)"
)
# Where a call names its block: the index of that parameter.
_BLOCK_AT = {
    "eth_getBlockByNumber": 0,
    "eth_getBlockReceipts": 0,
    "eth_getBlockTransactionCountByNumber": 0,
    "eth_getTransactionByBlockNumberAndIndex": 0,
    "eth_getUncleByBlockNumberAndIndex": 0,
    "eth_getUncleCountByBlockNumber": 0,
    "eth_getBalance": 1,
    "eth_getCode": 1,
    "eth_getTransactionCount": 1,
    "eth_call": 1,
    "eth_estimateGas": 1,
    "eth_createAccessList": 1,
    "eth_feeHistory": 1,
    "eth_simulateV1": 1,
    "eth_getStorageAt": 2,
    "eth_getProof": 2,
    "trace_block": 0,
    "trace_replayBlockTransactions": 0,
    "trace_call": 2,
    "debug_traceBlockByNumber": 0,
    "debug_traceCall": 1,
    "debug_getRawBlock": 0,
    "debug_getRawHeader": 0,
    "debug_getRawReceipts": 0,
}
# Nothing about blocks at all.
_TIMELESS = frozenset({"eth_chainId", "net_version", "web3_clientVersion", "web3_sha3"})
# What is looked up by its number or hash.
_MAY_BE_MISSING = re.compile(
    r"eth_get(Block(ByNumber|ByHash|Receipts)|TransactionReceipt"
    r"|Transaction(ByHash|ByBlock\w+)|Uncle\w+)|trace_(block|transaction)|debug_traceBlock\w+"
)
_HASH_CHARACTERS = 66


class Call(msgspec.Struct, gc=False):
    method: str = ""
    params: Any = None
    id: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class Needs:
    """What a provider must have. `block`: the highest one that is named. `tip`: the newest."""

    block: int = -1
    tip: bool = False
    # Blocks by hash, of any age.
    hashes: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """One HTTP body of a client, as it came and as it reads."""

    body: bytes
    calls: tuple[Call, ...]
    batch: bool
    needs: Needs

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def oldest(self) -> dict[str, int]:
        """Of each method the oldest block that it is asked about; -1: none is named."""
        found: dict[str, int] = {}
        for call in self.calls:
            block = oldest_block(call)
            found[call.method] = min(found.get(call.method, block), block)
        return found

    @property
    def call_id(self) -> bytes:
        """Of an error in place of the answer."""
        return b"null" if self.batch else bytes(self.calls[0].id)

    def only(self, indexes: Sequence[int]) -> Question:
        """The same calls, fewer of them. One alone goes without a batch around it: that works
        with every node."""
        if not self.batch:
            return self
        calls = tuple(self.calls[i] for i in indexes)
        sent = _raws.decode(self.body)
        parts = [bytes(sent[i]) for i in indexes]
        alone = len(calls) == 1
        body = parts[0] if alone else b"[" + b",".join(parts) + b"]"
        return Question(body, calls, not alone, needs_of(calls))

    def split(self, most: int) -> list[Question]:
        """Parts of at most so many calls, in order."""
        if len(self.calls) <= most:
            return [self]
        every = range(len(self.calls))
        return [self.only(every[i : i + most]) for i in range(0, len(self.calls), most)]


_one = msgspec.json.Decoder(Call)
_many = msgspec.json.Decoder(list[Call])
_raws = msgspec.json.Decoder(list[msgspec.Raw])


def read_question(body: bytes) -> Question:
    """Raise RpcRefusal for what is not JSON-RPC, and for methods that do more than read."""
    batch = body.lstrip()[:1] == b"["
    try:
        calls = tuple(_many.decode(body)) if batch else (_one.decode(body),)
    except msgspec.ValidationError:
        raise RpcRefusal(NOT_A_CALL, "the body is not a JSON-RPC call") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcRefusal(NOT_JSON, "the body is not JSON") from None
    if not 0 < len(calls) <= MAX_CALLS:
        raise RpcRefusal(NOT_A_CALL, f"a batch has 1 to {MAX_CALLS:,} calls")
    for call in calls:
        _check(call)
    _check_ids(calls)
    return Question(body, calls, batch, needs_of(calls))


def may_be_missing(method: str) -> bool:
    """Null may mean that this provider alone does not have it."""
    return _MAY_BE_MISSING.fullmatch(method) is not None


def oldest_block(call: Call) -> int:
    """That the call names by its number; -1: none."""
    numbers = [named for named in _named_blocks(call) if isinstance(named, int)]
    return min(numbers, default=-1)


def id_value(raw: msgspec.Raw) -> Any:
    """A provider may write the same id in another way."""
    return msgspec.json.decode(raw)


def needs_of(calls: Sequence[Call]) -> Needs:
    block, tip, hashes = -1, False, False
    for call in calls:
        for named in _named_blocks(call):
            if named is None:
                tip = True
            elif isinstance(named, str):
                hashes = True
            else:
                block = max(block, named)
    return Needs(block, tip, hashes)


def _check(call: Call) -> None:
    if not call.method or not isinstance(call.params, list | dict | None):
        raise RpcRefusal(NOT_A_CALL, "the body is not a JSON-RPC call")
    if not _READS.fullmatch(call.method):
        shown = re.sub(r"\W", "?", call.method[:60])
        raise RpcRefusal(METHOD_REFUSED, f"{shown} is refused: only methods that read are relayed")


def _check_ids(calls: Sequence[Call]) -> None:
    """Answers come in any order: their ids alone tell what they are to."""
    seen = set()
    for call in calls:
        value = id_value(call.id)
        if not isinstance(value, str | int | float | None):
            raise RpcRefusal(NOT_A_CALL, "the id of a call is a number or a text")
        if value in seen:
            raise RpcRefusal(NOT_A_CALL, f"the batch has the id {str(value)[:60]} twice")
        seen.add(value)


def _named_blocks(call: Call) -> list[int | str | None]:
    """Each as a number, a hash, or None for the newest."""
    if call.method in _TIMELESS:
        return []
    params = call.params if isinstance(call.params, list) else []
    first = params[0] if params else None
    if call.method in ("eth_getLogs", "trace_filter") and isinstance(first, dict):
        if "blockHash" in first:
            return ["hash"]
        return [_block(first.get("fromBlock")), _block(first.get("toBlock"))]
    at = _BLOCK_AT.get(call.method)
    if at is not None:
        return [_block(params[at] if len(params) > at else None)]
    if isinstance(first, str) and len(first) == _HASH_CHARACTERS:
        return ["hash"]
    return [None]


def _block(given: Any) -> int | str | None:
    if isinstance(given, dict):  # EIP-1898
        given = given.get("blockNumber", "hash" if "blockHash" in given else None)
    if given == "earliest":
        return 0
    if isinstance(given, str) and given.startswith("0x"):
        if len(given) == _HASH_CHARACTERS:
            return "hash"
        try:
            return quantity(given, "block")
        except ValueError:
            return None
    return "hash" if given == "hash" else None
