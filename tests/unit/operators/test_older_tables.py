"""What was written before there were the later columns goes on with today's."""

from __future__ import annotations

import pytest

from tests.support.corpus import corpus
from trace_platform.operators.evm.schema import LATER, SINCE, TABLES
from trace_platform.operators.ingest.parquet_compact import _has_columns
from trace_platform.operators.staging import manifest_columns
from trace_platform.wire.merge_columns import merge_columns

VINTAGES = [(table, n) for table in TABLES for n in range(1, 1 + len(LATER[table]))]


def before(table: str, later: int) -> list[str]:
    """Without the last so many columns."""
    return TABLES[table].names[:-later]


@pytest.mark.parametrize("table", TABLES)
def test_later_columns_may_be_null_and_stand_last_in_the_order_in_which_they_came(
    table: str,
) -> None:
    last = list(TABLES[table])[-len(LATER[table]) :]
    assert tuple(field.name for field in last) == LATER[table]
    assert all(field.nullable for field in last)
    assert SINCE[table] in LATER[table]


@corpus(("table", "later"), VINTAGES)
def test_the_next_partition_of_an_older_dataset_fits(table: str, later: int) -> None:
    today = manifest_columns(TABLES[table])
    known = [c for c in manifest_columns(TABLES[table]) if c.name in before(table, later)]
    added = [column for column in today if column not in known]
    assert merge_columns(known, today) == [*known, *added]
    # Nor does a late attempt of the release before spoil it.
    assert merge_columns(today, known) == today


@corpus(("table", "later"), VINTAGES)
def test_a_table_is_read_from_the_chain_again_by_the_columns_that_it_has(
    table: str, later: int
) -> None:
    assert _has_columns(table, TABLES[table].names)
    assert _has_columns(table, before(table, later))
    assert not _has_columns(table, before(table, len(LATER[table]) + 1))
    assert not _has_columns(table, [*before(table, later), "another"])
