"""Every column that cryo writes, value for value, for the same range of the same node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.conftest import Ingest
from tests.support import busy_chain
from tests.support.anvil import anvil
from tests.support.cryo_peer import cryo_python, cryo_tables
from tests.support.ingest_tables import ingest_tables
from tests.support.scripted_rpc import scripted_rpc
from tests.support.tiny_chain import TinyChain, reward
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.evm.schema import TABLES

pytestmark = pytest.mark.spark


def test_every_cryo_column_is_the_same(ingest: Ingest, tmp_path: Path) -> None:
    cryo_python()
    with anvil(*busy_chain.OPTIONS) as node:
        blocks = BlockRange(0, busy_chain.build(node))
        ours = ingest_tables(ingest, node.url, blocks, tuple(TABLES), batch_blocks=3)
        theirs = cryo_tables(node.url, blocks.start, blocks.end, tmp_path / "cryo")
    for name, table in theirs.items():
        assert ours[name].schema.names[: table.num_columns] == table.schema.names
        for column, values in _columns(table, ours[name].schema).items():
            assert ours[name][column].to_pylist() == values, (name, column)


def test_rewards_and_old_calls_are_named_as_cryo_names_them(ingest: Ingest, tmp_path: Path) -> None:
    cryo_python()
    chain = TinyChain(4, 3)
    chain.traces_of(2)[0]["action"]["callType"] = "callcode"
    chain.traces_of(2)[1]["traceAddress"] = [10, 0, 3]
    uncle = reward(2)
    uncle["action"]["rewardType"] = "uncle"
    chain.traces_of(2).extend([reward(2), uncle])
    with scripted_rpc(chain.answer) as node:
        reply = node.reply

        def lenient(body: Any) -> Any:
            """cryo leaves out empty params."""
            return reply({"params": [], **body} if isinstance(body, dict) else body)

        node.reply = lenient  # type: ignore[method-assign]
        theirs = cryo_tables(node.url, 1, 3, tmp_path / "cryo", ["traces"])["traces"]
        ours = ingest_tables(ingest, node.url, BlockRange(1, 3), ("traces",))["traces"]
    columns = _columns(theirs, ours.schema)
    # They put rewards first, we leave them where the node has them: last.
    assert _sorted(ours.select(list(columns)).to_pydict()) == _sorted(columns)


def _columns(table: pa.Table, schema: pa.Schema) -> dict[str, list[Any]]:
    """Theirs are unsigned and 64-bit-offset types of the same values: as ours."""
    same = table.cast(pa.schema([schema.field(c).with_nullable(True) for c in table.schema.names]))
    return {name: same[name].to_pylist() for name in table.schema.names}


def _sorted(columns: dict[str, list[Any]]) -> list[str]:
    return sorted(repr(row) for row in zip(*columns.values(), strict=True))
