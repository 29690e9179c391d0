"""What on this machine stands for what a page cannot know: one table, for all pages.

| a page says | on this machine it is |
|---|---|
| `https://...`, `https://node.example/v2/KEY` | a development chain |
| `chain_id: 1` | that chain's id |
| blocks `19000000`, `19_000_001`, `19,000,002` and on | its blocks 0, 1, 2 and on |
| port 8545, which `trace devchain` takes unless told otherwise | a free port |
| `https://localhost:7701` | the instance's query service |
| `NAME@4f2a61c0` | the generation of that dataset that is read now |
| `993b2227` | the newest backfill |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CHAIN_ID = 31337

_NODE = re.compile(r"https://(\.\.\.|node\.example/v2/KEY)")
_BLOCK = re.compile(r"(?<![\w.])19([,_]?)(\d{3})([,_]?)(\d{3})(?!\w)")


@dataclass(frozen=True)
class Standins:
    node: str
    free_port: int
    ask: Callable[[str], Any]  # a command that prints JSON: what it says

    def put(self, text: str) -> str:
        """What is typed, or printed, here."""
        text = _NODE.sub(self.node, text)
        text = re.sub(r'(\bchain_id"?: )1\b', rf"\g<1>{CHAIN_ID}", text)
        text = _BLOCK.sub(_block, text)
        text = re.sub(r"^trace devchain(?! --port)", "trace devchain --port 8545", text)
        text = re.sub(r"\b8545\b", str(self.free_port), text)
        text = re.sub(r"(?<=localhost:)7701\b", lambda _: self._query_port(), text)
        text = re.sub(r"(\w+)@4f2a61c0", self._generation, text)
        return re.sub(r"\b993b2227\b", lambda _: self._backfill(), text)

    def _query_port(self) -> str:
        found = self.ask("trace status --json")["processes"]
        return str(next(each["port"] for each in found if each["name"] == "query"))

    def _generation(self, named: re.Match[str]) -> str:
        versions = self.ask(f"trace datasets versions {named[1]} --json")["versions"]
        current = next(each["dataset_version"] for each in versions if each["current"])
        return f"{named[1]}@{current[:8]}"

    def _backfill(self) -> str:
        newest = self.ask("trace backfills list --limit 1 --json")["backfills"][0]
        return str(newest["backfill_id"])[:8]


def _block(found: re.Match[str]) -> str:
    number = int(found[2] + found[4])
    return f"{number:{found[1]}}" if found[1] else str(number)
