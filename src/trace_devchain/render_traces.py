"""What `trace_block` answers: each transaction's own call or creation, and a call below it for
every contract but its own that logged."""

from __future__ import annotations

from itertools import groupby

from trace_devchain.content import Tx
from trace_devchain.render import Fragment, Sealed, created_address

_BASE_GAS = 21_000


def traces(block: Sealed) -> Fragment:
    items = [text for tx in block.content.txs for text in _of_transaction(tx, block)]
    return Fragment(("[" + ",".join(items) + "]").encode())


def _of_transaction(tx: Tx, block: Sealed) -> list[str]:
    place = (
        f'"blockHash":"0x{block.hash.hex()}","blockNumber":{block.content.number}'
        f',"transactionHash":"{tx.hash}","transactionPosition":{tx.index}'
    )
    own = tx.to.hex if tx.to else None
    called = [address for address, _ in groupby(tx.logs, lambda log: log.address)]
    below = [address for address in called if own is not None and address != own]
    first = _call(tx, place, len(below)) if tx.to else _creation(tx, place)
    return [first, *(_inner(own or "", to, n, place) for n, to in enumerate(below))]


def _call(tx: Tx, place: str, subtraces: int) -> str:
    assert tx.to is not None
    action = (
        f'{{"from":"{tx.sender.hex}","callType":"call","gas":"0x{tx.gas - _BASE_GAS:x}"'
        f',"input":"{tx.input}","to":"{tx.to.hex}","value":"0x{tx.value:x}"}}'
    )
    result = f'{{"gasUsed":"0x{tx.gas_used - _BASE_GAS:x}","output":"0x"}}'
    return _trace("call", action, _outcome(tx, result), place, subtraces, "")


def _creation(tx: Tx, place: str) -> str:
    action = (
        f'{{"from":"{tx.sender.hex}","gas":"0x{tx.gas - _BASE_GAS:x}","init":"{tx.input}"'
        f',"value":"0x{tx.value:x}","creationMethod":"create"}}'
    )
    gas_used = f'"gasUsed":"0x{tx.gas_used - _BASE_GAS:x}"'
    result = f'{{"address":"{created_address(tx)}","code":"0x",{gas_used}}}'
    return _trace("create", action, _outcome(tx, result), place, 0, "")


def _inner(sender: str, to: str, n: int, place: str) -> str:
    parties = f'"from":"{sender}","to":"{to}"'
    action = f'{{{parties},"callType":"call","gas":"0x0","input":"0x","value":"0x0"}}'
    return _trace("call", action, '"result":{"gasUsed":"0x0","output":"0x"}', place, 0, str(n))


def _outcome(tx: Tx, result: str) -> str:
    return f'"result":{result}' if tx.ok else '"error":"Reverted","result":null'


def _trace(kind: str, action: str, outcome: str, place: str, subtraces: int, address: str) -> str:
    return (
        f'{{"action":{action},{place},{outcome},"subtraces":{subtraces}'
        f',"traceAddress":[{address}],"type":"{kind}"}}'
    )
