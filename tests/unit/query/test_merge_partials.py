"""What the query service makes of partial results is what Spark makes of them."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from trace_platform.query.protocol.merge_partials import merged


@pytest.fixture
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def results(database: duckdb.DuckDBPyConnection, how: str, partials: str) -> list[Any]:
    database.execute(f"CREATE TABLE parts AS SELECT * FROM (VALUES {partials}) AS v (k, r)")
    found = database.execute(f"{merged('parts', {'r': how})} ORDER BY k").fetchall()
    return [row[1] for row in found]


@pytest.mark.parametrize(("how", "right"), [("first", [None, None]), ("last", ["x", None])])
def test_of_two_at_one_place_none_is_the_smallest_value(
    database: duckdb.DuckDBPyConnection, how: str, right: list[Any]
) -> None:
    place = "'block_number': -1::BIGINT"
    nothing = f"{{{place}, 'value': NULL::VARCHAR}}"
    partials = f"(1, {nothing}), (1, {{{place}, 'value': 'x'}}), (1, NULL), (2, NULL)"
    assert results(database, how, partials) == right


def test_the_mean_of_a_sum_of_any_length_is_the_nearest_number(
    database: duckdb.DuckDBPyConnection,
) -> None:
    total = -int(
        "870990618660435720695873686978385075477292963315844356718115242899105989152015926"
        "1161159825578874974514753500"
    )
    partials = f"(1, {{'sum': '{total}', 'count': 2}}), (1, {{'sum': NULL, 'count': 0}})"
    assert results(database, "avg_exact", partials) == [total / 2]
