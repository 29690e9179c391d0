"""Chains by the names that people call them."""

from __future__ import annotations

from trace_platform.domain.alike import instead
from trace_platform.domain.errors import BadInput

CHAINS = {
    "ethereum": 1,
    "optimism": 10,
    "bnb": 56,
    "gnosis": 100,
    "polygon": 137,
    "zksync": 324,
    "base": 8_453,
    "arbitrum": 42_161,
    "avalanche": 43_114,
    "linea": 59_144,
    "scroll": 534_352,
    "sepolia": 11_155_111,
    "holesky": 17_000,
    "anvil": 31_337,
}
MAX_CHAIN_ID = 2**53 - 1


def chain_id_of(given: str) -> int:
    """Of a number or a name. Raise BadInput for what is neither."""
    text = given.strip().lower()
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_CHAIN_ID:
        return int(text)
    if text in CHAINS:
        return CHAINS[text]
    raise BadInput(
        f"there is no chain {given[:80]!r}",
        hint=f"give its id, such as 1, or a name: {instead(text, list(CHAINS), len(CHAINS))}",
    )
