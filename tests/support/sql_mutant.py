"""A pytest plugin that loads one named query with a part of it changed.

Given by SQL_MUTANT as JSON: {"query": name, "old": text, "new": text}.
"""

from __future__ import annotations

import json
import os

from trace_platform.drivers.postgres import queries

_mutant = json.loads(os.environ["SQL_MUTANT"])
_split = queries.split_queries


def _mutated(text: str) -> list[tuple[str, str, str]]:
    header = f"-- name: {_mutant['query']}"
    before, found, after = text.partition(header)
    if found:
        body, separator, rest = after.partition("\n-- name: ")
        assert body.count(_mutant["old"]) == 1, f"{_mutant} does not fit {header}"
        text = before + found + body.replace(_mutant["old"], _mutant["new"]) + separator + rest
    return _split(text)


queries.split_queries = _mutated
