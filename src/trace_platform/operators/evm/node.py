"""What one node is asked about blocks, and what its answers mean. Raises RpcUnreachable for what
the node does not have or refuses, MalformedBlock for answers that cannot be true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import msgspec

from trace_platform.domain.errors import InvalidConfig, MalformedBlock, RpcUnreachable
from trace_platform.domain.evm_hex import data, quantity
from trace_platform.operators.evm.payload import Block, BlockLink, Receipt, Trace
from trace_platform.operators.evm.rpc import (
    Answer,
    RpcClient,
    RpcFault,
    is_bad_params,
    is_missing_method,
    is_not_there,
)
from trace_platform.operators.evm_header.header import HashedBlock, ProvableBlock
from trace_platform.operators.evm_header.proofs import NO_PROOFS, Proofs
from trace_platform.operators.evm_header.receipts import ProvableReceipt

_RECEIPTS_PER_CALL = 200
_ONE_OF_SEVERAL = "the node lags, or has thrown it away; add a provider that has it to the pool"
_ROW_BYTES = 1_024


class Header(NamedTuple):
    """What finds a fork."""

    number: int
    hash: bytes
    parent_hash: bytes

    @classmethod
    def read(cls, number: object, own: object, parent: object) -> Header:
        """As a node writes them. Raise ValueError."""
        return cls(
            quantity(number, "number"), data(own, "hash", 32), data(parent, "parentHash", 32)
        )


@dataclass(slots=True)
class Answers:
    """Consecutive blocks with what belongs to each."""

    blocks: list[Block] = field(default_factory=list)
    receipts: list[Sequence[Receipt]] = field(
        default_factory=list
    )  # of each block, where asked for
    traces: list[list[Trace]] = field(default_factory=list)  # likewise

    def __iadd__(self, other: Answers) -> Answers:
        self.blocks += other.blocks
        self.receipts += other.receipts
        self.traces += other.traces
        return self

    @property
    def rows(self) -> int:
        """How much there is to hold: long values count as the rows that they weigh."""
        transactions = [t for block in self.blocks for t in block.transactions]
        logs = [log for receipts in self.receipts for r in receipts for log in r.logs]
        traces = [trace for of_block in self.traces for trace in of_block]
        bytes_ = sum([len(t.input) for t in transactions]) + sum([len(log.data) for log in logs])
        bytes_ += sum(map(_trace_bytes, traces))
        return len(self.blocks) + len(transactions) + len(logs) + len(traces) + bytes_ // _ROW_BYTES


def _trace_bytes(trace: Trace) -> int:
    action, result = trace.action, trace.result
    values = [action.input, action.init]
    if result is not None:
        values += [result.output, result.code]
    return sum([len(value) for value in values if value is not None])


class _BlockAnswer(msgspec.Struct, gc=False):
    """A block or its receipts: the JSON types differ, so one decoder takes both."""

    id: int | None = None
    result: Block | Sequence[Receipt] | None = None
    error: RpcFault | None = None


class _ReceiptAnswer(msgspec.Struct, gc=False):
    id: int | None = None
    result: Receipt | None = None
    error: RpcFault | None = None


class _HashedBlockAnswer(_BlockAnswer, gc=False):
    result: HashedBlock | Sequence[Receipt] | None = None


class _ProvableBlockAnswer(_BlockAnswer, gc=False):
    result: ProvableBlock | Sequence[ProvableReceipt] | None = None


class _ProvableReceiptAnswer(_ReceiptAnswer, gc=False):
    result: ProvableReceipt | None = None


class _TraceAnswer(msgspec.Struct, gc=False):
    id: int | None = None
    result: list[Trace] | None = None
    error: RpcFault | None = None


class _LinkAnswer(msgspec.Struct, gc=False):
    id: int | None = None
    result: BlockLink | None = None
    error: RpcFault | None = None


_Blocks = msgspec.json.Decoder[list[_BlockAnswer] | _BlockAnswer]
_Receipts = msgspec.json.Decoder[list[_ReceiptAnswer] | _ReceiptAnswer]
_block_batch: _Blocks = msgspec.json.Decoder(list[_BlockAnswer] | _BlockAnswer)
_receipt_batch: _Receipts = msgspec.json.Decoder(list[_ReceiptAnswer] | _ReceiptAnswer)
_hashed_blocks = cast(_Blocks, msgspec.json.Decoder(list[_HashedBlockAnswer] | _HashedBlockAnswer))
_provable_blocks = cast(
    _Blocks, msgspec.json.Decoder(list[_ProvableBlockAnswer] | _ProvableBlockAnswer)
)
_provable_receipts = cast(
    _Receipts, msgspec.json.Decoder(list[_ProvableReceiptAnswer] | _ProvableReceiptAnswer)
)
_trace_batch = msgspec.json.Decoder(list[_TraceAnswer] | _TraceAnswer)
_link_batch = msgspec.json.Decoder(list[_LinkAnswer] | _LinkAnswer)


class Node:
    """Learns once, for all threads, which ways of asking the node does not know.

    For proofs of the header's hash blocks are HashedBlocks; for those of the roots ProvableBlocks,
    and receipts ProvableReceipts.
    """

    def __init__(self, client: RpcClient, proofs: Proofs = NO_PROOFS) -> None:
        self._client = client
        self._block_batch = _hashed_blocks if proofs.header_hash else _block_batch
        self._receipt_batch = _receipt_batch
        if proofs.roots:
            self._block_batch, self._receipt_batch = _provable_blocks, _provable_receipts
        self._block_receipts = True  # until the node says that it has no such method
        self._bare_hash = True  # until the node wants {"blockHash": …}

    @property
    def endpoint(self) -> str:
        return self._client.endpoint

    def by_number(self, numbers: Sequence[int]) -> Answers:
        """Blocks and receipts in one batch."""
        if not self._block_receipts:
            return self._with_single_receipts(self._blocks(numbers))
        answers = self._client.patient_batch(
            [
                *(("eth_getBlockByNumber", (hex(n), True)) for n in numbers),
                *(("eth_getBlockReceipts", (hex(n),)) for n in numbers),
            ],
            self._block_batch,
            _missing_of_blocks,
        )
        blocks = [
            self._block(f"block {n}", a, block=n)
            for n, a in zip(numbers, answers[: len(numbers)], strict=True)
        ]
        receipts = answers[len(numbers) :]
        if self._lacks_block_receipts(receipts):
            return self._with_single_receipts(blocks)
        return Answers(
            blocks, [self._receipts(b, a) for b, a in zip(blocks, receipts, strict=True)]
        )

    def by_number_then_hash(self, numbers: Sequence[int]) -> Answers:
        """Blocks, then their receipts by hash: they are of these blocks whatever has become of
        the numbers meanwhile, or the node no longer has them."""
        return self._with_receipts_by_hash(self._blocks(numbers))

    def by_hash(self, block_hash: str) -> Answers:
        """One block and its receipts, in one batch."""
        bare = self._bare_hash
        calls = [
            ("eth_getBlockByHash", (block_hash, True)),
            ("eth_getBlockReceipts", (_hash_param(block_hash, bare),)),
        ]
        if not self._block_receipts:
            del calls[1]
        header, *receipts = self._client.patient_batch(
            calls, self._block_batch, _missing_of_known_block
        )
        block = self._block(f"block {block_hash}", header, block_hash=block_hash)
        if block.hash != block_hash:
            raise MalformedBlock(f"asked for block {block_hash}, got block {block.hash[:66]}")
        if self._lacks_block_receipts(receipts):
            return self._with_single_receipts([block])
        if self._wants_object(receipts, bare):
            return self._with_receipts_by_hash([block])
        return Answers([block], [self._receipts(block, receipts[0])])

    def without_receipts(self, numbers: Sequence[int]) -> Answers:
        return Answers(self._blocks(numbers))

    def traces(self, numbers: Sequence[int]) -> list[list[Trace]]:
        """Of each block; nodes refuse to trace genesis, which has nothing to trace."""
        traced = [n for n in numbers if n > 0]
        calls = [("trace_block", (hex(n),)) for n in traced]
        answers = self._client.patient_batch(calls, _trace_batch, _missing) if calls else []
        found = dict(zip(traced, answers, strict=True))
        return [self._traces(n, found[n]) if n else [] for n in numbers]

    def headers(self, numbers: Sequence[int]) -> list[Header | None]:
        """None for a block that the node does not have."""
        calls = [("eth_getBlockByNumber", (hex(n), False)) for n in numbers]
        answers = self._client.patient_batch(calls, _link_batch, _missing)
        return [self._header(n, a) for n, a in zip(numbers, answers, strict=True)]

    def _blocks(self, numbers: Sequence[int]) -> list[Block]:
        calls = [("eth_getBlockByNumber", (hex(n), True)) for n in numbers]
        answers = self._client.patient_batch(calls, self._block_batch, _missing)
        return [
            self._block(f"block {n}", a, block=n) for n, a in zip(numbers, answers, strict=True)
        ]

    def _with_receipts_by_hash(self, blocks: list[Block]) -> Answers:
        if not self._block_receipts:
            return self._with_single_receipts(blocks)
        bare = self._bare_hash
        calls = [("eth_getBlockReceipts", (_hash_param(b.hash, bare),)) for b in blocks]
        answers = self._client.patient_batch(
            calls, self._block_batch, lambda told: _missing_receipts(blocks, told)
        )
        if self._lacks_block_receipts(answers):
            return self._with_single_receipts(blocks)
        if self._wants_object(answers, bare):
            return self._with_receipts_by_hash(blocks)
        return Answers(blocks, [self._receipts(b, a) for b, a in zip(blocks, answers, strict=True)])

    def _with_single_receipts(self, blocks: list[Block]) -> Answers:
        """The slow way, for nodes without eth_getBlockReceipts: receipts one by one."""
        hashes = [t.hash for block in blocks for t in block.transactions]
        one_by_one = iter([r for piece in _slices(hashes) for r in self._receipts_of(piece)])
        return Answers(blocks, [[next(one_by_one) for _ in b.transactions] for b in blocks])

    def _receipts_of(self, hashes: list[str]) -> Iterator[Receipt]:
        calls = [("eth_getTransactionReceipt", (h,)) for h in hashes]
        answers = self._client.patient_batch(calls, self._receipt_batch, _missing)
        for asked, answer in zip(hashes, answers, strict=True):
            if answer.error is not None:
                raise self._client.refusal(answer.error, "eth_getTransactionReceipt")
            if answer.result is None:
                raise self._null(f"the receipt of transaction {asked[:66]}")
            yield answer.result

    def _lacks_block_receipts(self, answers: Sequence[_BlockAnswer]) -> bool:
        if any(a.error is not None and is_missing_method(a.error) for a in answers):
            self._block_receipts = False
        return not self._block_receipts

    def _wants_object(self, answers: Sequence[_BlockAnswer], bare: bool) -> bool:
        """Whether a bare hash was refused: worth asking again with {"blockHash": …}."""
        refused = any(a.error is not None and is_bad_params(a.error) for a in answers)
        if bare and refused:
            self._bare_hash = False
        return bare and refused

    def _block(self, what: str, answer: _BlockAnswer, **facts: Any) -> Block:
        if answer.error is not None:
            raise self._client.refusal(answer.error, what)
        if answer.result is None:
            raise self._null(
                what, hint="the range ends beyond the node's head, or the node lags", **facts
            )
        if not isinstance(answer.result, Block):
            raise MalformedBlock(f"the answer for {what} is not a block")
        return answer.result

    def _receipts(self, block: Block, answer: _BlockAnswer) -> Sequence[Receipt]:
        if answer.error is not None:
            raise self._client.refusal(answer.error, f"the receipts of block {_shown(block)}")
        if isinstance(answer.result, Block):
            raise MalformedBlock(f"the answer for the receipts of block {_shown(block)} is a block")
        # Some nodes say null for the receipts of an empty block; the count is checked later.
        if answer.result is None and block.transactions:
            n, number = len(block.transactions), _shown(block)
            raise self._null(f"the receipts of block {number} with {n} transactions")
        return answer.result or []

    def _traces(self, number: int, answer: _TraceAnswer) -> list[Trace]:
        if answer.error is not None and is_missing_method(answer.error):
            raise InvalidConfig(
                f"{self.endpoint} does not have the method trace_block, which traces need",
                hint="leave traces out of the tables, or ask a node that traces",
            )
        if answer.error is not None:
            raise self._client.refusal(answer.error, f"the traces of block {number}")
        if answer.result is None:
            raise self._null(f"the traces of block {number}", block=number)
        return answer.result

    def _null(self, what: str, *, hint: str = _ONE_OF_SEVERAL, **facts: Any) -> RpcUnreachable:
        """It was asked for a few times."""
        said = f"{self.endpoint} does not have {what} (yet): it answers null"
        return RpcUnreachable(said, hint=hint, **facts)

    def _header(self, number: int, answer: _LinkAnswer) -> Header | None:
        if answer.error is not None:
            raise self._client.refusal(answer.error, f"block {number}")
        found = answer.result
        if found is None:
            return None
        try:
            header = Header.read(found.number, found.hash, found.parent_hash)
        except ValueError as error:
            raise MalformedBlock(f"block {number}: {error}") from None
        if header.number != number:
            raise MalformedBlock(f"asked for block {number}, got block {header.number}")
        return header


def _missing(answers: Sequence[Answer]) -> list[int]:
    """Places of answers that say that nothing is there."""
    return [i for i, answer in enumerate(answers) if _is_missing(answer)]


def _is_missing(answer: Answer) -> bool:
    if answer.error is not None:
        return is_not_there(answer.error)
    return getattr(answer, "result", None) is None


def _missing_of_blocks(answers: Sequence[_BlockAnswer]) -> list[int]:
    """Of as many blocks, and then their receipts. Of a block that is not there nobody knows if it
    has receipts."""
    middle = len(answers) // 2
    blocks = [answer.result for answer in answers[:middle]]
    return [
        *_missing(answers[:middle]),
        *(middle + i for i in _missing_receipts(blocks, answers[middle:])),
    ]


def _missing_receipts(blocks: Sequence[Any], answers: Sequence[_BlockAnswer]) -> list[int]:
    """Nothing is missing of a block without transactions; of others no receipts at all are none."""
    return [
        i
        for i, (block, answer) in enumerate(zip(blocks, answers, strict=True))
        if (_is_missing(answer) or answer.result == [])
        and not (isinstance(block, Block) and not block.transactions)
    ]


def _missing_of_known_block(answers: Sequence[_BlockAnswer]) -> list[int]:
    """The receipts of a block that is there. One that is not may have left the chain: who asked for
    it by its hash looks at the head again."""
    block, receipts = answers[0].result, answers[1:]
    if block is None:
        return []
    return [1 + i for i in _missing_receipts([block] * len(receipts), receipts)]


def _hash_param(block_hash: str, bare: bool) -> str | dict[str, str]:
    return block_hash if bare else {"blockHash": block_hash}


def _shown(block: Block) -> str:
    """Of a number that nobody has checked yet."""
    try:
        return str(quantity(block.number, "number"))
    except ValueError:
        return block.number[:20]


def _slices(hashes: list[str]) -> Iterator[list[str]]:
    for i in range(0, len(hashes), _RECEIPTS_PER_CALL):
        yield hashes[i : i + _RECEIPTS_PER_CALL]
