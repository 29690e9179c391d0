"""Ids that the database makes lie in the order in which they were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.conftest import StateDsns


@pytest.fixture
def dispatcher(state_dsns: StateDsns) -> str:
    return state_dsns.dispatcher


def test_ids_of_one_statement_are_in_the_order_in_which_they_were_made(dispatcher: str) -> None:
    with psycopg.connect(dispatcher) as connection:
        rows = connection.execute("SELECT uuid7()::text FROM generate_series(1, 5000)").fetchall()
    ids = [row[0] for row in rows]
    # All but the random rest: the milliseconds, and the part of the millisecond.
    moments = [made[:18] for made in ids]
    assert moments == sorted(moments)
    assert len(set(moments)) > len({made[:13] for made in ids}) * 10
    assert {made[14] for made in ids} == {"7"}
    assert {made[19] for made in ids} == set("89ab")
    assert len(set(ids)) == len(ids)


def test_an_id_lies_between_its_moments(dispatcher: str) -> None:
    with psycopg.connect(dispatcher, autocommit=True) as connection:
        found = [
            connection.execute(statement).fetchone()
            for _ in range(200)
            for statement in (
                "SELECT uuid7_at(clock_timestamp())::text",
                "SELECT uuid7()::text",
                "SELECT uuid7_at(clock_timestamp() + interval '1 us')::text",
            )
        ]
    ids = [row[0] for row in found if row]
    assert ids == sorted(ids)
