"""One provider among others: what it is asked, and what is remembered of it."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from trace_platform.data.alerts import Severity
from trace_platform.data.database import DataDatabase
from trace_platform.data.incidents import Incidents
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, RpcUnreachable
from trace_platform.domain.evm_hex import data, quantity
from trace_platform.operators.checks.integrity.chain import Chain, Rows
from trace_platform.operators.checks.rpc_providers import Provider
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm_header.proofs import Proofs

# Heights whose hashes an attempt remembers.
_REMEMBERED = 256
# There is another round soon.
_ANSWER_S = 10.0
_BACKOFF_S = (0.2,)
_TOPICS = ("topic0", "topic1", "topic2", "topic3")

# What may be wrong with its blocks; a final one of another fork is another incident.
_PROBLEMS: tuple[tuple[str, Severity], ...] = (
    ("rpc_disagrees", "warning"),
    ("rpc_disagrees", "critical"),
    ("rpc_rows_differ", "warning"),
    ("rpc_contradicts_itself", "warning"),
    ("rpc_history_changed", "critical"),
)

Log = tuple[int, bytes, tuple[bytes, ...], bytes]  # its index, address, topics and data


class Member:
    def __init__(
        self, provider: Provider, chain_id: int, proofs: Proofs, database: DataDatabase
    ) -> None:
        self.name = provider.name
        self._client = RpcClient(provider.endpoint, timeout_s=_ANSWER_S, backoff_s=_BACKOFF_S)
        self._chain = Chain(provider.endpoint, chain_id, proofs, batch_blocks=1)
        self.silence = Incidents(database, f"rpc:{self.name}:silence:")
        self.lag = Incidents(database, f"rpc:{self.name}:lag:")
        self.wrong_chain = Incidents(database, f"rpc:{self.name}:wrong_chain:")
        # Each begins at the block at which it was seen first.
        self.problems = {
            (code, severity): Incidents(database, f"rpc:{self.name}:{code}:{severity}:")
            for code, severity in _PROBLEMS
        }
        self._final: dict[int, bytes] = {}

    def close(self) -> None:
        self._client.close()
        self._chain.close()

    def check_chain(self) -> None:
        """Raise WrongChain."""
        self._chain.check()

    def head(self) -> int | None:
        """None: it does not answer, or not with a number."""
        try:
            return self._client.number("eth_blockNumber")
        except (RpcUnreachable, MalformedBlock):
            return None

    def finalized(self, depth: int) -> int:
        return self._chain.finalized(depth)

    def rows(self, block: int) -> Rows:
        """Raise NodeContradictsItself or MalformedBlock for what cannot be true."""
        return self._chain.rows([BlockRange(block, block)])

    def logs_by_filter(self, block_hash: bytes) -> list[Log]:
        """By `eth_getLogs`. Raise MalformedBlock for what are no logs."""
        found = self._client.call("eth_getLogs", {"blockHash": "0x" + block_hash.hex()})
        try:
            return sorted(_log(each) for each in found)
        except (KeyError, TypeError):
            raise MalformedBlock(f"{self.name} answers eth_getLogs with no logs") from None
        except ValueError as error:
            raise MalformedBlock(f"{self.name} answers eth_getLogs with no logs: {error}") from None

    def first_said(self, block: int, block_hash: bytes) -> bytes:
        """Of a final block: what its hash was when it was first asked for."""
        if len(self._final) >= _REMEMBERED and block not in self._final:
            del self._final[next(iter(self._final))]
        return self._final.setdefault(block, block_hash)

    def suspect(self) -> set[int]:
        """Blocks that were not right when they were asked for last."""
        return {int(each.where) for each in self.problems.values() if each.where is not None}

    def remembered(self, draw: random.Random) -> list[int]:
        """A final block that it was asked about before, if there is one."""
        return [draw.choice(list(self._final))] if self._final else []


def logs_of(rows: pa.Table) -> list[Log]:
    """In the form of those that a filter gives."""
    return sorted(
        (
            row["log_index"],
            row["address"],
            tuple(row[topic] for topic in _TOPICS if row[topic] is not None),
            row["data"],
        )
        for row in rows.to_pylist()
    )


def _log(said: dict[str, Any]) -> Log:
    topics = tuple(data(topic, "topics", 32) for topic in said["topics"])
    address, index = data(said["address"], "address", 20), quantity(said["logIndex"], "logIndex")
    return index, address, topics, data(said["data"], "data")
