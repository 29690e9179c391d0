"""Blocks as JSON bytes, written once and served as they are.

Text is put together by hand: every value is hex or a fixed word, so nothing needs escaping, and
an encoder would cost more than the rest of the block.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from trace_devchain import seal
from trace_devchain.accounts import Accounts
from trace_devchain.activity import Log
from trace_devchain.content import BLOB_GAS, Content, Tx
from trace_devchain.header import Header
from trace_platform.domain.evm_encoding import encoded, keccak256

# A block's excess blob gas is always 0, and so the blob price is the protocol's minimum.
BLOB_GAS_PRICE = 1


class Sealed(msgspec.Struct, frozen=True):
    """A block with everything its JSON shows."""

    content: Content
    header: Header
    hash: bytes
    chain_id: int

    def place(self) -> str:
        """The keys that transactions, receipts and logs share."""
        return f'"blockHash":"0x{self.hash.hex()}","blockNumber":"0x{self.content.number:x}"'


class LogSpan(msgspec.Struct, frozen=True, gc=False):
    """Where a log lies inside the receipts' bytes, and what filters ask of it."""

    address: str
    topics: tuple[str, ...]
    start: int
    end: int


class Fragment(msgspec.Struct, frozen=True):
    """One answer's bytes, where its items (transactions or receipts) lie in it, and its logs."""

    body: bytes
    spans: tuple[tuple[int, int], ...] = ()
    logs: tuple[LogSpan, ...] = ()


def full_block(block: Sealed, accounts: Accounts) -> Fragment:
    head, tail = _around_transactions(block, accounts)
    items = [_transaction(tx, block) for tx in block.content.txs]
    spans = _spans(len(head), items)
    return Fragment((head + ",".join(items) + tail).encode(), spans)


def hashed_block(block: Sealed, accounts: Accounts) -> Fragment:
    head, tail = _around_transactions(block, accounts)
    hashes = [f'"{tx.hash}"' for tx in block.content.txs]
    return Fragment((head + ",".join(hashes) + tail).encode())


def receipts(block: Sealed) -> Fragment:
    items: list[str] = []
    logs: list[LogSpan] = []
    place, at, gas_so_far, log_index = block.place(), 1, 0, 0
    for tx in block.content.txs:
        gas_so_far += tx.gas_used
        shared = f'{place},"transactionHash":"{tx.hash}","transactionIndex":"0x{tx.index:x}"'
        texts = [_log(log, shared, log_index + n) for n, log in enumerate(tx.logs)]
        head, tail = _around_logs(tx, shared, gas_so_far)
        logs += _log_spans(tx.logs, at + len(head), texts)
        items.append(head + ",".join(texts) + tail)
        at += len(items[-1]) + 1
        log_index += len(texts)
    body = "[" + ",".join(items) + "]"
    return Fragment(body.encode(), _spans(1, items), tuple(logs))


def _spans(at: int, items: list[str]) -> tuple[tuple[int, int], ...]:
    """Offsets of comma-separated items; the text is ASCII, so characters are bytes."""
    spans = []
    for item in items:
        spans.append((at, at + len(item)))
        at += len(item) + 1
    return tuple(spans)


def _log_spans(logs: tuple[Log, ...], at: int, texts: list[str]) -> list[LogSpan]:
    return [
        LogSpan(log.address, log.topics, start, end)
        for log, (start, end) in zip(logs, _spans(at, texts), strict=True)
    ]


def _around_transactions(block: Sealed, accounts: Accounts) -> tuple[str, str]:
    h = block.header
    head = (
        f'{{"number":"0x{h.number:x}","hash":"0x{block.hash.hex()}"'
        f',"parentHash":"0x{h.parent_hash.hex()}","sha3Uncles":"0x{h.ommers_hash.hex()}"'
        f',"miner":"0x{h.beneficiary.hex()}","stateRoot":"0x{h.state_root.hex()}"'
        f',"transactionsRoot":"0x{h.transactions_root.hex()}"'
        f',"receiptsRoot":"0x{h.receipts_root.hex()}","logsBloom":"0x{h.logs_bloom.hex()}"'
        f',"difficulty":"0x0","totalDifficulty":"0x0","gasLimit":"0x{h.gas_limit:x}"'
        f',"gasUsed":"0x{h.gas_used:x}","timestamp":"0x{h.timestamp:x}"'
        f',"extraData":"0x{h.extra_data.hex()}","mixHash":"0x{h.mix_hash.hex()}"'
        f',"nonce":"0x{h.nonce.hex()}","baseFeePerGas":"0x{h.base_fee:x}"'
        f',"withdrawalsRoot":"{_hex(h.withdrawals_root)}","blobGasUsed":"0x{h.blob_gas_used:x}"'
        f',"excessBlobGas":"0x{h.excess_blob_gas:x}"'
        f',"parentBeaconBlockRoot":"{_hex(h.parent_beacon_root)}"'
        f',"requestsHash":"{_hex(h.requests_hash)}","size":"0x{_size(block):x}"'
        f',"uncles":[],"transactions":['
    )
    return head, f'],"withdrawals":[{_withdrawals(block.content, accounts)}]}}'


def _hex(value: bytes | None) -> str:
    assert value is not None, "a sealed header has every field up to Prague"
    return "0x" + value.hex()


def _size(block: Sealed) -> int:
    """Near the encoded length; transactions are not signed for real, so it cannot be exact."""
    return len(block.header.encode()) + sum([110 + len(tx.input) // 2 for tx in block.content.txs])


def _withdrawals(content: Content, accounts: Accounts) -> str:
    return ",".join(
        f'{{"index":"0x{w.index:x}","validatorIndex":"0x{w.validator:x}"'
        f',"address":"{w.address.hex}","amount":"0x{w.amount_gwei:x}"}}'
        for w in seal.withdrawals(content, accounts)
    )


def _transaction(tx: Tx, block: Sealed) -> str:
    signature = blake2b(tx.digest + b"s").digest()
    parity = signature[0] & 1
    # r is any field element, s the lower half; a set bit keeps both from being zero.
    r = int.from_bytes(signature[:32], "big") >> 1 | 1
    s = int.from_bytes(signature[32:], "big") >> 2 | 1
    v = 35 + 2 * block.chain_id + parity if tx.type == 0 else parity
    to = f'"{tx.to.hex}"' if tx.to else "null"
    return (
        f'{{{block.place()},"from":"{tx.sender.hex}","gas":"0x{tx.gas:x}"'
        f',"gasPrice":"0x{tx.price:x}","hash":"{tx.hash}","input":"{tx.input}"'
        f',"nonce":"0x{tx.nonce:x}","to":{to},"transactionIndex":"0x{tx.index:x}"'
        f',"value":"0x{tx.value:x}","type":"0x{tx.type:x}","chainId":"0x{block.chain_id:x}"'
        f'{_typed_fields(tx, block.chain_id, parity)},"v":"0x{v:x}","r":"0x{r:x}","s":"0x{s:x}"}}'
    )


def _typed_fields(tx: Tx, chain_id: int, parity: int) -> str:
    """What EIP-2930, 1559, 4844 and 7702 added."""
    if tx.type == 0:
        return ""
    text = f',"accessList":{_access_list(tx)},"yParity":"0x{parity:x}"'
    if tx.type > 1:
        text += f',"maxFeePerGas":"0x{tx.max_fee:x}","maxPriorityFeePerGas":"0x{tx.tip:x}"'
    if tx.type == 3:
        hashes = ",".join(f'"0x01{_noise(tx, b"blob%d" % n)[2:]}"' for n in range(tx.blobs))
        text += f',"maxFeePerBlobGas":"0x{2 * BLOB_GAS_PRICE:x}","blobVersionedHashes":[{hashes}]'
    if tx.type == 4:
        text += f',"authorizationList":[{_authorization(tx, chain_id)}]'
    return text


def _access_list(tx: Tx) -> str:
    if tx.to is None or not tx.access_list:
        return "[]"
    return f'[{{"address":"{tx.to.hex}","storageKeys":["0x{_noise(tx, b"slot")}"]}}]'


def _authorization(tx: Tx, chain_id: int) -> str:
    r, s = int(_noise(tx, b"ar"), 16) >> 1 | 1, int(_noise(tx, b"as"), 16) >> 2 | 1
    return (
        f'{{"chainId":"0x{chain_id:x}","address":"0x{_noise(tx, b"delegate")[:40]}"'
        f',"nonce":"0x{tx.nonce + 1:x}","yParity":"0x0","r":"0x{r:x}","s":"0x{s:x}"}}'
    )


def _noise(tx: Tx, label: bytes) -> str:
    return blake2b(tx.digest + label, digest_size=32).hexdigest()


def _around_logs(tx: Tx, shared: str, gas_so_far: int) -> tuple[str, str]:
    bits = 0
    for log in tx.logs:
        bits |= log.bits
    to = f'"{tx.to.hex}"' if tx.to else "null"
    head = (
        f'{{{shared},"from":"{tx.sender.hex}","to":{to},"type":"0x{tx.type:x}"'
        f',"status":"0x{tx.ok:x}","gasUsed":"0x{tx.gas_used:x}"'
        f',"cumulativeGasUsed":"0x{gas_so_far:x}","effectiveGasPrice":"0x{tx.price:x}"'
        f',"contractAddress":{_created(tx)}{_blob_fields(tx)}'
        f',"logsBloom":"0x{bits:0512x}","logs":['
    )
    return head, "]}"


def _created(tx: Tx) -> str:
    return "null" if tx.to is not None else f'"{created_address(tx)}"'


def created_address(tx: Tx) -> str:
    """Of the contract that a transaction without a recipient makes."""
    return f"0x{keccak256(encoded((tx.sender.raw, tx.nonce)))[12:].hex()}"


def _blob_fields(tx: Tx) -> str:
    if tx.type != 3:
        return ""
    return f',"blobGasUsed":"0x{BLOB_GAS * tx.blobs:x}","blobGasPrice":"0x{BLOB_GAS_PRICE:x}"'


def _log(log: Log, shared: str, index: int) -> str:
    topics = '","'.join(log.topics)
    quoted = f'["{topics}"]' if log.topics else "[]"
    return (
        f'{{"address":"{log.address}","topics":{quoted},"data":"{log.data}",{shared}'
        f',"logIndex":"0x{index:x}","removed":false}}'
    )
