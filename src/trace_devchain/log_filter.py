"""eth_getLogs: which blocks, which logs. Where the specification is silent, it matches as geth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from trace_devchain import params
from trace_devchain.chain import DevChain
from trace_devchain.render import LogSpan
from trace_devchain.rpc_error import LIMIT_EXCEEDED, UNKNOWN_BLOCK, RpcError, bad_params

MAX_BLOCK_RANGE = 10_000
_MAX_TOPICS = 4
_KEYS = {"fromBlock", "toBlock", "blockHash", "address", "topics"}

# None matches anything.
Wanted: TypeAlias = "frozenset[str] | None"


class LogFilter(msgspec.Struct, frozen=True):
    blocks: range
    addresses: Wanted
    topics: tuple[Wanted, ...]

    def matches(self, log: LogSpan) -> bool:
        """A filter of more positions than the log has topics never matches, wildcards included."""
        if self.addresses is not None and log.address not in self.addresses:
            return False
        if len(self.topics) > len(log.topics):
            return False
        # The log may have more topics than the filter names.
        pairs = zip(self.topics, log.topics, strict=False)
        return all(wanted is None or topic in wanted for wanted, topic in pairs)


def parse(chain: DevChain, value: Any) -> LogFilter:
    if not isinstance(value, dict):
        raise bad_params(f"the filter must be an object, not {params.shown(value)}")
    unknown = sorted(value.keys() - _KEYS)
    if unknown:
        raise bad_params(f"unknown filter fields: {', '.join(unknown)[:80]}")
    return LogFilter(
        _blocks(chain, value), _addresses(value.get("address")), _topics(value.get("topics"))
    )


def select(chain: DevChain, wanted: LogFilter) -> Iterator[bytes]:
    """The JSON of each matching log, in chain order."""
    for number in wanted.blocks:
        receipts = chain.receipts(number)
        for log in receipts.logs:
            if wanted.matches(log):
                yield receipts.body[log.start : log.end]


def _blocks(chain: DevChain, value: dict[str, Any]) -> range:
    if value.get("blockHash") is not None:
        return _one_block(chain, value)
    first = _bound(chain, value, "fromBlock")
    last = _bound(chain, value, "toBlock")
    if first > last:
        raise bad_params(f"fromBlock ({first}) is after toBlock ({last})")
    blocks = range(first, min(last, chain.head) + 1)
    if len(blocks) > MAX_BLOCK_RANGE:
        raise RpcError(
            LIMIT_EXCEEDED, f"{len(blocks)} blocks asked for, at most {MAX_BLOCK_RANGE} at once"
        )
    return blocks


def _one_block(chain: DevChain, value: dict[str, Any]) -> range:
    if value.get("fromBlock") is not None or value.get("toBlock") is not None:
        raise bad_params("blockHash cannot be combined with fromBlock or toBlock")
    number = chain.number_of(params.data(value["blockHash"], "blockHash", 32))
    if number is None:
        # An empty answer would look like a block without logs.
        raise RpcError(UNKNOWN_BLOCK, "unknown block")
    return range(number, number + 1)


def _bound(chain: DevChain, value: dict[str, Any], name: str) -> int:
    bound = value.get(name)
    return chain.head if bound is None else params.block_number(chain, bound, name)


def _addresses(value: Any) -> Wanted:
    if value is None or value == []:
        return None
    items = value if isinstance(value, list) else [value]
    return frozenset(_canonical(item, "address", 20) for item in items)


def _topics(value: Any) -> tuple[Wanted, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > _MAX_TOPICS:
        raise bad_params(f"topics must be an array of at most {_MAX_TOPICS} positions")
    return tuple(map(_position, value))


def _position(value: Any) -> Wanted:
    """One topic position. As in geth, an empty array or a null among alternatives is a wildcard."""
    items = value if isinstance(value, list) else [value]
    if not items or None in items:
        return None
    return frozenset(_canonical(item, "topic", 32) for item in items)


def _canonical(value: Any, name: str, n_bytes: int) -> str:
    return "0x" + params.data(value, name, n_bytes).hex()
