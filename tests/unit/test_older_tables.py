"""What was written before there was `above_int64` goes on with today's columns."""

from __future__ import annotations

import pytest

from trace_platform.operators.evm.schema import TABLES
from trace_platform.operators.parquet_compact import _has_columns
from trace_platform.operators.staging import manifest_columns
from trace_platform.wire.merge_columns import merge_columns

ADDED = {"blocks", "transactions", "traces"}


def before(table: str) -> list[str]:
    return [name for name in TABLES[table].names if name != "above_int64"]


@pytest.mark.parametrize("table", TABLES)
def test_the_next_partition_of_an_older_dataset_fits(table: str) -> None:
    today = manifest_columns(TABLES[table])
    known = [column for column in manifest_columns(TABLES[table]) if column.name in before(table)]
    assert (known != today) == (table in ADDED)
    assert merge_columns(known, today) == today
    # Nor does a late attempt of the release before spoil it.
    assert merge_columns(today, known) == today


def test_a_table_is_read_from_the_chain_again_by_the_columns_that_it_has() -> None:
    for table in TABLES:
        assert _has_columns(table, TABLES[table].names)
        assert _has_columns(table, before(table))
        assert not _has_columns(table, before(table)[:-1])
        assert not _has_columns(table, [*before(table), "another"])
