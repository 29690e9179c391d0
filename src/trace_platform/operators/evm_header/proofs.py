"""Whether a node's answers about a block are what the block's hash promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from trace_platform.domain.errors import NodeContradictsItself
from trace_platform.domain.evm_encoding import Item, encoded, keccak256
from trace_platform.domain.evm_hex import data, quantity
from trace_platform.operators.evm.payload import Block, Receipt, Transaction, created_by, has_failed
from trace_platform.operators.evm_header.envelope import SignedTransaction, UnknownKind, envelope
from trace_platform.operators.evm_header.header import HashedBlock, ProvableBlock, header_hash
from trace_platform.operators.evm_header.receipts import (
    ProvableReceipt,
    log_places,
    receipts_root,
)
from trace_platform.operators.evm_header.trie import list_root

# Ethereum and its test networks: Sepolia, Holesky, Hoodi.
_ETHEREUM = frozenset({1, 11_155_111, 17_000, 560_048})
_NO_UNCLES = keccak256(encoded([]))
_FIRST_CAPPED_KIND = 2


@dataclass(frozen=True, slots=True)
class Proofs:
    """What a node's answers have to prove of themselves."""

    # The header makes the block's hash.
    header_hash: bool = False
    # Transactions and receipts make the header's roots, and what follows from them is so.
    roots: bool = False

    @classmethod
    def of(cls, chain_id: int, header_hash: bool | None, roots: bool | None) -> Proofs:
        """None: for Ethereum and its test networks. Other chains may hash otherwise."""
        known = chain_id in _ETHEREUM
        return cls(known if header_hash is None else header_hash, known if roots is None else roots)

    def __bool__(self) -> bool:
        return self.header_hash or self.roots


NO_PROOFS = Proofs()


def prove(proofs: Proofs, block: Block, receipts: Sequence[Receipt] | None) -> None:
    """Raise NodeContradictsItself; ValueError for what is no hex. Receipts where they were asked
    for. Block and receipts are checked: they are of each other, and in order."""
    if proofs.header_hash:
        computed = header_hash(cast(HashedBlock, block))
        _same(block, "hash of its header", block.hash, computed)
    if proofs.roots:
        header = cast(ProvableBlock, block)
        _prove_transactions(header)
        if receipts is not None:
            _prove_receipts(header, cast(Sequence[ProvableReceipt], receipts))


def _prove_transactions(header: ProvableBlock) -> None:
    envelopes = [_envelope(header, each) for each in header.transactions]
    _same(header, "transactions root", header.transactions_root, list_root(envelopes))
    for transaction, sent in zip(header.transactions, envelopes, strict=True):
        _same(header, "hash of a transaction", transaction.hash, keccak256(sent))
        _prove_price(header, transaction)
    if (data(header.uncles_hash, "sha3Uncles") == _NO_UNCLES) == bool(header.uncles):
        raise _contradiction(header, "number of uncles", str(len(header.uncles)), "another one")


def _envelope(header: ProvableBlock, transaction: SignedTransaction) -> bytes:
    try:
        return envelope(transaction)
    except UnknownKind as kind:
        raise _contradiction(header, "transactions root", "unknown", f"of {kind}") from None


def _prove_price(header: ProvableBlock, transaction: Transaction) -> None:
    """With fee caps it is not part of what was signed: it follows from them and the base fee."""
    if quantity(transaction.kind, "type") < _FIRST_CAPPED_KIND:
        return
    caps = (transaction.max_fee, transaction.max_priority_fee, header.base_fee)
    most, tip, base = (quantity(each or "0x0", "fee") for each in caps)
    paid = min(most, base + tip)
    said = transaction.gas_price
    if said is None or quantity(said, "gasPrice") != paid:
        raise _contradiction(header, "gas price", said or "missing", hex(paid))


def _prove_receipts(header: ProvableBlock, receipts: Sequence[ProvableReceipt]) -> None:
    kinds = [quantity(transaction.kind, "type") for transaction in header.transactions]
    _same(header, "receipts root", header.receipts_root, receipts_root(kinds, receipts))
    for place, log in log_places(receipts):
        if quantity(log.index, "logIndex") != place:
            raise _contradiction(header, "index of a log", log.index, hex(place))
    for transaction, receipt in zip(header.transactions, receipts, strict=True):
        _prove_creation(header, transaction, receipt)
        # No root tells it, without the key that the signature hides: two answers have to.
        if receipt.sender is None or receipt.sender.lower() != transaction.sender.lower():
            said = receipt.sender or "missing"
            raise _contradiction(header, "sender of a transaction", transaction.sender, said)


def _prove_creation(
    header: ProvableBlock, transaction: Transaction, receipt: ProvableReceipt
) -> None:
    """The address of a contract is made of the sender and the nonce."""
    said = created_by(receipt)
    creates = transaction.to is None and not has_failed(receipt)
    if said is None:
        # Before Byzantium it may have failed, too.
        if creates and receipt.status is not None:
            raise _contradiction(header, "created contract", "missing", "one")
        return
    if not creates:
        raise _contradiction(header, "created contract", said, "none")
    maker: list[Item] = [data(transaction.sender, "from"), quantity(transaction.nonce, "nonce")]
    _same(header, "created contract", said, keccak256(encoded(maker))[12:])


def _same(block: Block, what: str, said: str, computed: bytes) -> None:
    if data(said, what) != computed:
        raise _contradiction(block, what, said, "0x" + computed.hex())


def _contradiction(block: Block, what: str, said: str, found: str) -> NodeContradictsItself:
    number = quantity(block.number, "number")
    return NodeContradictsItself(
        f"the node contradicts itself about block {number}: its {what} is {said[:66]}, "
        f"what it says makes {found[:66]}",
        hint="ask another node; for chains that hash otherwise turn `header_hash` or `roots` off",
        block=number,
    )
