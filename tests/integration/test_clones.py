"""What tests borrow is as empty as the first time, and is borrowed again."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.conftest import PostgresServer
from tests.support.clones import Clones
from trace_platform.app.instance import databases

_TABLES = "SELECT format('%I.%I', schemaname, relname) FROM pg_stat_user_tables ORDER BY 1"


def everything(inside: psycopg.Connection) -> dict[str, list[Any]]:
    tables = [name for (name,) in inside.execute(_TABLES).fetchall()]
    return {
        name: inside.execute(f"SELECT to_jsonb(t) FROM {name} t ORDER BY 1").fetchall()
        for name in tables
    }


def test_a_database_is_lent_again_as_it_was_made(postgres: PostgresServer) -> None:
    clones = Clones(postgres)
    with clones.lend(databases.STATE) as name, postgres.admin(name) as inside:
        made = everything(inside)
        sent = "INSERT INTO queue.messages (queue, body) VALUES ('q', '{}') RETURNING id"
        assert inside.execute(sent).fetchone() == (1,)
        inside.execute("UPDATE orgs SET name = 'of a test'")
        assert everything(inside) != made
    with clones.lend(databases.STATE) as again, postgres.admin(again) as inside:
        assert again == name
        assert everything(inside) == made
        assert inside.execute(sent).fetchone() == (1,)


def test_a_database_whose_schema_changed_is_not_lent_again(postgres: PostgresServer) -> None:
    clones = Clones(postgres)
    with clones.lend(databases.STATE) as name, postgres.admin(name) as inside:
        inside.execute("CREATE TABLE left_behind ()")
    with clones.lend(databases.STATE) as again:
        assert again != name
