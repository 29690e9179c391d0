"""A short chain on anvil that holds what real chains hold: transactions of types 0 to 4, contract
creations, calls within calls, failures, logs of none to four topics, the extremes of uint256, empty
blocks.
"""

from __future__ import annotations

import hashlib
from typing import Any

from tests.support.anvil import Anvil

TOP = 2**256 - 1

# Anvil as the chain needs it: blocks made on demand, and gas that costs nothing (so that an
# account can send its very last wei).
OPTIONS = (
    *("--no-mining", "--order", "fifo", "--hardfork", "prague", "--timestamp", "1700000000"),
    *("--base-fee", "0", "--gas-price", "0", "--disable-min-priority-fee"),
)

_TOPICS = [f"{i:02x}" * 32 for i in (0xA0, 0xB1, 0xC2)] + ["ff" * 32]


def _log(n_topics: int) -> str:
    """Push the topics (first one last), the size and the offset of the data; LOGn."""
    pushes = "".join("7f" + topic for topic in reversed(_TOPICS[:n_topics]))
    return pushes + "36" + "6000" + f"a{n_topics}"


# Copies its call data to memory and logs it with 0, 1, 2, 3 and 4 topics.
LOGGER = "366000600037" + "".join(_log(n) for n in range(5)) + "00"
REVERTER = "60006000fd"


def creation(runtime: str) -> str:
    """Code that returns `runtime` as the new contract's."""
    # PUSH2 size, DUP1, PUSH1 12 (where runtime starts), PUSH1 0, CODECOPY, PUSH1 0, RETURN
    return f"0x61{len(runtime) // 2:04x}80600c6000396000f3" + runtime


def _caller(logger: str, reverter: str) -> str:
    """Calls, delegates, asks, creates in both ways, then destroys itself for the logger."""
    zeros, to_logger, to_reverter = "6000" * 4, "73" + logger[2:], "73" + reverter[2:]
    return (
        f"{zeros}6000{to_logger}5af150{zeros}{to_logger}5af450{zeros}{to_reverter}5afa50"
        f"6000600060006000f550600060006000f050{to_logger}ff"
    )


def _outer(inner: str) -> str:
    """Calls `inner` twice, passing on the value that it was given with the first call."""
    zeros, to_inner = "6000" * 4, "73" + inner[2:]
    return f"{zeros}34{to_inner}5af150{zeros}6000{to_inner}5af150"


def build(node: Anvil, *, with_blobs: bool = True) -> int:
    """The number of the last block. Anvil's transactions root is another one than Ethereum's where
    there are blobs."""
    accounts = node.call("eth_accounts")
    logger = _deploy(node, accounts[0], LOGGER)
    reverter = _deploy(node, accounts[0], REVERTER)
    _block_of_kinds(node, accounts, with_blobs)
    _block_of_logs(node, accounts, logger)
    _block_of_failures(node, accounts, reverter)
    _block_of_calls(node, accounts, logger, reverter)
    node.call("evm_mine")
    _block_of_extremes(node, accounts)
    node.call("evm_mine")
    return int(node.call("eth_blockNumber"), 16)


def _send(node: Anvil, **fields: Any) -> str:
    named = {"from_": "from"}
    body = {named.get(k, k): hex(v) if isinstance(v, int) else v for k, v in fields.items()}
    fees = {} if "gasPrice" in body else {"maxFeePerGas": "0xa", "maxPriorityFeePerGas": "0x1"}
    return str(node.call("eth_sendTransaction", {"gas": hex(1_000_000), **fees, **body}))


def _deploy(node: Anvil, sender: str, runtime: str) -> str:
    sent = _send(node, from_=sender, data=creation(runtime))
    node.call("evm_mine")
    receipt = node.call("eth_getTransactionReceipt", sent)
    assert receipt["status"] == "0x1"
    assert node.call("eth_getCode", receipt["contractAddress"], "latest") == "0x" + runtime
    return str(receipt["contractAddress"])


def _block_of_kinds(node: Anvil, accounts: list[str], with_blobs: bool) -> None:
    a, b = accounts[1], accounts[2]
    _send(node, from_=a, to=b, value=1, gasPrice=5, type="0x0")
    access = [{"address": b, "storageKeys": ["0x" + "11" * 32]}]
    _send(node, from_=a, to=b, value=2, gasPrice=6, accessList=access, type="0x1")
    _send(node, from_=a, to=b, value=3, maxFeePerGas=9, maxPriorityFeePerGas=2, type="0x2")
    _send(node, from_=a, to=b, value=10**18 + 1, data="0x00ff0000010203")
    authorization = {
        "chainId": "0x7a69",
        "address": b,
        "nonce": "0x0",
        "yParity": "0x0",
        "r": "0x" + "11" * 32,
        "s": "0x" + "22" * 32,
    }
    _send(
        node,
        from_=a,
        to=b,
        maxFeePerGas=7,
        maxPriorityFeePerGas=1,
        type="0x4",
        authorizationList=[authorization],
    )
    if with_blobs:
        _send(node, from_=accounts[7], to=b, type="0x3", maxFeePerBlobGas=16, **_blob())
    node.call("evm_mine")


def _blob() -> dict[str, list[str]]:
    """A blob of zeros: its commitment and its proof are the point at infinity."""
    infinity = bytes([0xC0]) + bytes(47)
    versioned = "0x01" + hashlib.sha256(infinity).hexdigest()[2:]
    return {
        "blobVersionedHashes": [versioned],
        "blobs": ["0x" + "00" * 131_072],
        "commitments": ["0x" + infinity.hex()],
        "proofs": ["0x" + infinity.hex()],
    }


def _block_of_logs(node: Anvil, accounts: list[str], logger: str) -> None:
    for data in ("0x", "0x" + "ff" * 32, "0x" + "00" * 31 + "01", "0xabcdef"):
        _send(node, from_=accounts[3], to=logger, data=data)
    node.call("evm_mine")


def _block_of_failures(node: Anvil, accounts: list[str], reverter: str) -> None:
    _send(node, from_=accounts[4], to=reverter, value=5)
    _send(node, from_=accounts[4], data=creation("") + "fe", gas=100_000)
    _send(node, from_=accounts[4], data="0xfe", gas=100_000)  # a creation that runs out
    node.call("evm_mine")


def _block_of_calls(node: Anvil, accounts: list[str], logger: str, reverter: str) -> None:
    inner = _deploy(node, accounts[8], _caller(logger, reverter))
    outer = _deploy(node, accounts[8], _outer(inner))
    _send(node, from_=accounts[8], to=outer, value=7)
    node.call("evm_mine")


def _block_of_extremes(node: Anvil, accounts: list[str]) -> None:
    """One account sends all the wei there can be, in one transaction of type 0."""
    rich, empty = accounts[5], "0x" + "99" * 20
    node.call("anvil_setBalance", rich, hex(TOP))
    _send(node, from_=rich, to=empty, value=TOP, gasPrice=0, type="0x0")
    node.call("anvil_setBalance", accounts[6], hex(2**200))
    _send(node, from_=accounts[6], to=empty, value=0, maxFeePerGas=2**63 - 1, gas=21_000)
    node.call("evm_mine")
