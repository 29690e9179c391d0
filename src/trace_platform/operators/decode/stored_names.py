"""What a job that decodes reads besides its rows: stored ABIs, and a list of addresses. The
Dispatcher looks both up, so that this file imports nothing that is heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# By operator: which entries of an ABI it decodes.
DECODERS = {"log_decode": "events", "call_decode": "functions"}


@dataclass(frozen=True, slots=True)
class StoredNames:
    """A stored ABI of a chain, and the names of its entries that a job decodes."""

    abi: str
    chain_id: int
    kind: str
    entries: tuple[str, ...]
    # Its place in the config's `abis`.
    index: int


def stored_names(operator: str | None, config: Mapping[str, Any]) -> list[StoredNames]:
    """Of a config that was checked."""
    kind = DECODERS.get(operator or "")
    if kind is None:
        return []
    return [
        StoredNames(each["stored"], config["chain_id"], kind, tuple(each.get(kind, ())), index)
        for index, each in enumerate(config.get("abis", ()))
        if isinstance(each, Mapping) and "stored" in each
    ]


def address_input(operator: str, config: Mapping[str, Any]) -> int | None:
    """The input that has the addresses; None where they are listed, or are all that there are."""
    addresses = config.get("addresses") if operator in DECODERS else None
    return addresses["input"] if isinstance(addresses, Mapping) else None
