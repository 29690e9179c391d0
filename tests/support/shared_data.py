"""A data database for all tests of a file, for those that use tables of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from psycopg import sql

from trace_platform.app import databases

if TYPE_CHECKING:
    from tests.conftest import PostgresServer


@dataclass(frozen=True)
class SharedData:
    owner: str
    writer: str
    janitor: str
    query: str


@contextmanager
def shared_data(postgres: PostgresServer) -> Iterator[SharedData]:
    name, data = f"shared_{uuid4().hex}", databases.DATA
    names = [sql.Identifier(each) for each in (name, data.name, data.owner)]
    with postgres.admin() as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(*names))
        try:
            with postgres.admin(name) as inside:
                databases.allow_roles(inside, data, name)
            yield SharedData(*(postgres.dsn(role, name) for role in data.roles))
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(names[0]))
