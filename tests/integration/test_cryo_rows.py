"""Every column that cryo writes, value for value, for the same range of the same node."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.integration.conftest import Ingest
from tests.support import busy_chain
from tests.support.anvil import anvil
from tests.support.cryo_peer import cryo_python, cryo_tables
from trace_platform.domain.block_range import BlockRange

pytestmark = pytest.mark.spark


def test_every_cryo_column_is_the_same(ingest: Ingest, tmp_path: Path) -> None:
    cryo_python()
    with anvil(*busy_chain.OPTIONS) as node:
        blocks = BlockRange(0, busy_chain.build(node))
        ours = ingest.run(node.url, blocks, batch_blocks=3)
        theirs = cryo_tables(node.url, blocks.start, blocks.end, tmp_path / "cryo")
    for name, table in theirs.items():
        assert ours[name].schema.names[: table.num_columns] == table.schema.names
        # Theirs are unsigned and 64-bit-offset types of the same values: compared as ours.
        same = table.cast(pa.schema([ours[name].schema.field(c) for c in table.schema.names]))
        for column in table.schema.names:
            assert ours[name][column].to_pylist() == same[column].to_pylist(), (name, column)
