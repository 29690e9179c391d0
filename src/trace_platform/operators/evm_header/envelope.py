"""A transaction as it was signed: the bytes that its hash and the transactions root are made of."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import field

from trace_platform.domain.evm_encoding import Item, encoded
from trace_platform.domain.evm_hex import data, quantity
from trace_platform.operators.evm.payload import Transaction


class AccessEntry(msgspec.Struct, gc=False):
    address: str
    storage_keys: list[str] = field(name="storageKeys")


class Authorization(msgspec.Struct, gc=False):
    chain_id: str = field(name="chainId")
    address: str
    nonce: str
    y_parity: str = field(name="yParity")
    r: str
    s: str


class SignedTransaction(Transaction, gc=False, kw_only=True):
    """With what its hash is made of, besides the columns."""

    r: str | None = None
    s: str | None = None
    v: str | None = None
    y_parity: str | None = field(name="yParity", default=None)
    chain_id: str | None = field(name="chainId", default=None)
    access_list: list[AccessEntry] | None = field(name="accessList", default=None)
    max_blob_fee: str | None = field(name="maxFeePerBlobGas", default=None)
    blob_hashes: list[str] | None = field(name="blobVersionedHashes", default=None)
    authorizations: list[Authorization] | None = field(name="authorizationList", default=None)


class UnknownKind(Exception):
    """A transaction of a type that this code does not know: nothing can be said of its root."""


def envelope(transaction: SignedTransaction) -> bytes:
    """Raise UnknownKind, or ValueError for a field that is missing or no hex."""
    kind = quantity(transaction.kind, "type")
    if kind not in _BODIES:
        raise UnknownKind(f"type {kind:#x}")
    body = encoded(_BODIES[kind](transaction))
    return bytes([kind]) + body if kind else body


def _legacy(t: SignedTransaction) -> list[Item]:
    return [_number(t.nonce), _number(t.gas_price), *_call(t), _number(t.v), *_signature(t)]


def _with_access_list(t: SignedTransaction) -> list[Item]:
    head: list[Item] = [_number(t.chain_id), _number(t.nonce), _number(t.gas_price)]
    return [*head, *_call(t), _access(t), _parity(t), *_signature(t)]


def _with_fee_caps(t: SignedTransaction) -> list[Item]:
    return [*_capped(t), _parity(t), *_signature(t)]


def _with_blobs(t: SignedTransaction) -> list[Item]:
    hashes = [_data(each) for each in t.blob_hashes or ()]
    return [*_capped(t), _number(t.max_blob_fee), hashes, _parity(t), *_signature(t)]


def _with_code(t: SignedTransaction) -> list[Item]:
    signed = [_authorization(each) for each in t.authorizations or ()]
    return [*_capped(t), signed, _parity(t), *_signature(t)]


# By the transaction's type: 0, then EIP-2930, 1559, 4844 and 7702.
_BODIES: dict[int, Callable[[SignedTransaction], list[Item]]] = {
    0: _legacy,
    1: _with_access_list,
    2: _with_fee_caps,
    3: _with_blobs,
    4: _with_code,
}


def _capped(t: SignedTransaction) -> list[Item]:
    caps = [_number(each) for each in (t.chain_id, t.nonce, t.max_priority_fee, t.max_fee)]
    return [*caps, *_call(t), _access(t)]


def _call(t: SignedTransaction) -> list[Item]:
    return [_number(t.gas), _data(t.to or "0x"), _number(t.value), _data(t.input)]


def _access(t: SignedTransaction) -> list[Item]:
    return [[_data(e.address), [_data(k) for k in e.storage_keys]] for e in t.access_list or ()]


def _authorization(a: Authorization) -> list[Item]:
    place: list[Item] = [_number(a.chain_id), _data(a.address), _number(a.nonce)]
    return [*place, _number(a.y_parity), _number(a.r), _number(a.s)]


def _parity(t: SignedTransaction) -> int:
    """Nodes from before `yParity` say it as `v`."""
    return _number(t.v if t.y_parity is None else t.y_parity)


def _signature(t: SignedTransaction) -> list[Item]:
    return [_number(t.r), _number(t.s)]


def _number(text: str | None) -> int:
    if text is None:
        raise ValueError("a field of a signed transaction is missing")
    return quantity(text, "a number of a signed transaction")


def _data(text: str) -> bytes:
    return data(text, "a field of a signed transaction")
